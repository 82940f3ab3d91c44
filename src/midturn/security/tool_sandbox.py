"""The sandbox of one tool, applied to each process that the tool starts."""

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

from midturn.security.confine import Confined, confine, confined, sandbox_backend
from midturn.security.private_files import ensure_private, protected_paths
from midturn.security.profile import (
    Declared,
    SandboxAccess,
    SandboxProfile,
    WorkspacePaths,
    first_refused,
    profile,
    programs_with_packages,
)

_MASKED = ".midturn"


class UserPaths(Struct, frozen=True, kw_only=True):
    """The user's home, the directories that tools may not access, and the cache directory for
    tools.
    """

    home: Path
    private: tuple[Path, ...]
    cache: Path


class Started(Struct, frozen=True):
    """Command line of a sandboxed process, and the environment variables to add."""

    confined: Confined
    environment: Mapping[str, str]


class ToolSandbox:
    """Confines the processes of one tool.

    Args:
        declared: The tool's sandbox configuration.
        own: The user's directories.
        key: Key of the tool in the configuration, such as `conversation.tools.deploy`. Used in
            advice.
        command: The configured command. Absolute paths in it are readable, as are the packages that
            contain them.
        network: Whether the tool may use the network if the configuration does not set it.
    """

    def __init__(
        self,
        declared: Declared,
        own: UserPaths,
        *,
        key: str = "",
        command: Sequence[str] = (),
        network: bool = False,
    ) -> None:
        self._declared = declared
        self._own = own
        self._key = key
        self._named = tuple(word for word in command if word.startswith("/"))
        self._network = network
        self._profiles: dict[tuple[Path, str], SandboxProfile] = {}

    @contextmanager
    def around(self, argv: Sequence[str], root: Path, cwd: str, path: str) -> Generator[Started]:
        """Create the directories for one process, and delete the temporary directory afterwards.

        Args:
            argv: The command line to confine.
            root: The workspace.
            cwd: Working directory of the process.
            path: `PATH` of the process.

        Raises:
            OSError: The directories cannot be created.
        """
        if not self._declared.enable or sandbox_backend().means == "none":
            yield Started(Confined(tuple(argv)), {})
            return
        root = root.resolve()
        access = SandboxAccess(Path(tempfile.mkdtemp(prefix="midturn-")), self._cache(root))
        try:
            extended = access.within(
                self.profile(root, path), programs=self._programs(argv[0], root)
            )
            yield Started(
                confined(argv, extended, cwd=cwd, masked=_masked(root)), access.environment()
            )
        finally:
            shutil.rmtree(access.temporary, ignore_errors=True)

    def launched(
        self, argv: tuple[str, ...], root: Path, path: str
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the confined command line and the variables for a long-running process that
        another library starts.
        """
        if not argv or not self._declared.enable or sandbox_backend().means == "none":
            return argv, {}
        root = root.resolve()
        cache = self._cache(root)
        access = SandboxAccess(cache / "tmp", cache)
        ensure_private(access.temporary)
        extended = access.within(self.profile(root, path), programs=self._programs(argv[0], root))
        return confine(argv, extended, cwd=str(root), masked=_masked(root)), access.environment()

    def profile(self, root: Path, path: str) -> SandboxProfile:
        """Return the access permissions of this tool's processes, without their temporary directory
        and cache.
        """
        cached = self._profiles.get((root, path))
        if cached is None:
            stores = tuple(
                path
                for path in protected_paths()
                if not (path.is_relative_to(root) or root.is_relative_to(path))
            )
            where = WorkspacePaths(
                root=root, home=self._own.home, private=(*self._own.private, *stores), path=path
            )
            cached = self._profiles[root, path] = profile(
                self._declared, where, network=self._network
            )
        return cached

    def advice(self, program: str, said: str, root: Path, path: str) -> str:
        """Return a hint if a failed process reports a path that the sandbox denied.

        Return an empty string otherwise.

        Args:
            program: Absolute path of the started program.
            said: Standard error of the program.
            root: The workspace.
            path: `PATH` of the program.
        """
        if not self._declared.enable or sandbox_backend().means == "none":
            return ""
        root = root.resolve()
        profile = self.profile(root, path)
        refused = first_refused(
            said, replace(profile, read=(*profile.read, *self._programs(program, root)))
        )
        if refused is None:
            return ""
        if any(
            Path(refused).resolve().is_relative_to(private.resolve())
            for private in self._own.private
        ):
            return (
                f"The sandbox denied access to {refused}: tools cannot access midturn's own files."
            )
        return (
            f"The sandbox denied access to {refused}. To allow it, set `{self._key}.sandbox.read ="
            f" [{json.dumps(refused)}]`."
        )

    def _programs(self, program: str, root: Path) -> tuple[str, ...]:
        """Return the started program and the absolute paths in the configured command.

        The packages that contain them are included.
        """
        where = WorkspacePaths(root=root, home=self._own.home, private=self._own.private)
        return programs_with_packages(dict.fromkeys((program, *self._named)), where)

    def _cache(self, root: Path) -> Path:
        directory = self._own.cache / hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
        ensure_private(directory)
        return directory


def _masked(root: Path) -> tuple[str, ...]:
    """Return the workspace directories that appear empty inside the sandbox.

    They are `.midturn` and the stores elsewhere in the workspace.
    """
    return (
        str(root / _MASKED),
        *(str(path) for path in protected_paths() if path.is_relative_to(root) and path != root),
    )
