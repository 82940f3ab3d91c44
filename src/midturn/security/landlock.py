"""Landlock: a Linux thread, or a process, that gives up what it does not need, for itself and for whatever it starts.

This file is also a program: `python -I -S landlock.py GRANTS PROGRAM …` confines itself, and becomes the program. It imports nothing of
ours, so that it starts soon.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import sys
from collections.abc import Sequence

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES, _DROP = 38, 24
_POWERS = (12, 13, 16, 17, 18, 19, 21, 22, 24, 27, 38, 39)
"""Capabilities that root loses with it: the network's and the system's administration, raw I/O, modules, devices, tracing, limits, BPF."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_EVERYTHING = (1 << 16) - 1
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_CONNECT_AND_BIND = 3
_SCOPES = 3  # abstract sockets and signals: only inside
_KNOWN_SINCE = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL}
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Return which version of Landlock the kernel has; 0: none, or it is switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, _libc().syscall(_CREATE, None, 0, _VERSION))


def limits_network(version: int) -> bool:
    """Say whether this version keeps a process from TCP."""
    return version >= _NETWORK_SINCE


def ruleset(read: Sequence[str], write: Sequence[str], *, network: bool) -> int:
    """Make the set of rules; return its descriptor. A path that is not there gives no right to anything.

    Raises:
        OSError: The kernel refuses.
    """
    version = abi()
    known = _EVERYTHING & ~sum(bit for since, bit in _KNOWN_SINCE.items() if version < since)
    attributes = _Ruleset(
        known,
        0 if network or version < _NETWORK_SINCE else _CONNECT_AND_BIND,
        _SCOPES if version >= _SCOPES_SINCE else 0,
    )
    size = 8 if version < _NETWORK_SINCE else 16 if version < _SCOPES_SINCE else 24
    rules = _checked(_libc().syscall(_CREATE, ctypes.byref(attributes), size, 0))
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
    """Confine the calling thread, and whatever it starts from now on, for ever.

    Raises:
        OSError: The kernel refuses.
    """
    for power in _POWERS:
        _libc().prctl(_DROP, power, 0, 0, 0)  # refused to a process that has none of them to lose
    _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_libc().syscall(_RESTRICT, rules, 0))


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            rights &= _OF_A_FILE
        _checked(_libc().syscall(_ADD, rules, _PATH_BENEATH, ctypes.byref(_Beneath(rights, found)), 0))
    finally:
        os.close(found)


def _libc() -> ctypes.CDLL:
    return _LIBC


_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result


def main() -> None:
    """Confine this process, and become the program that the arguments name."""
    grants = json.loads(sys.argv[1])
    restrict(ruleset(grants["read"], grants["write"], network=grants["network"]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 (that is what it is for)


if __name__ == "__main__":
    main()
