"""A file beside conversations that is computed from their logs, so that the next process need not read all: `index/<name>-<host>`.

It can be thrown away at any time. What is missing, broken, of another version or of before the machine was started is made again, and what
it says of a conversation counts only while the files of that are as they were when they were read. It is written in one go, by rename: two
processes that make it at once do not meet, and one that is killed leaves the old one. It is never synced, and where it cannot be written,
it is not there. It is one host's own, as time stamps are.

Why no database: SQLite loads 100,000 such rows in 100 ms and writes them in 120, after 14 ms for its module; this is loaded in 40 and
written in 10. A row alone is changed faster there; but logs change without a word to any index, so all of them are compared anyway.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import dropwhile
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from midturn.errors import StoreError
from midturn.stores.folder import KEPT, STEPS, Folder, boot, host

_VERSION: Final = 2
_CLOCK_STEP: Final = 2_000_000_000  # nanoseconds: no file system's clock takes longer steps
_MANY: Final = 1_000  # names that are worth keeping for other processes
_PAUSE: Final = 60.0  # seconds between two times that one process keeps the same list
_MOST_STEPS: Final = 100_000  # bytes
_T = TypeVar("_T")


class Derived(Generic[_T]):
    """One such file: the one with this name in the folder `conversations`."""

    def __init__(self, conversations: Path, name: str, kind: type[_T]) -> None:
        self._conversations = conversations
        self._name = name
        self._kind = kind

    def load(self) -> _T | None:
        """Return what the file holds; None where it cannot be used."""
        try:
            with Folder.at(self._conversations) as conversations, conversations.inside(KEPT) as folder:
                head, _, content = folder.read(self._file).partition(b"\n")
            return msgspec.msgpack.decode(content, type=self._kind) if head == _head(content) else None
        except (OSError, StoreError, ValueError):  # there is none, or it is broken: msgspec's errors are ValueErrors
            return None

    def save(self, held: _T) -> None:
        """Put a whole new file in the place of the old one, where that can be done."""
        content = msgspec.msgpack.encode(held)
        with suppress(OSError, StoreError), Folder.at(self._conversations) as conversations:
            with suppress(FileExistsError):
                os.mkdir(KEPT, 0o700, dir_fd=conversations.fd)
            with conversations.inside(KEPT) as folder:
                _sweep(folder, f".{self._file}.")
                temporary = f".{self._file}.{os.getpid()}"
                folder.write_unsynced(temporary, b"%s\n%s" % (_head(content), content))
                os.replace(temporary, self._file, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)

    @property
    def _file(self) -> str:
        return f"{self._name}-{host()}"

    # Steps: what has become of it since it was saved ----------------------------------------------------------------------

    def begin_steps(self) -> None:
        """Have steps be noted from now on; what was noted before belongs to what was saved before."""
        with suppress(OSError, StoreError), Folder.at(self._conversations) as conversations, conversations.inside(KEPT) as folder:
            temporary = f".{self._file}{STEPS}.{os.getpid()}"
            with suppress(FileExistsError):
                folder.write_unsynced(temporary, b"")
            os.replace(temporary, f"{self._file}{STEPS}", src_dir_fd=folder.fd, dst_dir_fd=folder.fd)

    @contextmanager
    def noting(self, folder: Path) -> Generator[list[str]]:
        """Note the id that the block puts into a list as a step of `folder`, where steps are noted and nothing else is made meanwhile.

        Of two processes that make something at once, the one that comes second ends the notes: neither of both could tell its step.
        """
        made: list[str] = []
        fd = self._opened_steps()
        if fd < 0:
            yield made
            return
        try:
            before = folder_state(folder)
            yield made
            step = Step(before, folder_state(folder), "".join(made))
            if step.is_alone:
                with suppress(OSError):
                    os.write(fd, msgspec.json.encode(step) + b"\n")
        finally:
            os.close(fd)

    def _opened_steps(self) -> int:
        """Open what steps are noted in, for us alone; -1 where that is not to be."""
        with suppress(OSError, StoreError), Folder.at(self._conversations) as conversations, conversations.inside(KEPT) as folder:
            fd, found = folder.opened(f"{self._file}{STEPS}", os.O_WRONLY | os.O_APPEND)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                folder.remove(f"{self._file}{STEPS}")
                return -1
            if found.st_size < _MOST_STEPS:
                return fd
            os.close(fd)
        return -1

    def steps(self) -> list[Step]:
        """Return all steps; none where any cannot be read."""
        try:
            with Folder.at(self._conversations) as conversations, conversations.inside(KEPT) as folder:
                lines = folder.read(f"{self._file}{STEPS}").splitlines()
            return [msgspec.json.decode(line, type=Step) for line in lines]
        except (OSError, StoreError, ValueError):  # as in `load`
            return []


def _sweep(folder: Folder, beginning: str) -> None:
    """Take away what processes have left half written that were killed; the one that writes right now makes it again the next time."""
    for left in folder.names():
        if left.startswith(beginning):
            with suppress(FileNotFoundError):
                folder.remove(left)


def _head(content: bytes) -> bytes:
    """Return the first line: what a file must begin with to hold this content, written since the machine was started."""
    return b"midturn %d %s %08x" % (_VERSION, boot().encode(), zlib.crc32(content))


# ----------------------------------------------------------------------------------------------------------------------
# Lists of names, such as those of all conversations


FolderState: TypeAlias = tuple[int, int, int, int]
"""Identity of a folder, time of its last new or removed name in nanoseconds, and a sum over its names."""
_NOWHERE: Final = (0, 0, 0, 0)


def folder_state(folder: Path) -> FolderState:
    """Return what changes with each name in a folder; zeros where there is none.

    Most file systems count the directories in one, or the bytes of its names: so two changes in the same step of the clock tell, too.
    """
    try:
        found = os.stat(folder)  # noqa: PTH116  it is asked for with each new conversation
    except OSError:
        return _NOWHERE
    return found.st_ino, found.st_mtime_ns, found.st_nlink, found.st_size


class Step(Struct, frozen=True, array_like=True):
    """A change of a folder: the directory of the conversation `id` came or went."""

    before: FolderState
    after: FolderState
    id: str

    @property
    def is_alone(self) -> bool:
        """Say whether there is one directory more, where they are counted: nothing else was made meanwhile."""
        return bool(self.id) and self.before[0] == self.after[0] and self.after[2] - self.before[2] == (1 if self.before[2] > 1 else 0)


class Listed(Struct, dict=True):
    """Ids, the oldest first, and what the folders were when they were listed.

    They are kept as lines of one text: a command that wants the newest of 100,000 takes them from its end, and makes no others.
    """

    states: list[FolderState]
    lines: str

    @classmethod
    def of(cls, states: list[FolderState], ids: list[str]) -> Listed:
        """Return these ids."""
        listed = cls(states, "\n".join(ids))
        vars(listed)["ids"] = ids
        return listed

    @cached_property
    def ids(self) -> list[str]:
        """All of them."""
        return self.lines.split("\n") if self.lines else []

    def newest_first(self) -> Iterator[str]:
        """Yield one after the other."""
        end = len(self.lines)
        while end > 0:
            begin = self.lines.rfind("\n", 0, end)
            yield self.lines[begin + 1 : end]
            end = begin

    def grown(self, states: list[FolderState], made: Sequence[str]) -> Listed:
        """Return it with more ids, of which the oldest mostly is newer than all that were there."""
        if made and min(made) > next(self.newest_first(), ""):
            return Listed(states, "\n".join([*filter(None, [self.lines]), *sorted(made)]))
        return Listed.of(states, sorted([*self.ids, *made]))


class KeptList:
    """The ids that folders name. They are listed again only where a name was made or removed, by processes that come later, too.

    Args:
        derived: Where a long list is kept.
        folders: The folders.
        listing: Lists them.
    """

    def __init__(self, derived: Derived[Listed], folders: Sequence[Path], listing: Callable[[], list[str]]) -> None:
        self._derived = derived
        self._folders = folders
        self._listing = listing
        self._kept: Listed | None = None
        self._saved = -_PAUSE

    def ids(self) -> list[str]:
        """Return the ids, the oldest first."""
        return self.listed().ids

    def listed(self) -> Listed:
        """Return the list as it is now."""
        states, began = [*map(folder_state, self._folders)], time.time_ns()
        kept = self._kept = self._kept or self._derived.load() or Listed([], "")
        if states == kept.states:
            return kept
        if followed := self._followed(kept, states):
            self._kept = followed
            return followed
        found = Listed.of(states, self._listing())
        if _NOWHERE in states or max(state[1] for state in states) + _CLOCK_STEP > began:
            return found  # what is made in the same step of the clock might not be noticed
        self._kept = found
        if len(found.ids) >= _MANY and time.monotonic() - self._saved >= _PAUSE:
            self._saved = time.monotonic()
            self._save(found)
        return found

    def _followed(self, kept: Listed, states: list[FolderState]) -> Listed | None:
        """Return what the list has become, where that is known without listing anything."""
        del kept, states

    def _save(self, found: Listed) -> None:
        self._derived.save(found)


class GrowingList(KeptList):
    """One of conversations: where each change of the first folder since is a step that was noted, the new ids are added to the old ones.

    So a conversation that was begun just now has nothing listed again. Where anything else was made or removed, the steps lead nowhere.
    """

    def _followed(self, kept: Listed, states: list[FolderState]) -> Listed | None:
        if not kept.states or states[1:] != kept.states[1:]:
            return None
        at, made = kept.states[0], list[str]()
        for step in dropwhile(lambda step: step.before != kept.states[0], self._derived.steps()):
            if step.before != at:
                return None
            at = step.after
            made.append(step.id)
        return kept.grown(states, made) if at == states[0] else None

    def _save(self, found: Listed) -> None:
        super()._save(found)
        self._derived.begin_steps()
