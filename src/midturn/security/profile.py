"""The reach of a tool's process: what every program needs, its workspace, and what its configuration adds."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/snap", "/gnu"),
    *("/System", "/Library/Apple", "/Library/Developer", "/Library/Frameworks"),
    *("/private/var/db/dyld", "/private/var/db/timezone", "/private/var/select"),
    *("/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/var/lib/ca-certificates", "/var/cache/fontconfig"),
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm")  # noqa: S108 (shared memory)
_SECRETS_OF_ETC: Final = frozenset(
    {
        *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "krb5.keytab", "security"),
        *("wireguard", "master.passwd"),
    }
)
_OF_HOME: Final = (
    *(".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes"),
    *(".nvm", ".fnm", ".volta", ".npm", ".bun", ".deno", ".pyenv", ".rbenv", ".gem", ".asdf", ".rustup", "go", ".m2/repository"),
    *(".cargo/bin", ".cargo/registry", ".cargo/git", ".cache/uv", ".cache/pip", ".cache/pnpm", ".cache/yarn"),
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/share/pnpm", ".local/share/mise"),
)

_MARKS_A_PACKAGE: Final = ("package.json", "pyproject.toml", "setup.py", "pyvenv.cfg", "Cargo.toml", "go.mod", "Gemfile", "deno.json")
_REFUSAL: Final = re.compile(r"EACCES|EPERM|Errno 13|[Pp]ermission denied|[Oo]peration not permitted|ENOENT|No such file", re.ASCII)
_NAMED_PATH: Final = re.compile(r"""'(/[^'\n]+)'|"(/[^"\n]+)"|(/[^\s'"`:,;()<>\[\]]+)""")


class Declared(Struct, frozen=True, kw_only=True):
    """Grants in a tool's configuration: paths (relative ones beneath the workspace, `~` is home) and the network.

    `network` is None where nothing is said: an MCP server has it then, a local tool has not. Without `enable` there is no sandbox.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool | None = None
    enable: bool = True


class SandboxProfile(Struct, frozen=True, kw_only=True):
    """The reach of one process: files and directories to read and run, those to write as well, and whether it has the network."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    network: bool


class Workplace(Struct, frozen=True, kw_only=True):
    """The workspace of a process. `private` is what no grant may cover: our configuration, keys, and records."""

    root: Path
    home: Path
    private: tuple[Path, ...]
    path: str = os.defpath


def profile(declared: Declared, where: Workplace, *, network: bool) -> SandboxProfile:
    """Put together what a process may reach; `network` holds where nothing is declared."""
    hidden = _hidden(path.resolve() for path in where.private)
    added = (*_programs(where), *_stated(declared.read, where))
    read = (*_uncovered(_real(_SYSTEM), hidden), *_etc(hidden), *_uncovered(_real(added), hidden))
    write = _real((*_DEVICES, where.root, *_stated(declared.write, where)))
    return SandboxProfile(
        read=tuple(dict.fromkeys(read)),
        write=tuple(_uncovered(write, hidden)),
        network=network if declared.network is None else declared.network,
    )


def programs_with_packages(programs: Iterable[str], where: Workplace) -> tuple[str, ...]:
    """Return programs and scripts with the packages that they lie in, without what is private.

    A program whose own package it may not read fails before it can say anything: an interpreter ends with a stack of its loader.
    """
    paths = [path for program in programs for path in (Path(program), *_packages(Path(program), where.home))]
    reached = tuple(_uncovered(_real(paths), _hidden(path.resolve() for path in where.private)))
    links = [str(path) for path in paths if path.is_symlink() and str(path.resolve()) in reached]  # a namespace has them only if named
    return (*reached, *links)


def _packages(program: Path, home: Path) -> Iterator[Path]:
    """Yield the package around a program as it is named, and as its links lead; never a whole home, or what is above one."""
    for named in dict.fromkeys((program, program.resolve())):
        if "node_modules" in named.parts:  # what it needs lies beside it
            yield Path(*named.parts[: named.parts.index("node_modules") + 1])
            continue
        for folder in named.parents:
            if home.is_relative_to(folder):
                break
            if any((folder / name).exists() for name in _MARKS_A_PACKAGE):
                yield folder
                break


def first_refused(said: str, profile: SandboxProfile) -> str | None:
    """Return the first path that a program says it could not open, and that is there, but out of its reach."""
    granted = [Path(path) for path in (*profile.read, *profile.write)]
    for row in said.splitlines():
        for found in _NAMED_PATH.finditer(row) if _REFUSAL.search(row) else ():
            path = Path(os.path.normpath(found[1] or found[2] or found[3]))
            if not any(path.is_relative_to(one) for one in granted) and os.path.lexists(path):
                return str(path)
    return None


def _etc(hidden: tuple[str, ...]) -> list[str]:
    """Return what is in `/etc` without its secrets and what else is hidden."""
    etc = os.path.realpath("/etc")
    return _without(etc, (*hidden, *_hidden(f"{etc}/{name}" for name in _SECRETS_OF_ETC)))


def _programs(where: Workplace) -> Iterator[Path]:
    """Yield where programs and their packages are: Python's own, what `PATH` names, and what package managers keep at home."""
    yield from (Path(sys.prefix), Path(sys.base_prefix))
    for entry in where.path.split(os.pathsep):
        if entry.startswith("/"):
            yield Path(entry)
    yield from (where.home / name for name in _OF_HOME)


def _stated(paths: Iterable[str], where: Workplace) -> Iterator[Path]:
    for path in paths:
        yield where.home / path[2:] if path.startswith("~/") else where.home if path == "~" else where.root / path


def _real(paths: Iterable[str | Path]) -> Iterator[str]:
    """Yield where paths really lead. Of each part of each, the system is asked."""
    return (os.path.realpath(path) for path in paths)


def _hidden(private: Iterable[str | Path]) -> tuple[str, ...]:
    return tuple(_beginning(str(one)) for one in private)


def _uncovered(paths: Iterable[str], hidden: tuple[str, ...]) -> Iterator[str]:
    """Yield real paths; in the place of a directory with something hidden in it, what else is in it.

    By their text: hundreds are compared before each turn's first tool, and `Path` would take most of that turn's time.
    """
    for path in dict.fromkeys(paths):
        yield from _without(path, hidden)


def _beginning(path: str) -> str:
    """Return with what a path begins that lies in this one, a slash at its end."""
    return path if path.endswith("/") else f"{path}/"


def _without(path: str, hidden: tuple[str, ...]) -> list[str]:
    beginning = _beginning(path)
    if beginning.startswith(hidden):
        return []
    inside = tuple([one for one in hidden if one.startswith(beginning)])
    if not inside:
        return [path] if os.path.exists(path) else []  # noqa: PTH110  as text
    try:
        with os.scandir(path) as found:
            children = sorted([child.path for child in found if not child.is_symlink()])
    except OSError:
        return []
    return [one for child in children for one in _without(child, inside)]


class Room(Struct, frozen=True):
    """A place of its own for one process: a directory for temporary files, and a cache that the tools of a workspace share."""

    temporary: Path
    cache: Path

    def within(self, profile: SandboxProfile, *, programs: Iterable[str]) -> SandboxProfile:
        """Return the profile with this room, and the program that is started, in it."""
        return replace(profile, read=(*profile.read, *programs), write=(*profile.write, str(self.temporary), str(self.cache)))

    def environment(self) -> Mapping[str, str]:
        """Return the variables that lead programs here."""
        return {"TMPDIR": str(self.temporary), "XDG_CACHE_HOME": str(self.cache), "npm_config_cache": str(self.cache / "npm")}
