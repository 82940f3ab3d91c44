"""Landlock: restricts the access of a Linux thread or process, and of all processes it starts.

This file is also a program: `python -I -S landlock.py GRANTS PROGRAM …` confines itself and then
runs PROGRAM. It imports nothing from midturn, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import sys
from collections.abc import Sequence

# syscall numbers, the same on every architecture
_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_FLAG_VERSION, _RULE_PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_DROPPED_CAPABILITIES = (12, 13, 16, 17, 18, 19, 21, 22, 24, 27, 38, 39)
"""Linux capabilities that a confined root process drops: network and system administration, raw
I/O, modules, devices, tracing, resource limits and BPF.
"""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ALL_RIGHTS = (1 << 16) - 1
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_TCP_RIGHTS = 3
_SCOPES = 3  # flags that restrict abstract Unix sockets and signals to the sandbox
_RIGHTS_SINCE = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL}
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Return the Landlock ABI version of the kernel, or 0 if Landlock is missing or disabled."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, _libc().syscall(_SYS_CREATE_RULESET, None, 0, _FLAG_VERSION))


def limits_network(version: int) -> bool:
    """Return whether this ABI version can restrict TCP."""
    return version >= _NETWORK_SINCE


def ruleset(read: Sequence[str], write: Sequence[str], *, network: bool) -> int:
    """Create a Landlock ruleset and return its file descriptor.

    Paths that do not exist are skipped.

    Raises:
        OSError: The kernel refuses the ruleset.
    """
    version = abi()
    known = _ALL_RIGHTS & ~sum(bit for since, bit in _RIGHTS_SINCE.items() if version < since)
    attributes = _Ruleset(
        known,
        0 if network or version < _NETWORK_SINCE else _TCP_RIGHTS,
        _SCOPES if version >= _SCOPES_SINCE else 0,
    )
    size = 8 if version < _NETWORK_SINCE else 16 if version < _SCOPES_SINCE else 24
    rules = _checked(_libc().syscall(_SYS_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path in read:
            _allow(rules, path, _READ & known)
        for path in write:
            _allow(rules, path, known)
    except BaseException:
        os.close(rules)
        raise
    return rules


def restrict(rules: int) -> None:
    """Confine the calling thread and every process that it starts later. This cannot be undone.

    Raises:
        OSError: The kernel refuses the restriction.
    """
    for capability in _DROPPED_CAPABILITIES:
        # fails without the privilege to drop it; the failure is ignored
        _libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(_libc().syscall(_SYS_RESTRICT_SELF, rules, 0))


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        _checked(
            _libc().syscall(
                _SYS_ADD_RULE,
                rules,
                _RULE_PATH_BENEATH,
                ctypes.byref(_PathBeneathRule(rights, descriptor)),
                0,
            )
        )
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return _LIBC


_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result


def main() -> None:
    """Confine this process, then execute the program named in the arguments."""
    grants = json.loads(sys.argv[1])
    restrict(ruleset(grants["read"], grants["write"], network=grants["network"]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 (that is what it is for)


if __name__ == "__main__":
    main()
