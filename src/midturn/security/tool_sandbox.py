"""The sandbox of one tool: what it declares, put around each of its processes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from midturn.security.confine import Confined, confine, confined, offer
from midturn.security.private_files import ensure_private, kept
from midturn.security.profile import Declared, Room, SandboxProfile, Workplace, first_refused, profile, programs_with_packages

_MASKED = ".midturn"


class Own(Struct, frozen=True, kw_only=True):
    """The user's own places: the home directory, what no tool may reach, and where tools may keep what they download."""

    home: Path
    private: tuple[Path, ...]
    cache: Path


class Started(Struct, frozen=True):
    """The start of a process in here, and its additional environment."""

    confined: Confined
    environment: Mapping[str, str]


class Box:
    """Confines the processes of one tool.

    Args:
        declared: What the configuration says of its sandbox.
        own: What is the user's own.
        key: The key of the tool in the configuration, such as `conversation.tools.deploy`.
        command: Its configured command. What it names with a full path may be read with the package around it: programs, scripts.
        network: Whether it has the network where nothing is declared.
    """

    def __init__(self, declared: Declared, own: Own, *, key: str = "", command: Sequence[str] = (), network: bool = False) -> None:
        self._declared = declared
        self._own = own
        self._key = key
        self._named = tuple(word for word in command if word.startswith("/"))
        self._network = network
        self._profiles: dict[tuple[Path, str], SandboxProfile] = {}

    @contextmanager
    def around(self, argv: Sequence[str], root: Path, cwd: str, path: str) -> Generator[Started]:
        """Make room for one process, which is gone afterwards. `path` is the `PATH` that it gets.

        Raises:
            OSError: There is no room.
        """
        if not self._declared.enable or offer().means == "none":
            yield Started(Confined(tuple(argv)), {})
            return
        root = root.resolve()
        room = Room(Path(tempfile.mkdtemp(prefix="midturn-")), self._cache(root))
        try:
            within = room.within(self.profile(root, path), programs=self._programs(argv[0], root))
            yield Started(confined(argv, within, cwd=cwd, masked=_masked(root)), room.environment())
        finally:
            shutil.rmtree(room.temporary, ignore_errors=True)

    def launched(self, argv: tuple[str, ...], root: Path, path: str) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the command line and the variables with which another program starts a process that stays (an MCP server)."""
        if not argv or not self._declared.enable or offer().means == "none":
            return argv, {}
        root = root.resolve()
        cache = self._cache(root)
        room = Room(cache / "tmp", cache)
        ensure_private(room.temporary)
        within = room.within(self.profile(root, path), programs=self._programs(argv[0], root))
        return confine(argv, within, cwd=str(root), masked=_masked(root)), room.environment()

    def profile(self, root: Path, path: str) -> SandboxProfile:
        """Return what a process of this tool may reach, apart from its room."""
        known = self._profiles.get((root, path))
        if known is None:
            stores = tuple(path for path in kept() if not (path.is_relative_to(root) or root.is_relative_to(path)))
            where = Workplace(root=root, home=self._own.home, private=(*self._own.private, *stores), path=path)
            known = self._profiles[root, path] = profile(self._declared, where, network=self._network)
        return known

    def advice(self, program: str, said: str, root: Path, path: str) -> str:
        """Return what a failed process is told of the sandbox; nothing where its words name no path that was kept from it.

        Args:
            program: The program that was started, with its full path.
            said: What it wrote to its standard error.
            root: The workspace.
            path: Its `PATH`.
        """
        if not self._declared.enable or offer().means == "none":
            return ""
        root = root.resolve()
        profile = self.profile(root, path)
        refused = first_refused(said, replace(profile, read=(*profile.read, *self._programs(program, root))))
        if refused is None:
            return ""
        if any(Path(refused).resolve().is_relative_to(one.resolve()) for one in self._own.private):
            return f"The sandbox keeps {refused} from it: midturn's own files are out of the reach of tools."
        return f"The sandbox keeps {refused} from it. If it needs that, let it: `{self._key}.sandbox.read = [{json.dumps(refused)}]`."

    def _programs(self, program: str, root: Path) -> tuple[str, ...]:
        """Return the program that is started, and those that the command names, with their packages."""
        where = Workplace(root=root, home=self._own.home, private=self._own.private)
        return programs_with_packages(dict.fromkeys((program, *self._named)), where)

    def _cache(self, root: Path) -> Path:
        found = self._own.cache / hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
        ensure_private(found)
        return found


def _masked(root: Path) -> tuple[str, ...]:
    """Return what of a workspace is empty inside, where that can be: our folder, and a store that lies elsewhere in it."""
    return (str(root / _MASKED), *(str(path) for path in kept() if path.is_relative_to(root) and path != root))
