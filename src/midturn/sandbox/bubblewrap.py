"""Bubblewrap: namespaces around a process, where Landlock is missing and the program is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from midturn.sandbox.profile import Profile


def program() -> str | None:
    """Return where it is installed."""
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")


def wrapped(argv: Sequence[str], profile: Profile, masked: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Put bubblewrap before a command line. What is `masked` is empty inside, though the workspace around it is there."""
    found = program()
    if found is None:
        raise FileNotFoundError("bwrap")
    binds = [word for path in profile.read for word in ("--ro-bind-try", path, path)]
    binds += [word for path in profile.write if not path.startswith("/dev/") for word in ("--bind-try", path, path)]
    links = [word for path in _links_of_root() for word in ("--symlink", os.readlink(path), path)]  # noqa: PTH115 (as it is written)
    masks = [word for path in masked if Path(path).is_dir() for word in ("--tmpfs", path)]
    place = [] if cwd is None else ["--chdir", os.path.realpath(cwd)]
    apart = ["--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    network = [] if profile.network else ["--unshare-net"]
    base = [found, "--die-with-parent", "--new-session", *apart, *network]
    return (*base, *links, *binds, "--dev", "/dev", "--proc", "/proc", *masks, *place, "--", *argv)


def _links_of_root() -> Iterator[str]:
    """Yield the links in `/`: on most systems `/bin` and `/lib` are such, and every program names its loader there."""
    yield from (entry.path for entry in os.scandir("/") if entry.is_symlink())
