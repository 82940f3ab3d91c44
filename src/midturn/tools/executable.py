"""Where a local command's program is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class CommandError(Exception):
    """The command cannot be started; the message is for the model."""


def find_executable(name: str, cwd: Path, path: str) -> Path:
    """Return the absolute path of a program: a name with a slash is relative to `cwd`, another is looked up in `path`.

    Directories in `path` that are relative do not count: a repository could put its own `git` there.

    Raises:
        CommandError: There is no such program.
    """
    if "/" in name:
        found = cwd / name
        if found.is_file() and os.access(found, os.X_OK):
            return found
        problem = "is not executable" if found.exists() else "does not exist"
        raise CommandError(f"the command {found} {problem}. Do not retry; the configuration must be corrected.")
    absolute = os.pathsep.join(part for part in path.split(os.pathsep) if Path(part).is_absolute())
    if which := shutil.which(name, path=absolute):
        return Path(which)
    raise CommandError(f"the command `{name}` was not found in PATH. Do not retry; it must be installed, or the configuration corrected.")
