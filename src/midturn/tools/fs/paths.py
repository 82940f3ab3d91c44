"""Paths in the arguments of file tools. They are relative to the workspace root and inside it."""

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
from midturn.security.private_files import is_protected, is_within, own_directories
from midturn.tools.returned import Rejected

_PROTECTED_NAMES = frozenset({".midturn", ".git"})
# Unicode categories of control, format, surrogate and line separator characters
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_SHOWN_LENGTH = 300  # maximum length of a path in a question, in characters


def relative(path: str, root: Path) -> PurePosixPath:
    """Parse a path. An absolute path must start with the workspace root.

    Raises:
        Rejected: The path is empty, contains a NUL character or a lone surrogate, or leads out of
            the workspace.
    """
    if not path or "\0" in path or _SURROGATE.search(path):
        raise Rejected(
            f"{shown(path)} is not a path; give one relative to the workspace root, such as"
            " `docs/plan.md`."
        )
    given = PurePosixPath(path)
    if given.is_absolute():
        if not given.is_relative_to(root):
            raise Rejected(
                f"{shown(path)} is outside of the workspace; paths are relative to the workspace"
                " root."
            )
        given = given.relative_to(root)
    if ".." in given.parts:
        raise Rejected(f"{shown(path)} has `..` in it; write the path without.")
    return given


def check_name(path: PurePosixPath) -> None:
    """Reject names with characters that people cannot see or type.

    Raises:
        Rejected: The path is the workspace root, or contains a control or invisible character.
    """
    if not path.name:
        raise Rejected("The workspace root itself is not a file; give the path of a file in it.")
    if any(unicodedata.category(character) in _INVISIBLE_CATEGORIES for character in str(path)):
        raise Rejected(
            f"{shown(str(path))} has a control or invisible character in it; choose another name."
        )


def check_writable(path: PurePosixPath, root: Path) -> None:
    """Reject writing to files that control midturn or git, because a tool must not change its own
    rules or install a hook.

    `path` must not contain symbolic links. It does not have to exist, because a tool must not
    create a configuration either.

    Raises:
        Rejected: The path belongs to midturn or git.
    """
    for part in path.parts:
        if _folded(part) in _PROTECTED_NAMES:
            raise Rejected(
                f"{shown(str(path))} belongs to {_folded(part)[1:]}; file tools do not write there."
            )
    if is_within(root / path, *own_directories()) or is_protected(root / path, root):
        raise Rejected(f"{shown(str(path))} belongs to midturn; file tools do not write there.")


def check_not_of_git(path: PurePosixPath, root: Path, folders: Sequence[Path]) -> None:
    """Reject writing to git's files outside of `.git`: a separate git directory, or a configured
    hooks directory.

    Raises:
        Rejected: The path belongs to git.
    """
    if is_within(root / path, *_inside_workspace(root, folders)):
        raise Rejected(f"{shown(str(path))} belongs to git; file tools do not write there.")


def _inside_workspace(root: Path, folders: Iterable[Path]) -> list[Path]:
    """Return the folders, except those that contain the whole workspace, because they would block
    every file.
    """
    real = Path(os.path.realpath(root))
    return [folder for folder in folders if not real.is_relative_to(os.path.realpath(folder))]


def shown(path: str) -> str:
    """Return a path on one line for messages and questions. Invisible characters are shown as
    codes, and long paths are shortened in the middle.
    """
    text = exact(path.encode("utf-8", "replace").decode())
    return (
        text
        if len(text) <= _MAX_SHOWN_LENGTH
        else f"{text[: _MAX_SHOWN_LENGTH // 2]}…{text[-_MAX_SHOWN_LENGTH // 2 :]}"
    )


def _folded(part: str) -> str:
    """Normalize a name as case-insensitive and normalizing file systems do."""
    return unicodedata.normalize("NFKC", part).casefold().rstrip(". ")


# --------------------------------------------------------------------------------------------------
# System errors as messages for the model


class Missing(Rejected):
    """The file or folder does not exist."""


@contextmanager
def explained(path: PurePosixPath) -> Generator[None, None, None]:
    """Convert system errors about `path` to `Rejected`."""
    try:
        yield
    except FileNotFoundError:
        raise Missing(f"There is no {shown(str(path))} in the workspace.") from None
    except OSError as error:
        raise Rejected(f"{shown(str(path))} {_reason(error)}.") from None


def kind_of(mode: int) -> str:
    """Describe the kind of a file that is not a regular file."""
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


# --------------------------------------------------------------------------------------------------
# Arguments shared by several file tools


FilePath: TypeAlias = Annotated[
    str, Meta(description="Path of the file, relative to the workspace root.")
]
FolderPath: TypeAlias = Annotated[
    str,
    Meta(
        description="Folder to look in, relative to the workspace root; the root itself by default."
    ),
]
GlobArgument: TypeAlias = Annotated[
    str | None,
    Meta(
        description=(
            "Only files that match, such as `*.py` (in any folder), `docs/*.md` or"
            " `src/**/test_*.{js,ts}`."
        )
    ),
]
Counted: TypeAlias = Annotated[int, Meta(ge=1)]


class Replacement(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace `old`, which must occur exactly once unless `all` is set, by `new`."""

    old: Annotated[
        str,
        Meta(
            min_length=1,
            description="The text to replace, exactly as it is in the file, white space included.",
        ),
    ]
    new: Annotated[str, Meta(description="The text to put in its place.")]
    all: Annotated[bool, Meta(description="Replace every occurrence.")] = False
