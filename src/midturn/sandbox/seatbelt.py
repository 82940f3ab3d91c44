"""Seatbelt, the sandbox of macOS, through its program `sandbox-exec`: a profile says what a process may do; all else is denied."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from midturn.sandbox.profile import SandboxProfile

PROGRAM: Final = "/usr/bin/sandbox-exec"
_SERVICES: Final = (
    *("com.apple.system.notification_center", "com.apple.system.logger", "com.apple.logd", "com.apple.bsd.dirhelper"),
    *("com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership"),
    *("com.apple.trustd.agent", "com.apple.SecurityServer", "com.apple.PowerManagement.control"),
)
_NETWORK: Final = ("com.apple.SystemConfiguration.DNSConfiguration", "com.apple.SystemConfiguration.configd", "com.apple.networkd")
_ALWAYS: Final = """\
(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* signal mach-priv-task-port (target same-sandbox))
(allow sysctl-read user-preference-read ipc-posix-sem ipc-posix-shm)
(allow file-read-metadata file-test-existence)
(allow file-read* (literal "/") (literal "/dev") (subpath "/dev/fd"))
(allow file-ioctl file-read* file-write* (literal "/dev/dtracehelper"))"""


def works() -> bool:
    """Say whether it is there, and lets itself be used: inside another sandbox it does not."""
    if sys.platform != "darwin":
        return False

    try:
        done = subprocess.run([PROGRAM, "-p", "(version 1)(allow default)", "/usr/bin/true"], capture_output=True, check=False)  # noqa: S603
    except OSError:
        return False
    return done.returncode == 0


def wrapped(argv: Sequence[str], profile: SandboxProfile, masked: Sequence[str]) -> tuple[str, ...]:
    """Put `sandbox-exec` before a command line. What is `masked` cannot be reached, though the workspace around it can."""
    paths = _paths(profile, masked)
    values = [word for name, path in paths for word in ("-D", f"{name}={path}")]
    return (PROGRAM, "-p", rules(profile, masked), *values, *argv)


def rules(profile: SandboxProfile, masked: Sequence[str]) -> str:
    """Return the profile's text. Paths are parameters: no name of a file is ever read as a rule. The last rule that fits counts."""
    named = [name for name, _ in _paths(profile, masked)]
    lines = [_ALWAYS, _services(_SERVICES)]
    lines += [f'(allow file-read* (subpath (param "{name}")))' for name in named if name.startswith("READ")]
    lines += [f'(allow file-read* file-write* (subpath (param "{name}")))' for name in named if name.startswith("WRITE")]
    if profile.network:
        lines += ["(allow network* system-socket)", _services(_NETWORK)]
    lines += [f'(deny file* (subpath (param "{name}")))' for name in named if name.startswith("MASK")]
    return "\n".join(lines) + "\n"


def _services(names: Sequence[str]) -> str:
    return "(allow mach-lookup " + " ".join(f'(global-name "{name}")' for name in names) + ")"


def _paths(profile: SandboxProfile, masked: Sequence[str]) -> Sequence[tuple[str, str]]:
    return [*_numbered("READ", profile.read), *_numbered("WRITE", profile.write), *_numbered("MASK", masked)]


def _numbered(kind: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the real path of each; on macOS `/tmp` and `/etc` are links, and rules know only where they lead."""
    for number, path in enumerate(paths):
        yield f"{kind}_{number}", os.path.realpath(path)
