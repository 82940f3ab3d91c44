"""What tools, providers and questions may be called, in which way a command may speak, and which tools are built in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

NAME: Final = r"[A-Za-z0-9_-]{1,64}"
"""A pattern: the name of a tool or of a provider."""

QUESTION_ID: Final = rf"(?!__){NAME}"
"""A pattern: the id of a question; what begins with `__` is ours."""

OutputProtocol: TypeAlias = Literal["text", "outcome"]
"""What a command prints: the result's text, or an outcome as JSON."""

ASK_USER: Final = "ask_user"
DESCRIBE_TOOLS: Final = "describe_tools"
BUILT_IN_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    ASK_USER: (),
    DESCRIBE_TOOLS: (),
    "fs_list_files": (),
    "fs_read_file": (),
    "fs_grep_files": (),
    "fs_create_file": ("overwrite_file",),
    "fs_modify_file": ("apply_changes",),
    "fs_delete_file": ("confirm",),
    "fs_move_file": ("confirm",),
}
"""The built-in tools, each with the ids of the questions that it asks; those of `ask_user` are the model's to choose."""
