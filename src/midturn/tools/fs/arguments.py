"""The arguments that several file tools take."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

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
