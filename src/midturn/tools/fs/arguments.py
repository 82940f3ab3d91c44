"""The arguments that several file tools take."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

FilePath: TypeAlias = Annotated[str, Meta(description="Path of the file, relative to the workspace root.")]
FolderPath: TypeAlias = Annotated[str, Meta(description="Folder to look in, relative to the workspace root; the root itself by default.")]
GlobArgument: TypeAlias = Annotated[
    str | None,
    Meta(description="Only files that match, such as `*.py` (in any folder), `docs/*.md` or `src/**/test_*.{js,ts}`."),
]
Counted: TypeAlias = Annotated[int, Meta(ge=1)]
