"""Bubblewrap: namespaces around a process, where Landlock is missing and the program is installed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from midturn.sandbox.profile import Profile


def program() -> str | None:
    """Return where it is installed."""
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")


def wrapped(argv: Sequence[str], profile: Profile, masked: Sequence[str], cwd: str) -> tuple[str, ...]:
    """Put bubblewrap before a command line. What is `masked` is empty inside, though the workspace around it is there."""
    found = program()
    if found is None:
        raise FileNotFoundError("bwrap")
    binds = [word for path in profile.read for word in ("--ro-bind-try", path, path)]
    binds += [word for path in profile.write if not path.startswith("/dev/") for word in ("--bind-try", path, path)]
    masks = [word for path in masked for word in ("--tmpfs", path)]
    apart = ["--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    network = [] if profile.network else ["--unshare-net"]
    base = [found, "--die-with-parent", "--new-session", *apart, *network]
    return (*base, *binds, "--dev", "/dev", "--proc", "/proc", *masks, "--chdir", cwd, "--", *argv)
