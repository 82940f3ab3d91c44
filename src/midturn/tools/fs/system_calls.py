"""Two Linux system calls that Python does not offer: `openat2` and `renameat2`."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import TypeAlias

_OPENAT2 = 437  # the same number on every architecture
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08
_NOREPLACE, _EXCHANGE = 1, 2
_TRIES = 16  # a path that somebody renames while it is walked is refused with EAGAIN
_MISSING = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP})

_Function: TypeAlias = Callable[..., int]


class Unsupported(Exception):  # noqa: N818 (a finding, not a failure)
    """The system does not offer this call, or not for this file system."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def _function(name: str) -> _Function:
    if not sys.platform.startswith("linux"):
        raise Unsupported(name)
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):
        raise Unsupported(name) from None


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open `path` below the folder; the kernel refuses whatever leads out of it, at every step of the walk.

    Raises:
        OSError: As `open`; EXDEV where the path leaves the folder.
        Unsupported: There is no `openat2`.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    for _ in range(_TRIES):
        found = _function("syscall")(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return found
        if ctypes.get_errno() != errno.EAGAIN:
            break
    raise _error({errno.ENOSYS, errno.EPERM}, path)


def rename_exclusively(source: tuple[int, str], destination: tuple[int, str]) -> None:
    """Rename, unless the destination exists.

    Raises:
        FileExistsError: It does.
        Unsupported: The system cannot tell in one step.
    """
    _rename(source, destination, _NOREPLACE)


def exchange(source: tuple[int, str], destination: tuple[int, str]) -> None:
    """Let two files change places in one step.

    Raises:
        Unsupported: The system cannot.
    """
    _rename(source, destination, _EXCHANGE)


def _rename(source: tuple[int, str], destination: tuple[int, str], flags: int) -> None:
    (from_folder, from_name), (to_folder, to_name) = source, destination
    if _function("renameat2")(from_folder, os.fsencode(from_name), to_folder, os.fsencode(to_name), flags):
        raise _error(_MISSING, to_name)


def _error(missing: frozenset[int] | set[int], path: str) -> Exception:
    number = ctypes.get_errno()
    if number in missing:
        return Unsupported(os.strerror(number))
    return OSError(number, os.strerror(number), path)
