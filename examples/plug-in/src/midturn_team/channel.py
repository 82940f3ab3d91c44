"""`[channels.desk] kind = "spool"`: cards and replies are files in a directory shared by the
users of one machine.

A reply is a file in `replies` with the name of its card. The owner of the file is the responder,
so users cannot impersonate each other. Write the reply elsewhere and move it there, because it is
read as soon as it exists.
"""

import asyncio
import os
import pwd
import secrets
import stat
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

from midturn.channels.port import Card, Fits, Memory, Reply

LONGEST = 100_000


class Spool:
    """A directory with `cards` and `replies`."""

    kind = "spool"
    fits = Fits(text=LONGEST, buttons=0, how="write a file of this name into `replies`")

    def __init__(self, folder: str) -> None:
        self._cards, self._replies = Path(folder, "cards"), Path(folder, "replies")

    async def open(self, memory: Memory) -> None:
        """Create the directories. Everyone can write replies and remove only their own."""
        del memory
        self._cards.mkdir(parents=True, exist_ok=True)
        self._replies.mkdir(exist_ok=True)
        self._replies.chmod(0o1777)

    async def send(self, card: Card) -> str:
        """Write a card; its name is its handle."""
        handle = secrets.token_hex(8)
        await self.update(handle, card)
        return handle

    async def update(self, handle: str, card: Card) -> None:
        """Replace a card atomically."""
        parts = (card.notice, card.heading, card.text, "\n".join(card.lines), card.hint, card.left)
        new = self._cards / f"{handle}.new"
        new.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
        new.rename(self._cards / f"{handle}.txt")

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield the replies.

        A file is removed when the next one is requested, after its answer was recorded.
        """
        while True:
            for path in sorted(self._replies.glob("*.txt")):
                with suppress(OSError):  # a link, a directory, or removed: not a reply
                    owner, text = _written(path)
                    if text:
                        yield Reply(account=owner, id=path.name, handle=path.stem, text=text)
                        path.unlink()
            await asyncio.sleep(0.2)

    async def close(self) -> None:
        """Do nothing; nothing is held open."""


def _written(path: Path) -> tuple[str, str]:
    """Return a file's owner and content, or nothing if it is hard-linked, because the other name
    may belong to another user.
    """
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(number, encoding="utf-8", errors="replace") as file:
        found = os.fstat(number)
        is_own = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        return pwd.getpwuid(found.st_uid).pw_name, file.read(LONGEST) if is_own else ""
