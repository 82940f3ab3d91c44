"""An agent that runs as a child of ours, and is spoken with over its standard streams."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from midturn.errors import MidturnError
from midturn.sandbox.marks import VARIABLE

_LONGEST = 64 * 1024 * 1024  # bytes of one message: a result may carry pictures
_PATIENCE = 5.0


class AgentFailed(MidturnError):  # noqa: N818  it says what happened
    """The agent cannot be run, or went away; the message says what is known."""


async def started(command: Sequence[str], cwd: Path) -> asyncio.subprocess.Process:
    """Start an agent in a process group of its own.

    Raises:
        AgentFailed: It cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, VARIABLE: Path(command[0]).name}
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, cwd=cwd, env=environment, limit=_LONGEST, start_new_session=True
        )
    except OSError as error:
        raise AgentFailed(f"{command[0]} cannot be started: {error.strerror or error}.") from error


async def ended(process: asyncio.subprocess.Process) -> None:
    """Let an agent end, now that nobody speaks with it, with everything that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _PATIENCE)
