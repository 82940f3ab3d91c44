"""What the system refuses, in words that a model can act on."""

from __future__ import annotations

import errno
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePosixPath

from midturn.tools.fs.paths import shown
from midturn.tools.returned import Rejected


class Missing(Rejected):
    """There is no such file or folder."""


@contextmanager
def explained(path: PurePosixPath) -> Generator[None, None, None]:
    """Turn errors of the system about `path` into `Rejected`."""
    try:
        yield
    except FileNotFoundError:
        raise Missing(f"There is no {shown(str(path))} in the workspace.") from None
    except OSError as error:
        raise Rejected(f"{shown(str(path))} {_reason(error)}.") from None


def kind_of(mode: int) -> str:
    """Name what is not a regular file."""
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a pipe, socket or device"


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EXDEV:
            return "leads out of the workspace, or to another file system"
        case errno.ELOOP:
            return "is, or is behind, a symbolic link that is not followed"
        case errno.ENOTDIR:
            return "is, or is behind, something that is not a folder"
        case _:
            return f"cannot be used: {error.strerror}"
