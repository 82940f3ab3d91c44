"""Going on with the session of another agent that has ended with its question."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note
from midturn.core.asker import Asker
from midturn.errors import MidturnError
from midturn.foreign.claude_deferring import resuming


def go_on_there(asker: Asker) -> ExitStatus:
    """Go on with the session of the agent that asked, and return when it has ended.

    Raises:
        MidturnError: It cannot be resumed from here.
    """
    command = resuming(asker)
    if command is None or shutil.which(command[0]) is None:
        raise MidturnError(f"The answer is kept, but no session of {asker.name} can be resumed from here: start it again yourself.")
    note("midturn: {} goes on in {}.", shlex.join(command), asker.cwd or ".")
    folder = Path(asker.cwd)
    ended = subprocess.run(command, cwd=folder if folder.is_dir() else None, check=False)  # noqa: S603  the user asked for it
    return ExitStatus.DONE if ended.returncode == 0 else ExitStatus.ERROR
