"""Paths as a model writes them: relative to the workspace root, and staying in it."""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from midturn.question.text import exact
from midturn.security.private_files import is_kept, is_within, own_directories
from midturn.tools.returned import Rejected

_OWN = frozenset({".midturn", ".git"})
_COMMANDS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, formats, surrogates, line separators
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST = 300  # characters of a path in a question


def relative(path: str, root: Path) -> PurePosixPath:
    """Read a path; an absolute one counts when it begins with the root.

    Raises:
        Rejected: It is empty, has a NUL character or half a surrogate pair, or leads out of the workspace.
    """
    if not path or "\0" in path or _SURROGATE.search(path):
        raise Rejected(f"{shown(path)} is not a path; give one relative to the workspace root, such as `docs/plan.md`.")
    given = PurePosixPath(path)
    if given.is_absolute():
        if not given.is_relative_to(root):
            raise Rejected(f"{shown(path)} is outside of the workspace; paths are relative to the workspace root.")
        given = given.relative_to(root)
    if ".." in given.parts:
        raise Rejected(f"{shown(path)} has `..` in it; write the path without.")
    return given


def check_name(path: PurePosixPath) -> None:
    """Refuse to create what people cannot see or type.

    Raises:
        Rejected: The path names no file, or has a control or invisible character in it.
    """
    if not path.name:
        raise Rejected("The workspace root itself is not a file; give the path of a file in it.")
    if any(unicodedata.category(character) in _COMMANDS for character in str(path)):
        raise Rejected(f"{shown(str(path))} has a control or invisible character in it; choose another name.")


def check_writable(path: PurePosixPath, root: Path) -> None:
    """Refuse to touch what steers midturn or git: a tool must not change its own rules, nor plant a hook.

    `path` must be free of symbolic links. It need not exist: a missing configuration may not be created either.

    Raises:
        Rejected: It is ours or git's.
    """
    for part in path.parts:
        if _folded(part) in _OWN:
            raise Rejected(f"{shown(str(path))} belongs to {_folded(part)[1:]}; file tools do not write there.")
    if is_within(root / path, *own_directories()) or is_kept(root / path, root):
        raise Rejected(f"{shown(str(path))} belongs to midturn; file tools do not write there.")


def check_not_of_git(path: PurePosixPath, root: Path, folders: Sequence[Path]) -> None:
    """Refuse to touch what git keeps under another name: a separate directory, hooks that its configuration puts elsewhere.

    Raises:
        Rejected: It is git's.
    """
    if is_within(root / path, *_beside(root, folders)):
        raise Rejected(f"{shown(str(path))} belongs to git; file tools do not write there.")


def _beside(root: Path, folders: Iterable[Path]) -> list[Path]:
    """Leave out what the whole workspace lies in: then it cannot be meant."""
    real = Path(os.path.realpath(root))
    return [folder for folder in folders if not real.is_relative_to(os.path.realpath(folder))]


def shown(path: str) -> str:
    """Write a path on one line for a message or a question: whatever cannot be seen as its code, a long one cut in its middle."""
    text = exact(path.encode("utf-8", "replace").decode())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def _folded(part: str) -> str:
    """Fold what case-insensitive and normalising file systems hold for the same name."""
    return unicodedata.normalize("NFKC", part).casefold().rstrip(". ")


# ----------------------------------------------------------------------------------------------------------------------
# System errors, in words that a model can act on


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


# ----------------------------------------------------------------------------------------------------------------------
# The arguments that several file tools take


FilePath: TypeAlias = Annotated[str, Meta(description="Path of the file, relative to the workspace root.")]
FolderPath: TypeAlias = Annotated[str, Meta(description="Folder to look in, relative to the workspace root; the root itself by default.")]
GlobArgument: TypeAlias = Annotated[
    str | None,
    Meta(description="Only files that match, such as `*.py` (in any folder), `docs/*.md` or `src/**/test_*.{js,ts}`."),
]
Counted: TypeAlias = Annotated[int, Meta(ge=1)]


class Replacement(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace `old`, which must occur exactly once unless `all` is set, by `new`."""

    old: Annotated[str, Meta(min_length=1, description="The text to replace, exactly as it is in the file, white space included.")]
    new: Annotated[str, Meta(description="The text to put in its place.")]
    all: Annotated[bool, Meta(description="Replace every occurrence.")] = False
