"""The built-in file tools: confined to the workspace, and asking before they destroy anything."""

from midturn.tools.fs.create_file import fs_create_file
from midturn.tools.fs.delete_file import fs_delete_file
from midturn.tools.fs.grep_files import fs_grep_files
from midturn.tools.fs.list_files import fs_list_files
from midturn.tools.fs.modify_file import fs_modify_file
from midturn.tools.fs.move_file import fs_move_file
from midturn.tools.fs.read_file import fs_read_file

FILE_TOOLS = (fs_list_files, fs_read_file, fs_grep_files, fs_create_file, fs_modify_file, fs_delete_file, fs_move_file)

__all__ = ["FILE_TOOLS"]
