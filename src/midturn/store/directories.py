"""The directories of conversations: found by id, made so that no two get the same id."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from midturn.errors import StoreError
from midturn.store.folder import Folder, ensure_private, make_private, telling
from midturn.store.ids import conversation_id, conversation_number, slug

_NEW = ".new-"


class Directories:
    """The folders that hold conversations. New ones go into the first; an id is unique in all of them."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self._seen: dict[str, Path] = {}  # a name never changes, so whoever looks up many need not list them each time

    def all(self) -> list[tuple[str, Path]]:
        """Return every conversation's id and directory, the oldest first."""
        found = [(number, folder / name) for folder in self.folders for name in _names(folder) if (number := conversation_id(name))]
        directories = Counter(number for number, _ in found)
        self._seen = {number: path for number, path in found if directories[number] == 1}
        return sorted(found, key=lambda each: (int(each[0]), each[1]))

    def path(self, id: str) -> Path:
        """Return the directory of a conversation; `id` may be the directory's whole name, too.

        Raises:
            StoreError: There is none, or there are several.
        """
        seen = self._seen.get(id)
        if seen and seen.is_dir():
            return seen
        found = [path for number, path in self.all() if id in {number, path.name}]
        if not found:
            where = " and ".join(map(str, self.folders))
            raise StoreError(f"There is no conversation {id!r} in {where}. `midturn conversation ls` lists those that are there.")
        if len(found) > 1:
            listed = ", ".join(str(path) for path in found)
            raise StoreError(f"Several directories hold a conversation {id!r}: {listed}. Give the directory's whole name.")
        return found[0]

    @contextmanager
    def new(self, words: str, number: int | None = None) -> Generator[Folder]:
        """Make a directory for a conversation of now, or one whose id is `number` or, where that is taken, follows it.

        It has a hidden name until the `with` block is left, and goes away again where that fails.
        """
        number, building = self._claim(conversation_number() if number is None else number)
        folder = Folder.at(building)
        final = building.with_name(f"{number}-{slug(words)}")
        try:
            yield folder
            with telling("create", final):
                building.rename(final)
        except BaseException:
            folder.close()
            shutil.rmtree(building, ignore_errors=True)
            raise
        folder.path = final

    def _claim(self, number: int) -> tuple[int, Path]:
        """Take the first id from `number` on that nobody has. `mkdir` decides; of several folders, all are looked at after it."""
        with telling("create", self.folders[0]):
            ensure_private(self.folders[0])
        while True:
            building = self.folders[0] / f"{_NEW}{number}"
            with telling("create", building):
                try:
                    make_private(building)
                except FileExistsError:
                    number += 1
                    continue
                if not self._is_taken(number, building):
                    return number, building
                building.rmdir()
            number += 1

    def _is_taken(self, number: int, mine: Path) -> bool:
        claim = f"{_NEW}{number}"
        for folder in self.folders:
            for name in _names(folder):
                if conversation_id(name) == str(number) or (name == claim and folder / name != mine):
                    return True
        return False


def _names(folder: Path) -> list[str]:
    """Return the names of the real directories in a folder; a folder that is not there has none."""
    with telling("list", folder):
        try:
            with os.scandir(folder) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
