"""The file tools as functions with their descriptions for the model. `described.json` is
generated from them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from midturn.events.outcome import Success
from midturn.question.question import Question
from midturn.tools.asking import ToolContext
from midturn.tools.fs.changing import (
    create_file,
    delete_file,
    modify_file,
    move_file,
    preview_overwriting,
)
from midturn.tools.fs.paths import Counted, FilePath, FolderPath, GlobArgument, Replacement
from midturn.tools.fs.reading import read_file
from midturn.tools.fs.searching import grep_files, list_files
from midturn.tools.function import tool

Depth = Annotated[
    Counted | None,
    Meta(
        description="How many folders deep to look; deeper ones are listed with a slash at the end."
    ),
]
FirstLine = Annotated[Counted | None, Meta(description="First line to read, counted from 1.")]
LastLine = Annotated[Counted | None, Meta(description="Last line to read.")]
Expression = Annotated[
    str,
    Meta(description="Regular expression, looked for in each line; put (?i) first to ignore case."),
]
Around = Annotated[
    Annotated[int, Meta(ge=0, le=20)] | None,
    Meta(description="How many lines to show before and after each match."),
]
Content = Annotated[str, Meta(description="What the file is to contain.")]
Edits = Annotated[
    list[Replacement], Meta(min_length=1, description="Replacements, made one after the other.")
]
Destination = Annotated[
    str,
    Meta(description="Its new path, relative to the workspace root. There must be no file yet."),
]


@tool
def fs_list_files(
    ctx: ToolContext, path: FolderPath = ".", glob: GlobArgument = None, max_depth: Depth = None
) -> str:
    """List the files of the workspace, one path a line, without what git ignores."""
    return list_files(ctx, path, glob, max_depth)


@tool
def fs_read_file(
    path: FilePath, ctx: ToolContext, start_line: FirstLine = None, end_line: LastLine = None
) -> str | Success:
    """Read a text file of the workspace, whole or some of its lines; or look at a picture (PNG,
    JPEG, GIF, WebP).
    """
    return read_file(ctx, path, start_line, end_line)


@tool
def fs_grep_files(
    pattern: Expression,
    ctx: ToolContext,
    path: FolderPath = ".",
    glob: GlobArgument = None,
    context: Around = None,
) -> str:
    """Search the text files of the workspace (without what git ignores) for a regular
    expression. `path` may name one file.
    """
    return grep_files(ctx, pattern, path, glob, context)


@tool(run="ask")
def fs_create_file(path: FilePath, content: Content, ctx: ToolContext) -> str | Question[bool]:
    """Create a text file, and the folders that it is missing. If the file exists, the user is
    asked whether to overwrite it.
    """
    return create_file(ctx, path, content)


def _preview_overwriting(path: str, content: str, ctx: ToolContext) -> Question[bool] | None:
    return preview_overwriting(ctx, path, content)


fs_create_file.previews(_preview_overwriting)


@tool
def fs_modify_file(path: FilePath, edits: Edits, ctx: ToolContext) -> str | Question[bool]:
    """Change a text file by replacing pieces of its text. The change is shown to somebody who
    approves it before it is made.
    """
    return modify_file(ctx, path, edits)


@tool(run="ask")
def fs_delete_file(path: FilePath, ctx: ToolContext) -> str | Question[bool]:
    """Delete a file. If it has uncommitted changes, the user is asked first."""
    return delete_file(ctx, path)


@tool(run="ask")
def fs_move_file(
    source: FilePath, destination: Destination, ctx: ToolContext
) -> str | Question[bool]:
    """Move or rename a file. If it has uncommitted changes, the user is asked first."""
    return move_file(ctx, source, destination)


FILE_TOOLS = (
    fs_list_files,
    fs_read_file,
    fs_grep_files,
    fs_create_file,
    fs_modify_file,
    fs_delete_file,
    fs_move_file,
)
