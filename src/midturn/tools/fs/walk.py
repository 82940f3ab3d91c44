"""Walking through the folders of a workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.git import ignored
from midturn.tools.returned import Rejected

_LEFT_OUT = frozenset({".git", ".midturn"})


class Found(Struct, frozen=True):
    """A file, or a folder that was not entered because it is too deep. `path` is relative to the folder where the walk began."""

    path: PurePosixPath
    is_folder: bool = False


class TreeWalk:
    """Yields the files below a folder, by name, and follows no link. `unreadable` counts folders that could not be entered.

    Left out are git's and our own folders, and what git ignores, unless the walk begins inside of it.
    """

    def __init__(self, beneath: Beneath, start: PurePosixPath, max_depth: int | None = None) -> None:
        self.unreadable = 0
        self._beneath = beneath
        self._start = start
        self._max_depth = max_depth
        with beneath.folder(start):  # a wrong start is an error, not an empty walk
            self._ignored = ignored(beneath.root / start)

    def __iter__(self) -> Iterator[Found]:
        todo = [PurePosixPath()]
        while todo:
            folder = todo.pop()
            if self._max_depth is not None and len(folder.parts) >= self._max_depth:
                yield Found(folder, is_folder=True)
                continue
            folders: list[PurePosixPath] = []
            for path, is_folder in self._entries(folder):
                if is_folder:
                    folders.append(path)
                else:
                    yield Found(path)
            todo += reversed(folders)

    def _entries(self, folder: PurePosixPath) -> list[tuple[PurePosixPath, bool]]:
        try:
            with self._beneath.folder(self._start / folder) as descriptor, os.scandir(descriptor) as entries:
                named = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except (Rejected, OSError):
            self.unreadable += 1
            return []
        paths = [(folder / name, is_folder) for name, is_folder in named if name not in _LEFT_OUT]
        return [(path, is_folder) for path, is_folder in paths if (f"{path}/" if is_folder else str(path)) not in self._ignored]
