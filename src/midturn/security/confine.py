"""Starts confined processes with the sandbox that this system supports."""

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


class SandboxBackend(Struct, frozen=True):
    """The sandbox that this system supports.

    `lacks` contains one sentence per restriction that it does not support. `is_whole` is true if
    the kernel supports all features of the backend.
    """

    means: Means
    lacks: tuple[str, ...] = ()
    is_whole: bool = True


@functools.cache
def sandbox_backend() -> SandboxBackend:
    """Detect the sandbox backend, once per process."""
    version = landlock.abi()
    if version:
        if not landlock.limits_network(version):
            return SandboxBackend(
                "landlock",
                (
                    (
                        "The tool sandbox does not restrict the network: this kernel's Landlock"
                        " version is too old."
                    ),
                ),
                is_whole=False,
            )
        return SandboxBackend(
            "landlock",
            (
                (
                    "It does not restrict UDP, or Unix sockets in the file system that your other"
                    " programs listen on."
                ),
            ),
        )
    if bubblewrap():
        return SandboxBackend("bubblewrap")
    if has_seatbelt():
        return SandboxBackend(
            "sandbox-exec",
            (
                (
                    "This profile has not been tested on a Mac yet: check that your tools work as"
                    " expected."
                ),
            ),
        )
    missing = (
        "No tool sandbox is available (supported: Linux with Landlock or bubblewrap, macOS with"
        " `sandbox-exec`):"
    )
    missing += " a tool that you allow to run has all of your permissions."
    return SandboxBackend("none", (missing,), is_whole=False)


class Confined(Struct, frozen=True):
    """The command line of a confined process, and a function that the starting thread must call
    first.

    `enter` restricts the calling thread permanently, so call it in a thread that ends afterwards.
    """

    argv: tuple[str, ...]
    enter: Callable[[], None] | None = None


def confined(
    argv: Sequence[str], profile: SandboxProfile, *, cwd: str, masked: Sequence[str] = ()
) -> Confined:
    """Prepare a confined process that is started from a dedicated thread.

    This is the fastest way to start a confined process.

    Raises:
        OSError: The kernel refuses the sandbox.
    """
    match sandbox_backend().means:
        case "landlock":
            return Confined(tuple(argv), functools.partial(_enter, profile))
        case "bubblewrap":
            return Confined(in_bubblewrap(argv, profile, masked, cwd))
        case "sandbox-exec":
            return Confined(in_seatbelt(argv, profile, masked))
        case "none":
            return Confined(tuple(argv))


def confine(
    argv: Sequence[str],
    profile: SandboxProfile,
    *,
    cwd: str | None = None,
    masked: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return a command line that starts a program confined.

    Use it for processes that another library starts, such as an MCP client.
    """
    match sandbox_backend().means:
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


# --------------------------------------------------------------------------------------------------
# Bubblewrap: Linux namespaces, used if Landlock is missing and `bwrap` is installed


_ETC = "/etc"
_OWN_MOUNTS = frozenset({"/proc"})  # Bubblewrap mounts a new `/proc` itself


def bubblewrap() -> str | None:
    """Return the path of the Bubblewrap program, or None if it is not installed."""
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")


def in_bubblewrap(
    argv: Sequence[str], profile: SandboxProfile, masked: Sequence[str], cwd: str | None
) -> tuple[str, ...]:
    """Return a command line that runs `argv` in Bubblewrap.

    The `masked` directories appear empty inside the sandbox.
    """
    executable = bubblewrap()
    if executable is None:
        raise FileNotFoundError("bwrap")
    binds = [word for mount in _read_mounts(profile.read) for word in mount]
    binds += [
        word
        for path in profile.write
        if not path.startswith("/dev/")
        for word in ("--bind-try", path, path)
    ]
    links = [word for path in _links_of_root() for word in ("--symlink", os.readlink(path), path)]  # noqa: PTH115 (the unresolved target)
    masks = [word for path in masked if Path(path).is_dir() for word in ("--tmpfs", path)]
    working_directory = [] if cwd is None else ["--chdir", os.path.realpath(cwd)]
    namespaces = [
        "--unshare-user-try",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    network = [] if profile.network else ["--unshare-net"]
    base = [executable, "--die-with-parent", "--new-session", *namespaces, *network]
    return (
        *base,
        *links,
        *binds,
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        *masks,
        *working_directory,
        "--",
        *argv,
    )


def _read_mounts(read: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the bind mounts for readable paths.

    `/etc` is mounted as a whole and its hidden entries are covered, because each mount takes time.
    """
    reached = set(read) - _OWN_MOUNTS
    outermost = [
        path
        for path in read
        if path in reached and not any(str(above) in reached for above in Path(path).parents)
    ]
    in_etc = {path for path in outermost if path.startswith(f"{_ETC}/")}
    yield from (("--ro-bind-try", path, path) for path in outermost if path not in in_etc)
    if in_etc:
        yield "--ro-bind", _ETC, _ETC
        yield from _covering_mounts(_ETC, in_etc)


def _covering_mounts(folder: str, reached: set[str]) -> Iterator[Sequence[str]]:
    """Yield mounts that cover every entry of `folder` except the entries in `reached`.

    Links are not covered, because a link does not give access to its target.
    """
    for entry in os.scandir(folder):
        if entry.path in reached or entry.is_symlink():
            continue
        if any(path.startswith(f"{entry.path}/") for path in reached):
            yield from _covering_mounts(entry.path, reached)
        elif entry.is_dir():
            yield "--tmpfs", entry.path
        else:
            yield "--ro-bind", os.devnull, entry.path


def _links_of_root() -> Iterator[str]:
    """Yield the symbolic links in `/`.

    On most systems, `/bin` and `/lib` are links, and the path of a program's loader contains them.
    """
    yield from (entry.path for entry in os.scandir("/") if entry.is_symlink())


# --------------------------------------------------------------------------------------------------
# Seatbelt, the sandbox of macOS, used through `sandbox-exec`. Its profile lists the permitted
# operations; all others are denied.


_SEATBELT: Final = "/usr/bin/sandbox-exec"
_SERVICES: Final = (
    *(
        "com.apple.system.notification_center",
        "com.apple.system.logger",
        "com.apple.logd",
        "com.apple.bsd.dirhelper",
    ),
    *("com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership"),
    *("com.apple.trustd.agent", "com.apple.SecurityServer", "com.apple.PowerManagement.control"),
)
_NETWORK: Final = (
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.SystemConfiguration.configd",
    "com.apple.networkd",
)
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
    """Return whether the macOS sandbox can be used.

    A process inside another sandbox cannot use it.
    """
    if sys.platform != "darwin":
        return False

    try:
        probe = subprocess.run(  # noqa: S603
            [_SEATBELT, "-p", "(version 1)(allow default)", "/usr/bin/true"],
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return probe.returncode == 0


def in_seatbelt(
    argv: Sequence[str], profile: SandboxProfile, masked: Sequence[str]
) -> tuple[str, ...]:
    """Return a command line that runs a program with `sandbox-exec`.

    The `masked` directories are inaccessible inside the sandbox.
    """
    paths = _paths(profile, masked)
    values = [word for name, path in paths for word in ("-D", f"{name}={path}")]
    return (_SEATBELT, "-p", seatbelt_rules(profile, masked), *values, *argv)


def seatbelt_rules(profile: SandboxProfile, masked: Sequence[str]) -> str:
    """Return the text of a Seatbelt profile. In a profile, the last matching rule applies.

    Paths are passed as parameters, so that a file name is never parsed as a rule.
    """
    parameters = [parameter for parameter, _ in _paths(profile, masked)]
    lines = [_ALWAYS, _services(_SERVICES)]
    lines += [
        f'(allow file-read* (subpath (param "{parameter}")))'
        for parameter in parameters
        if parameter.startswith("READ")
    ]
    lines += [
        f'(allow file-read* file-write* (subpath (param "{parameter}")))'
        for parameter in parameters
        if parameter.startswith("WRITE")
    ]
    if profile.network:
        lines += ["(allow network* system-socket)", _services(_NETWORK)]
    lines += [
        f'(deny file* (subpath (param "{parameter}")))'
        for parameter in parameters
        if parameter.startswith("MASK")
    ]
    return "\n".join(lines) + "\n"


def _services(names: Sequence[str]) -> str:
    return (
        "(allow mach-lookup "
        + " ".join(f'(global-name "{parameter}")' for parameter in names)
        + ")"
    )


def _paths(profile: SandboxProfile, masked: Sequence[str]) -> Sequence[tuple[str, str]]:
    return [
        *_numbered("READ", profile.read),
        *_numbered("WRITE", profile.write),
        *_numbered("MASK", masked),
    ]


def _numbered(kind: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield parameter names with real paths.

    On macOS `/tmp` and `/etc` are links, and rules apply to the targets of links.
    """
    for number, path in enumerate(paths):
        yield f"{kind}_{number}", os.path.realpath(path)
