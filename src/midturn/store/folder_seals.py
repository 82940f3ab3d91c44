"""The seals of the folders of a store: which are sealed, what is checked of a conversation, and what is sealed anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from midturn.core.stream import open_turn
from midturn.store import lock
from midturn.store.folder import Folder
from midturn.store.handover import FileAnswers
from midturn.store.ids import conversation_in
from midturn.store.port import LastTurn
from midturn.store.seal import SealChain, Seals, SealVerdict, turns_of


class FolderSeals:
    """Each folder's seals; a folder that is no workspace's and not the user's own has none, unless that is wanted."""

    def __init__(self, folders: Sequence[tuple[Path, str]], *, wanted: bool = False) -> None:
        """Seal in `folders`, each with its real path; where it is `wanted`, in all of them."""
        self._folders = folders
        self._wanted = wanted
        self._known: dict[Path, Seals] | None = None

    @property
    def _of(self) -> dict[Path, Seals]:
        if self._known is None:
            self._known = {folder: seals for folder, real in self._folders if (seals := Seals.of(real, wanted=self._wanted))}
        return self._known

    @property
    def lacks_key(self) -> bool:
        """Whether what is written in the first folder should be sealed, and cannot be."""
        seals = self._of.get(self._folders[0][0])
        return seals is not None and seals.key is None

    def chain(self, folder: Folder) -> SealChain | None:
        """Return the chain of a conversation, given its directory."""
        of = self._of
        seals = of.get(folder.path.parent) if of else None
        return seals.chain(conversation_in(folder.name)) if seals else None

    def last_turn(self, folder: Folder) -> LastTurn:
        """Read the last turn of a conversation, and find out whether it was begun and decided here."""
        from midturn.store.reader import EventReader  # who begins a conversation reads none

        chain = self.chain(folder)
        handed = FileAnswers(folder, chain).collect()  # before the events: what is not there any more is recorded by then
        with EventReader(folder) as events:
            turn = events.last_turn()
            foreign = chain is not None and open_turn(turn) is not None and chain.follow(events.last_lines()) != "sealed"
            return LastTurn(turn, handed, foreign, chain is not None)

    def verdicts(self, folder: Folder, lines: Sequence[bytes] | None = None) -> list[SealVerdict] | None:
        """Say for each turn of a conversation, or of `lines` that were read of it, whether its seals hold; None where it has none."""
        chain = self.chain(folder)
        if chain is None:
            return None
        if lines is None:
            from midturn.store.reader import EventReader  # as above

            with EventReader(folder) as events:
                lines = events.lines()
        return [chain.follow(turn) for turn in turns_of(lines)]

    async def write(self, folder: Folder, how: Callable[[Folder, SealChain], None]) -> None:
        """Write the last turn of a conversation anew, under its lock.

        Raises:
            StoreLocked: Somebody writes it.
        """
        chain = self.chain(folder)
        if chain is None:
            return
        held = await lock.Lock.take(folder, lock.for_a_moment())
        try:
            how(folder, chain)
        finally:
            held.release()
