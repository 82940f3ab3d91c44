"""Finds the directories of conversations by ID, and creates directories with unique IDs."""

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
from midturn.security.private_files import ensure_private, make_private, protect, user_data
from midturn.stores import lock
from midturn.stores.folder import DIRECTORY, KEPT, STEPS, Folder, host, reporting_os_errors
from midturn.stores.index_cache import CachedList, ConversationList, IdList, IndexCache
from midturn.stores.log_tail import NAME as LOG, is_jp
from midturn.stores.metadata import NEW, REMOVED, conversation_id, conversation_number, slug
from midturn.stores.open_index import OpenIndex

# seconds without a change after which the unfinished directory of a conversation is considered
# abandoned
_ABANDONED_AFTER = 3600.0
_LIST = "ids"  # name of the saved list of all conversations


class Directories:
    """The folders that contain conversations. New conversations are created in the first folder.
    An ID is unique across all folders.

    A hidden symbolic link `.<id>` next to a conversation's directory points to the directory, so
    that the folder need not be listed. The link is created first, which reserves the ID.
    """

    def __init__(self, *folders: Path, found: Callable[[], None] | None = None) -> None:
        """`found` creates the first folder, and is called before the first write."""
        self.folders = folders
        self._found = found
        self._places = [(folder, str(folder)) for folder in folders]
        self._real = [protect(folder) for folder in folders]
        self._begun = False
        self._with_events: set[str] = set()
        self._all_linked = False

    def all(self) -> list[tuple[str, Path]]:
        """Return every conversation's id and directory, the oldest first."""
        return sorted(
            (number, folder / name)
            for folder in self.folders
            for name in _names(folder)
            if (number := conversation_id(name))
        )

    def ids(self) -> list[str]:
        """Return every conversation's ID, oldest first. A folder is listed again only if something
        was created or removed in it.

        A long list is saved, so that later processes need not list either.
        """
        return self._kept.ids()

    def newest_first(self) -> Iterator[str]:
        """Yield every conversation's ID, newest first. If only a few are needed, no list is
        built.
        """
        return self._kept.listed().newest_first()

    def _list(self) -> list[str]:
        return sorted(
            number
            for folder in self.folders
            for name in _names(folder)
            if (number := conversation_id(name))
        )

    def path(self, id: str) -> Path:
        """Return the directory of a conversation; `id` may also be the whole name of the
        directory.

        Raises:
            StoreError: No directory has this ID, or several directories have it.
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
            raise StoreError(
                f"Several directories have the conversation ID {id!r}: {listed}. Use the full name"
                " of the directory."
            )
        return found[0]

    def has(self, id: str) -> bool:
        """Return whether the conversation exists."""
        try:
            self.path(id)
        except StoreError:
            return False
        return True

    def check_free(self) -> None:
        """Check that no conversation is locked.

        Raises:
            StoreLocked: A conversation is locked; the message names the process.
        """
        for number in self.ids():
            with self.open(number) as folder:
                if holder := lock.holder_now(folder):
                    raise StoreLocked(
                        f"The turn of conversation {number} is running in {holder}.",
                        str(holder),
                        holder.since,
                    )

    def has_events(self, id: str) -> bool:
        """Return whether the conversation has events; True if the conversation cannot be read, so
        that the code that reads it reports the error.
        """
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
        """Whether a folder is in the user's data directory, where only a person may answer."""
        own = _real_path(user_data())
        return any(f"{real}/".startswith(f"{own}/") for real in self._real)

    @property
    def are_own(self) -> bool:
        """Whether the existing folders belong to the user of this process."""
        owners = {folder.stat().st_uid for folder in map(Path, self._real) if folder.exists()}
        return owners == {os.geteuid()}

    def place(self, id: str) -> str:
        """Return the path of a conversation's directory as text, read only from its hidden link.

        If there is no link, a path that does not exist is returned.
        """
        linked = (
            f"{place}/{name}" for _, place in self._places if (name := _linked_name(place, id))
        )
        return next(linked, f"{self._places[0][1]}/{id}")

    @contextmanager
    def new(self, words: str, wanted: str | None = None) -> Generator[Folder]:
        """Create a directory for a new conversation, with the ID `wanted` if that is free, or
        with an ID made from the current time.

        The directory has a hidden name until the `with` block ends, and is removed if the block
        fails.
        """
        with self._noting() as made, self._made(words, wanted) as (number, folder):
            yield folder
            made.append(number)

    @contextmanager
    def _made(self, words: str, wanted: str | None) -> Generator[tuple[str, Folder]]:
        number, name = (self._claim_this(wanted, slug(words)) if wanted else None) or self._claim(
            slug(words)
        )
        building, final = self.folders[0] / f"{NEW}{number}", self.folders[0] / name
        try:
            with reporting_os_errors("create", final):
                make_private(building)
            folder = Folder.at(building)
        except BaseException:
            self._give_back(number, building)
            raise
        try:
            yield number, folder
            with reporting_os_errors("create", final):
                building.rename(final)
        except BaseException:
            folder.close()
            self._give_back(number, building)
            raise
        folder.path = final

    def begun(self) -> Path:
        """Return the folder for new conversations, and create the folder if it is missing."""
        folder = self.folders[0]
        if not self._begun:
            if self._found:
                self._found()
            with reporting_os_errors("create", folder):
                ensure_private(folder)
                with os.scandir(folder) as entries:
                    is_new = not any(entry.is_dir(follow_symlinks=False) for entry in entries)
            if is_new:
                OpenIndex(folder).begin()
            self._begun = True
        return folder

    def forget(self, path: Path) -> None:
        """Remove the link to a conversation that was removed."""
        with suppress(OSError):
            (path.parent / f".{conversation_id(path.name)}").unlink()

    @cached_property
    def _kept(self) -> CachedList:
        return ConversationList(self._cache, self.folders, self._list)

    @cached_property
    def _cache(self) -> IndexCache[IdList]:
        return IndexCache(self.folders[0], _LIST, IdList)

    def _noting(self) -> AbstractContextManager[list[str]]:
        """Return a context that adds an ID to the saved list of all conversations, if there is
        such a list.
        """
        has_list = os.access(
            f"{self._places[0][1]}/{KEPT}/{_LIST}-{host()}{STEPS}", os.W_OK
        )  # only large stores have a saved list
        return self._cache.noting(self.folders[0]) if has_list else nullcontext(list[str]())

    def open(self, id: str) -> Folder:
        """Open the directory of a conversation.

        Raises:
            StoreError: No directory has this ID, several directories have it, or the directory
                cannot be opened.
        """
        for folder, place in self._places:
            name = _linked_name(place, id)
            if name:
                try:
                    return Folder(folder, os.open(f"{place}/{name}", DIRECTORY), name)
                except OSError:
                    continue  # `path` below reports the error
        return Folder.at(self.path(id))

    def _linked(self, id: str) -> Path | None:
        linked = ((folder, place, _linked_name(place, id)) for folder, place in self._places)
        return next(
            (
                folder / name
                for folder, place, name in linked
                if name and _is_directory(f"{place}/{name}")
            ),
            None,
        )

    def _listed(self) -> list[tuple[str, Path]]:
        """List all conversations. Conversations without a link (in a clone or an older store) get
        a link, unless several directories have the same ID.
        """
        found = self.all()
        several = Counter(number for number, _ in found)
        for number, path in found:
            if several[number] == 1:
                with suppress(OSError):  # the link exists, or the folder is not writable
                    (path.parent / f".{number}").symlink_to(path.name)
        return found

    def _is_taken(self, number: str) -> bool:
        """Return whether a conversation has this ID. The first call adds missing links."""
        if not self._all_linked:
            self._listed()
            self._all_linked = True
        return self._linked(number) is not None

    def _claim(self, words: str) -> tuple[str, str]:
        """Reserve the first free ID, counted from the current time.

        Creating the link reserves the ID in the first folder; then the other folders are checked.
        """
        folder = self.begun()
        for number in map(str, itertools.count(conversation_number())):
            name, link = f"{number}-{words}", folder / f".{number}"
            with reporting_os_errors("create", folder / name):
                try:
                    link.symlink_to(name)
                except FileExistsError:
                    continue
            if not any(os.path.lexists(other / f".{number}") for other in self.folders[1:]):
                return number, name
            link.unlink()
        raise AssertionError("numbers do not end")

    def _claim_this(self, number: str, words: str) -> tuple[str, str] | None:
        """Reserve this ID, unless a conversation has it. The unfinished directory of a process that
        died is removed.
        """
        folder = self.begun()
        if conversation_id(f"{number}-{words}") != number or self._is_taken(number):
            return None
        name, link = f"{number}-{words}", folder / f".{number}"
        _remove(folder / f"{NEW}{number}")
        with reporting_os_errors("create", folder / name):
            link.unlink(missing_ok=True)
            try:
                link.symlink_to(name)
            except FileExistsError:  # another process has just reserved this ID
                return None
        return number, name

    def _give_back(self, number: str, building: Path) -> None:
        _remove(building)
        with suppress(OSError):
            (self.folders[0] / f".{number}").unlink()


@cache
def _real_path(path: Path) -> str:
    """Resolve a path, and cache the result for the whole process: each store resolves the user's
    data directory, which does not move.
    """
    return os.path.realpath(path)


def _linked_name(place: str, id: str) -> str | None:
    """Follow the link of an id in a folder.

    A link is ignored unless its target is a name with this id.
    """
    try:
        name = os.readlink(f"{place}/.{id}") if id.isdecimal() else id  # noqa: PTH115  called for each lookup
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
    """Return the names of the directories in a folder that may be conversations. Return no names if
    the folder does not exist.

    Directories that a killed process has not finished creating or removing are removed.
    """
    names: list[str] = []
    with reporting_os_errors("list", folder):
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
    """Remove an unfinished directory that has not changed for an hour, and its link if the target
    of the link does not exist.
    """
    with suppress(OSError):
        if (
            not left.is_dir(follow_symlinks=False)
            or left.stat(follow_symlinks=False).st_mtime > time.time() - _ABANDONED_AFTER
        ):
            return
        _remove(folder / left.name)
        number = left.name.removeprefix(NEW).removeprefix(REMOVED).partition("-")[0]
        link = folder / f".{number}"
        if number.isdecimal() and link.is_symlink() and not link.exists():
            link.unlink()


def remove_tree(unused: Path) -> None:
    """Remove a directory with everything in it.

    Raises:
        OSError: A file cannot be removed.
    """
    import shutil  # rarely needed

    shutil.rmtree(unused)


def _remove(unused: Path) -> None:
    """Remove an unfinished directory as far as possible. Remaining files are removed later."""
    with suppress(OSError):
        remove_tree(unused)
