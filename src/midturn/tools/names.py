"""How tools may be called, and which names are taken."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
BUILTIN_NAMES = frozenset(
    {
        "ask_user",
        "describe_tools",
        "fs_list_files",
        "fs_read_file",
        "fs_grep_files",
        "fs_create_file",
        "fs_modify_file",
        "fs_delete_file",
        "fs_move_file",
    }
)
RESERVED_NAME = "Assistant"
"""The header of the questions that the model itself asks: no tool may look like it, in whatever case."""


def name_problem(name: str) -> str | None:
    """Say what is wrong with a tool's name, if anything."""
    if not NAME.fullmatch(name):
        return f"`{name}` is no name for a tool; allowed are 1 to 64 of the characters A-Z a-z 0-9 _ and -."
    if name.casefold() == RESERVED_NAME.casefold():
        return f"`{name}` is no name for a tool: questions that the model asks are headed `{RESERVED_NAME}`; give yours another name."
    return None
