"""Confining a process with what this system offers."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from midturn.security import landlock
from midturn.security.profile import SandboxProfile

Means: TypeAlias = Literal["landlock", "bubblewrap", "sandbox-exec", "none"]

_LAUNCHER: Final = Path(__file__).with_name("landlock.py")


class Offer(Struct, frozen=True):
    """The confinement that this system offers: the means, and its gaps (sentences). `is_whole`: it does all that the means can."""

    means: Means
    lacks: tuple[str, ...] = ()
    is_whole: bool = True


@functools.cache
def offer() -> Offer:
    """Find out what there is."""
    version = landlock.abi()
    if version:
        if not landlock.limits_network(version):
            return Offer("landlock", ("The sandbox of tools does not limit the network: the kernel is too old for that.",), is_whole=False)
        return Offer("landlock", ("It does not cover UDP, nor sockets in the file system that other programs of yours listen on.",))
    if bubblewrap():
        return Offer("bubblewrap")
    if has_seatbelt():
        return Offer("sandbox-exec", ("Nobody has tried this profile on a Mac yet: check that your tools do what they should.",))
    missing = "There is no sandbox for tools here (Linux with Landlock or bubblewrap, or `sandbox-exec` of macOS):"
    missing += " one that you let run can do whatever you can."
    return Offer("none", (missing,), is_whole=False)


class Confined(Struct, frozen=True):
    """The start of a confined process: the command line, and what the thread that starts it must do first, and never undo."""

    argv: tuple[str, ...]
    enter: Callable[[], None] | None = None


def confined(argv: Sequence[str], profile: SandboxProfile, *, cwd: str, masked: Sequence[str] = ()) -> Confined:
    """Prepare the start of a confined process from a thread of its own, which costs the least.

    Raises:
        OSError: The kernel refuses.
    """
    match offer().means:
        case "landlock":
            return Confined(tuple(argv), functools.partial(_enter, profile))
        case "bubblewrap":
            return Confined(in_bubblewrap(argv, profile, masked, cwd))
        case "sandbox-exec":
            return Confined(in_seatbelt(argv, profile, masked))
        case "none":
            return Confined(tuple(argv))


def confine(argv: Sequence[str], profile: SandboxProfile, *, cwd: str | None = None, masked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a command line that confines itself, for programs that start processes without us (an MCP client)."""
    match offer().means:
        case "landlock":
            grants = msgspec.json.encode(profile).decode()
            return (sys.executable, "-I", "-S", str(_LAUNCHER), grants, *argv)
        case "bubblewrap":
            return in_bubblewrap(argv, profile, masked, cwd)
        case "sandbox-exec":
            return in_seatbelt(argv, profile, masked)
        case "none":
            return tuple(argv)


def _enter(profile: SandboxProfile) -> None:
    rules = landlock.ruleset(profile.read, profile.write, network=profile.network)
    try:
        landlock.restrict(rules)
    finally:
        os.close(rules)


# ----------------------------------------------------------------------------------------------------------------------
# Bubblewrap: namespaces around a process, where Landlock is missing and the program is installed


_ETC = "/etc"
_MADE = frozenset({"/proc"})  # it gets one of its own


def bubblewrap() -> str | None:
    """Return where Bubblewrap is installed."""
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")


def in_bubblewrap(argv: Sequence[str], profile: SandboxProfile, masked: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Put Bubblewrap before a command line. What is `masked` is empty inside, though the workspace around it is there."""
    found = bubblewrap()
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


# ----------------------------------------------------------------------------------------------------------------------
# Seatbelt, the sandbox of macOS, through its program `sandbox-exec`: a profile says what a process may do; all else is denied


_SEATBELT: Final = "/usr/bin/sandbox-exec"
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


def has_seatbelt() -> bool:
    """Say whether the sandbox of macOS is there, and lets itself be used: inside another sandbox it does not."""
    if sys.platform != "darwin":
        return False

    try:
        done = subprocess.run([_SEATBELT, "-p", "(version 1)(allow default)", "/usr/bin/true"], capture_output=True, check=False)  # noqa: S603
    except OSError:
        return False
    return done.returncode == 0


def in_seatbelt(argv: Sequence[str], profile: SandboxProfile, masked: Sequence[str]) -> tuple[str, ...]:
    """Put `sandbox-exec` before a command line. What is `masked` cannot be reached, though the workspace around it can."""
    paths = _paths(profile, masked)
    values = [word for name, path in paths for word in ("-D", f"{name}={path}")]
    return (_SEATBELT, "-p", seatbelt_rules(profile, masked), *values, *argv)


def seatbelt_rules(profile: SandboxProfile, masked: Sequence[str]) -> str:
    """Return the text of a profile. Paths are parameters: no name of a file is ever read as a rule. The last rule that fits counts."""
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
