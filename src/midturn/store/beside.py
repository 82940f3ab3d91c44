"""Small things kept beside conversations by name, in files and in memory, such as pairings of people with accounts elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote, unquote

from midturn.files import ensure_private, read_private, write_private
from midturn.store.directories import Directories
from midturn.store.folder import telling

_FOLDER = "beside"


class MemoryBeside:
    """In memory."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return what is kept under names with this beginning."""
        return {name: content for name, content in self._kept.items() if name.startswith(beginning)}

    async def keep(self, name: str, content: bytes | None) -> None:
        """Keep something under a name."""
        if content is None:
            self._kept.pop(name, None)
        else:
            self._kept[name] = content


class FilesBeside:
    """A file for each, which only its owner can read, in a folder beside the conversations."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return what is kept under names with this beginning."""
        folder = self._directories.folders[0] / _FOLDER
        try:
            names = sorted(name for name in map(unquote, os.listdir(folder)) if name.startswith(beginning))  # noqa: PTH208  texts are enough
        except FileNotFoundError:
            return {}
        found = {name: read_private(folder / _file(name)) for name in names}
        return {name: content for name, content in found.items() if content is not None}

    async def keep(self, name: str, content: bytes | None) -> None:
        """Keep something under a name."""
        path = self._directories.begun() / _FOLDER / _file(name)
        with telling("write", path):
            if content is None:
                path.unlink(missing_ok=True)
                return
            ensure_private(path.parent)
            write_private(path, content)


def _file(name: str) -> str:
    return quote(name, safe="")
