"""Bubblewrap: namespaces around a process, where Landlock is missing and the program is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from midturn.sandbox.profile import SandboxProfile

_ETC = "/etc"
_MADE = frozenset({"/proc"})  # it gets one of its own


def program() -> str | None:
    """Return where it is installed."""
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")


def wrapped(argv: Sequence[str], profile: SandboxProfile, masked: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Put bubblewrap before a command line. What is `masked` is empty inside, though the workspace around it is there."""
    found = program()
    if found is None:
        raise FileNotFoundError("bwrap")
    binds = [word for bound in _bound(profile.read) for word in bound]
    binds += [word for path in profile.write if not path.startswith("/dev/") for word in ("--bind-try", path, path)]
    links = [word for path in _links_of_root() for word in ("--symlink", os.readlink(path), path)]  # noqa: PTH115 (as it is written)
    masks = [word for path in masked if Path(path).is_dir() for word in ("--tmpfs", path)]
    place = [] if cwd is None else ["--chdir", os.path.realpath(cwd)]
    apart = ["--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    network = [] if profile.network else ["--unshare-net"]
    base = [found, "--die-with-parent", "--new-session", *apart, *network]
    return (*base, *links, *binds, "--dev", "/dev", "--proc", "/proc", *masks, *place, "--", *argv)


def _bound(read: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield how to make paths readable, with few mounts, for each of them costs: `/etc` is one, with what is secret in it covered."""
    reached = set(read) - _MADE
    outermost = [path for path in read if path in reached and not any(str(above) in reached for above in Path(path).parents)]
    in_etc = {path for path in outermost if path.startswith(f"{_ETC}/")}
    yield from (("--ro-bind-try", path, path) for path in outermost if path not in in_etc)
    if in_etc:
        yield "--ro-bind", _ETC, _ETC
        yield from _covered(_ETC, in_etc)


def _covered(folder: str, reached: set[str]) -> Iterator[Sequence[str]]:
    """Yield how to cover what is in a folder and not among `reached`; a link is not, for it leads only where one may go anyway."""
    for entry in os.scandir(folder):
        if entry.path in reached or entry.is_symlink():
            continue
        if any(path.startswith(f"{entry.path}/") for path in reached):
            yield from _covered(entry.path, reached)
        elif entry.is_dir():
            yield "--tmpfs", entry.path
        else:
            yield "--ro-bind", os.devnull, entry.path


def _links_of_root() -> Iterator[str]:
    """Yield the links in `/`: on most systems `/bin` and `/lib` are such, and every program names its loader there."""
    yield from (entry.path for entry in os.scandir("/") if entry.is_symlink())
