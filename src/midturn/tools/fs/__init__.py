"""The built-in file tools: confined to the workspace, and asking before they destroy anything."""

from midturn.tools.fs.declared import (
    FILE_TOOLS,
    fs_create_file,
    fs_delete_file,
    fs_grep_files,
    fs_list_files,
    fs_modify_file,
    fs_move_file,
    fs_read_file,
)

__all__ = [
    "FILE_TOOLS",
    "fs_create_file",
    "fs_delete_file",
    "fs_grep_files",
    "fs_list_files",
    "fs_modify_file",
    "fs_move_file",
    "fs_read_file",
]
