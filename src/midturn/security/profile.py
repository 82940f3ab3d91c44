"""Computes the paths that a tool's process may access: system files, its workspace, and the paths
in its configuration.
"""

# No `from __future__ import annotations`: msgspec would compile each annotation from its text each
# time the program starts.

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

_SYSTEM_PATHS: Final = (
    *(
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/opt",
        "/nix",
        "/snap",
        "/gnu",
    ),
    *("/System", "/Library/Apple", "/Library/Developer", "/Library/Frameworks"),
    *("/private/var/db/dyld", "/private/var/db/timezone", "/private/var/select"),
    *(
        "/proc",
        "/sys",
        "/run/systemd/resolve",
        "/run/resolvconf",
        "/var/lib/ca-certificates",
        "/var/cache/fontconfig",
    ),
)
_DEVICES: Final = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/shm",  # noqa: S108 (shared memory)
)
_ETC_SECRETS: Final = frozenset(
    {
        *(
            "shadow",
            "shadow-",
            "gshadow",
            "gshadow-",
            "sudoers",
            "sudoers.d",
            "ssh",
            "ssl/private",
            "krb5.keytab",
            "security",
        ),
        *("wireguard", "master.passwd"),
    }
)
_HOME_PATHS: Final = (
    *(".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes"),
    *(
        ".nvm",
        ".fnm",
        ".volta",
        ".npm",
        ".bun",
        ".deno",
        ".pyenv",
        ".rbenv",
        ".gem",
        ".asdf",
        ".rustup",
        "go",
        ".m2/repository",
    ),
    *(
        ".cargo/bin",
        ".cargo/registry",
        ".cargo/git",
        ".cache/uv",
        ".cache/pip",
        ".cache/pnpm",
        ".cache/yarn",
    ),
    *(
        ".local/bin",
        ".local/lib",
        ".local/share/uv",
        ".local/share/pipx",
        ".local/share/pnpm",
        ".local/share/mise",
    ),
)

_PACKAGE_MARKERS: Final = (
    "package.json",
    "pyproject.toml",
    "setup.py",
    "pyvenv.cfg",
    "Cargo.toml",
    "go.mod",
    "Gemfile",
    "deno.json",
)
_ACCESS_ERROR: Final = re.compile(
    r"EACCES|EPERM|Errno 13|[Pp]ermission denied|[Oo]peration not permitted|ENOENT|No such file",
    re.ASCII,
)
_NAMED_PATH: Final = re.compile(r"""'(/[^'\n]+)'|"(/[^"\n]+)"|(/[^\s'"`:,;()<>\[\]]+)""")


class Declared(Struct, frozen=True, kw_only=True):
    """Sandbox settings in a tool's configuration: paths and network access.

    Paths are relative to the workspace, and `~` is the home directory. If `network` is None, MCP
    servers may use the network and local tools may not. `enable = false` disables the sandbox.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool | None = None
    enable: bool = True


class SandboxProfile(Struct, frozen=True, kw_only=True):
    """Access permissions of one process.

    `read` contains the paths to read and execute, and `write` the paths that can also be written.
    `network` allows network access.
    """

    read: tuple[str, ...]
    write: tuple[str, ...]
    network: bool


class WorkspacePaths(Struct, frozen=True, kw_only=True):
    """The workspace of a process.

    Access to `private` paths is never granted. They contain midturn's configuration, keys and
    conversation logs.
    """

    root: Path
    home: Path
    private: tuple[Path, ...]
    path: str = os.defpath


def profile(declared: Declared, where: WorkspacePaths, *, network: bool) -> SandboxProfile:
    """Combine the default and the declared permissions.

    `network` applies if the configuration does not set it.
    """
    hidden = _hidden_prefixes(path.resolve() for path in where.private)
    added = (*_programs(where), *_configured_paths(declared.read, where))
    read = (
        *_without_hidden(_real_paths(_SYSTEM_PATHS), hidden),
        *_etc(hidden),
        *_without_hidden(_real_paths(added), hidden),
    )
    write = _real_paths((*_DEVICES, where.root, *_configured_paths(declared.write, where)))
    return SandboxProfile(
        read=tuple(dict.fromkeys(read)),
        write=tuple(_without_hidden(write, hidden)),
        network=network if declared.network is None else declared.network,
    )


def programs_with_packages(programs: Iterable[str], where: WorkspacePaths) -> tuple[str, ...]:
    """Return programs and scripts together with the packages that contain them.

    Private paths are left out. A program that cannot read its own package would fail before it can
    report the reason, often with a stack trace from its module loader.
    """
    paths = [
        path
        for program in programs
        for path in (Path(program), *_packages(Path(program), where.home))
    ]
    reached = tuple(
        _without_hidden(
            _real_paths(paths), _hidden_prefixes(path.resolve() for path in where.private)
        )
    )
    # inside Bubblewrap, a link exists only if it is mounted like its target
    links = [str(path) for path in paths if path.is_symlink() and str(path.resolve()) in reached]
    return (*reached, *links)


def _packages(program: Path, home: Path) -> Iterator[Path]:
    """Yield the package that contains a program, before and after resolving links.

    A home directory or a parent of it is never yielded.
    """
    for named in dict.fromkeys((program, program.resolve())):
        if "node_modules" in named.parts:  # the dependencies are installed next to the package
            yield Path(*named.parts[: named.parts.index("node_modules") + 1])
            continue
        for folder in named.parents:
            if home.is_relative_to(folder):
                break
            if any((folder / name).exists() for name in _PACKAGE_MARKERS):
                yield folder
                break


def first_refused(error_output: str, profile: SandboxProfile) -> str | None:
    """Return the first path that a program reports as inaccessible.

    Only a path that exists and is not granted is returned.
    """
    granted = [Path(path) for path in (*profile.read, *profile.write)]
    for row in error_output.splitlines():
        for found in _NAMED_PATH.finditer(row) if _ACCESS_ERROR.search(row) else ():
            path = Path(os.path.normpath(found[1] or found[2] or found[3]))
            if not any(path.is_relative_to(grant) for grant in granted) and os.path.lexists(path):
                return str(path)
    return None


def _etc(hidden: tuple[str, ...]) -> list[str]:
    """Return the entries of `/etc` without its secrets and other hidden paths."""
    etc = os.path.realpath("/etc")
    return _without(etc, (*hidden, *_hidden_prefixes(f"{etc}/{name}" for name in _ETC_SECRETS)))


def _programs(where: WorkspacePaths) -> Iterator[Path]:
    """Yield the locations of programs.

    They are Python, the directories in `PATH`, and the directories of package managers in the home
    directory.
    """
    yield from (Path(sys.prefix), Path(sys.base_prefix))
    for entry in where.path.split(os.pathsep):
        if entry.startswith("/"):
            yield Path(entry)
    yield from (where.home / name for name in _HOME_PATHS)


def _configured_paths(paths: Iterable[str], where: WorkspacePaths) -> Iterator[Path]:
    for path in paths:
        yield (
            where.home / path[2:]
            if path.startswith("~/")
            else where.home
            if path == "~"
            else where.root / path
        )


def _real_paths(paths: Iterable[str | Path]) -> Iterator[str]:
    return (os.path.realpath(path) for path in paths)


def _hidden_prefixes(private: Iterable[str | Path]) -> tuple[str, ...]:
    return tuple(_as_prefix(str(path)) for path in private)


def _without_hidden(paths: Iterable[str], hidden: tuple[str, ...]) -> Iterator[str]:
    """Yield the real paths that do not start with one of the `hidden` prefixes. A directory that
    contains a hidden path is replaced with its other entries.

    The paths are compared as strings. Hundreds of paths are compared before the first tool of a
    turn starts, and comparing `Path` objects would take most of that time.
    """
    for path in dict.fromkeys(paths):
        yield from _without(path, hidden)


def _as_prefix(path: str) -> str:
    """Return the prefix of all paths inside `path`: the path with a slash at the end."""
    return path if path.endswith("/") else f"{path}/"


def _without(path: str, hidden: tuple[str, ...]) -> list[str]:
    prefix = _as_prefix(path)
    if prefix.startswith(hidden):
        return []
    inside = tuple([entry for entry in hidden if entry.startswith(prefix)])
    if not inside:
        return [path] if os.path.exists(path) else []  # noqa: PTH110  a string is faster here
    try:
        with os.scandir(path) as found:
            children = sorted([child.path for child in found if not child.is_symlink()])
    except OSError:
        return []
    return [visible for child in children for visible in _without(child, inside)]


class SandboxAccess(Struct, frozen=True):
    """Directories for one process: a directory for temporary files, and a cache that all tools of a
    workspace share.
    """

    temporary: Path
    cache: Path

    def within(self, profile: SandboxProfile, *, programs: Iterable[str]) -> SandboxProfile:
        """Return the profile with access to these directories and to the programs to start."""
        return replace(
            profile,
            read=(*profile.read, *programs),
            write=(*profile.write, str(self.temporary), str(self.cache)),
        )

    def environment(self) -> Mapping[str, str]:
        """Return environment variables that make programs use these directories."""
        return {
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.cache),
            "npm_config_cache": str(self.cache / "npm"),
        }
