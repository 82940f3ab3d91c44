"""The directories of conversations: found by id, made so that no two get the same id."""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, cached_property
from pathlib import Path

from midturn.errors import NoConversation, StoreError, StoreLocked
from midturn.security.private_files import ensure_private, keep, make_private, user_data
from midturn.stores import lock
from midturn.stores.folder import DIRECTORY, KEPT, STEPS, Folder, host, telling
from midturn.stores.index_cache import Derived, GrowingList, KeptList, Listed
from midturn.stores.log_tail import NAME as LOG, is_jp
from midturn.stores.metadata import NEW, REMOVED, conversation_id, conversation_number, slug
from midturn.stores.open_index import OpenIndex

_LEFT = 3600.0  # seconds after which no process still makes a conversation, or removes it
_LIST = "ids"  # what the list of all conversations is called where it is kept for other processes


class Directories:
    """The folders that hold conversations. New ones go into the first; an id is unique in all of them.

    A hidden link `.<id>` beside a conversation's directory leads to it, so that the folder need not be listed. It is made before the
    directory and claims the id.
    """

    def __init__(self, *folders: Path, found: Callable[[], None] | None = None) -> None:
        """`found` makes the first folder, before anything is written there."""
        self.folders = folders
        self._found = found
        self._places = [(folder, str(folder)) for folder in folders]
        self._real = [keep(folder) for folder in folders]
        self._begun = False
        self._with_events: set[str] = set()
        self._all_linked = False

    def all(self) -> list[tuple[str, Path]]:
        """Return every conversation's id and directory, the oldest first."""
        return sorted((number, folder / name) for folder in self.folders for name in _names(folder) if (number := conversation_id(name)))

    def ids(self) -> list[str]:
        """Return every conversation's id, the oldest first. A folder is listed again only where something was made or removed in it.

        That is so for processes that come later, too: a long list is kept for them.
        """
        return self._kept.ids()

    def newest_first(self) -> Iterator[str]:
        """Yield every conversation's id, the newest first: who wants a few pays for no list."""
        return self._kept.listed().newest_first()

    def _list(self) -> list[str]:
        return sorted(number for folder in self.folders for name in _names(folder) if (number := conversation_id(name)))

    def path(self, id: str) -> Path:
        """Return the directory of a conversation; `id` may be the directory's whole name, too.

        Raises:
            StoreError: There is none, or there are several.
        """
        linked = self._linked(id)
        if linked:
            return linked
        found = [path for number, path in self._listed() if id in {number, path.name}]
        if not found:
            where = " and ".join(map(str, self.folders))
            raise NoConversation(f"There is no conversation {id!r} in {where}.")
        if len(found) > 1:
            listed = ", ".join(str(path) for path in found)
            raise StoreError(f"Several directories hold a conversation {id!r}: {listed}. Give the directory's whole name.")
        return found[0]

    def has(self, id: str) -> bool:
        """Say whether there is such a conversation."""
        try:
            self.path(id)
        except StoreError:
            return False
        return True

    def check_free(self) -> None:
        """Refuse to go on where any conversation is held.

        Raises:
            StoreLocked: Its holder is named.
        """
        for number in self.ids():
            with self.open(number) as folder:
                if holder := lock.holder_now(folder):
                    raise StoreLocked(f"The turn of conversation {number} is running in {holder}.", str(holder), holder.since)

    def has_events(self, id: str) -> bool:
        """Say whether anything is recorded; what once was stays so, and one that cannot be looked at is for its reader to complain of."""
        if id in self._with_events:
            return True
        try:
            path = self.path(id)
            size = (path / LOG).lstat().st_size if (path / LOG).exists() else is_jp(path)
        except (OSError, StoreError):
            return True
        if size:
            self._with_events.add(id)
        return bool(size)

    @cached_property
    def are_for_people(self) -> bool:
        """Whether they lie in the user's own directories, where only a person answers."""
        own = _real_path(user_data())
        return any(f"{real}/".startswith(f"{own}/") for real in self._real)

    @property
    def are_own(self) -> bool:
        """Whether the folders that are there belong to the user of this process."""
        owners = {folder.stat().st_uid for folder in map(Path, self._real) if folder.exists()}
        return owners == {os.geteuid()}

    def place(self, id: str) -> str:
        """Return the directory of a conversation as a text, by its link alone; nothing is at the end of one that there is no link to."""
        linked = (f"{place}/{name}" for _, place in self._places if (name := _linked_name(place, id)))
        return next(linked, f"{self._places[0][1]}/{id}")

    @contextmanager
    def new(self, words: str, wanted: str | None = None) -> Generator[Folder]:
        """Make a directory for a conversation of now, or for one whose id `wanted` is, where that is free.

        It has a hidden name until the `with` block is left, and goes away again where that fails.
        """
        with self._noting() as made, self._made(words, wanted) as (number, folder):
            yield folder
            made.append(number)

    @contextmanager
    def _made(self, words: str, wanted: str | None) -> Generator[tuple[str, Folder]]:
        number, name = (self._claim_this(wanted, slug(words)) if wanted else None) or self._claim(slug(words))
        building, final = self.folders[0] / f"{NEW}{number}", self.folders[0] / name
        try:
            with telling("create", final):
                make_private(building)
            folder = Folder.at(building)
        except BaseException:
            self._give_back(number, building)
            raise
        try:
            yield number, folder
            with telling("create", final):
                building.rename(final)
        except BaseException:
            folder.close()
            self._give_back(number, building)
            raise
        folder.path = final

    def begun(self) -> Path:
        """Return the folder that new conversations go into; it is made where there is none."""
        folder = self.folders[0]
        if not self._begun:
            if self._found:
                self._found()
            with telling("create", folder):
                ensure_private(folder)
                with os.scandir(folder) as entries:
                    is_new = not any(entry.is_dir(follow_symlinks=False) for entry in entries)
            if is_new:
                OpenIndex(folder).begin()
            self._begun = True
        return folder

    def forget(self, path: Path) -> None:
        """Take away the link to a conversation that was removed."""
        with suppress(OSError):
            (path.parent / f".{conversation_id(path.name)}").unlink()

    @cached_property
    def _kept(self) -> KeptList:
        return GrowingList(self._derived, self.folders, self._list)

    @cached_property
    def _derived(self) -> Derived[Listed]:
        return Derived(self.folders[0], _LIST, Listed)

    def _noting(self) -> AbstractContextManager[list[str]]:
        """Have what is made in a block noted, where a list of all conversations is kept that it is to be added to."""
        has_list = os.access(f"{self._places[0][1]}/{KEPT}/{_LIST}-{host()}{STEPS}", os.W_OK)  # few have so many conversations
        return self._derived.noting(self.folders[0]) if has_list else nullcontext(list[str]())

    def open(self, id: str) -> Folder:
        """Open the directory of a conversation.

        Raises:
            StoreError: There is none, or there are several; or it cannot be opened.
        """
        for folder, place in self._places:
            name = _linked_name(place, id)
            if name:
                try:
                    return Folder(folder, os.open(f"{place}/{name}", DIRECTORY), name)
                except OSError:
                    continue  # what is wrong with it is said below
        return Folder.at(self.path(id))

    def _linked(self, id: str) -> Path | None:
        linked = ((folder, place, _linked_name(place, id)) for folder, place in self._places)
        return next((folder / name for folder, place, name in linked if name and _is_directory(f"{place}/{name}")), None)

    def _listed(self) -> list[tuple[str, Path]]:
        """List everything, once: what has no link yet (a clone, an older store) gets one, unless several directories have its id."""
        found = self.all()
        several = Counter(number for number, _ in found)
        for number, path in found:
            if several[number] == 1:
                with suppress(OSError):  # it is there, or nothing can be written here
                    (path.parent / f".{number}").symlink_to(path.name)
        return found

    def _is_taken(self, number: str) -> bool:
        """Say whether a conversation has this id; what has no link yet gets one, once."""
        if not self._all_linked:
            self._listed()
            self._all_linked = True
        return self._linked(number) is not None

    def _claim(self, words: str) -> tuple[str, str]:
        """Take the first free id from now on. The link decides; of several folders, all are looked at after it."""
        folder = self.begun()
        for number in map(str, itertools.count(conversation_number())):
            name, link = f"{number}-{words}", folder / f".{number}"
            with telling("create", folder / name):
                try:
                    link.symlink_to(name)
                except FileExistsError:
                    continue
            if not any(os.path.lexists(other / f".{number}") for other in self.folders[1:]):
                return number, name
            link.unlink()
        raise AssertionError("numbers do not end")

    def _claim_this(self, number: str, words: str) -> tuple[str, str] | None:
        """Take an id, unless a conversation has it. What a process that died left half made is taken away."""
        folder = self.begun()
        if conversation_id(f"{number}-{words}") != number or self._is_taken(number):
            return None
        name, link = f"{number}-{words}", folder / f".{number}"
        _remove(folder / f"{NEW}{number}")
        with telling("create", folder / name):
            link.unlink(missing_ok=True)
            try:
                link.symlink_to(name)
            except FileExistsError:  # another process does the same right now
                return None
        return number, name

    def _give_back(self, number: str, building: Path) -> None:
        _remove(building)
        with suppress(OSError):
            (self.folders[0] / f".{number}").unlink()


@cache
def _real_path(path: Path) -> str:
    """Resolve a path once in a process: the user's data directory is asked for by each store, and stays where it is."""
    return os.path.realpath(path)


def _linked_name(place: str, id: str) -> str | None:
    """Follow the link of an id in a folder. One that leads anywhere but to a name with this id is ignored."""
    try:
        name = os.readlink(f"{place}/.{id}") if id.isdecimal() else id  # noqa: PTH115  it is asked for each look
    except OSError:
        return None
    number = conversation_id(name)
    return name if number and id in (number, name) else None


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _names(folder: Path) -> list[str]:
    """Return the names of the real directories in a folder that may be those of conversations; a folder that is not there has none.

    What a killed process has left half made or half removed goes away.
    """
    names: list[str] = []
    with telling("list", folder):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name[:1].isdigit():
                        names += [entry.name] if entry.is_dir(follow_symlinks=False) else []
                    elif entry.name.startswith((NEW, REMOVED)):
                        _sweep(folder, entry)
        except FileNotFoundError:
            return []
    return names


def _sweep(folder: Path, left: os.DirEntry[str]) -> None:
    """Take away a directory in which nothing was made or removed for an hour, with the link that leads to nothing else."""
    with suppress(OSError):
        if not left.is_dir(follow_symlinks=False) or left.stat(follow_symlinks=False).st_mtime > time.time() - _LEFT:
            return
        _remove(folder / left.name)
        number = left.name.removeprefix(NEW).removeprefix(REMOVED).partition("-")[0]
        link = folder / f".{number}"
        if number.isdecimal() and link.is_symlink() and not link.exists():
            link.unlink()


def remove_tree(unused: Path) -> None:
    """Remove a directory with everything in it.

    Raises:
        OSError: Something of it cannot be removed.
    """
    import shutil  # what was begun is nearly always finished, and kept

    shutil.rmtree(unused)


def _remove(unused: Path) -> None:
    """Remove what was left half made, as far as it can be: what stays is found again."""
    with suppress(OSError):
        remove_tree(unused)
