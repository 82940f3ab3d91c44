"""Program that shows one prompt of the catalogue on its terminal and writes the reply to a file:
`ask_once.py NAME FILE [CASE]`.

The cases `busy`, `output`, `cancel` and `withdrawn` wait for a file `go` next to the reply; see
`release_program`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from pathlib import Path

from midturn.errors import TerminalGone
from midturn.question.json_value import SecretValue
from midturn.question.reply import Answered, Reply
from midturn.terminal.capabilities import TerminalSettings
from midturn.terminal.output_pair import Gate
from midturn.terminal.prompter import TerminalPrompter
from support.prompt_catalogue import PROMPTS, WALKED
from support.waiting import until


async def main(name: str, result: Path, case: str) -> None:
    """Show the prompt. `case` selects what the host program does meanwhile."""
    if case == "busy":
        sys.stdout.write("busy")
        sys.stdout.flush()
        while not result.with_name("go").exists():  # a busy host program, so that keys are buffered
            time.sleep(0.01)  # noqa: ASYNC251
    if case == "thread":
        refuse_terminals(asyncio.get_running_loop())
    settings = TerminalSettings(
        settle_ms=int(1_000 * float(os.environ.get("SETTLE", "0"))),
        text_menu=case == "menu",
        notify_command=tuple(shlex.split(os.environ.get("NOTIFY", ""))),
    )
    gate = Gate()
    prompter = TerminalPrompter(settings, gate)
    asking = asyncio.create_task(prompter.prompt({**PROMPTS, **WALKED}[name]))
    if case == "host":
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGINT, write, result, "host heard SIGINT"
        )
    if case == "output":
        await until(result.with_name("go").exists)
        gate.write(sys.stderr, "held: line 1\n")
        gate.write(sys.stdout, "held: line 2\n")
        result.with_name("written").touch()
    if case == "child killed":
        child = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
        child.kill()
        await child.wait()
        write(result, "child gone")
    if case in ("cancel", "withdrawn"):
        await until(result.with_name("go").exists)
        asking.cancel()
    write(result, await settled(asking))
    if case == "withdrawn":
        prompter.withdrawn({**PROMPTS, **WALKED}[name].id, "ann\x1b")


def refuse_terminals(loop: asyncio.AbstractEventLoop) -> None:
    """Make the loop reject terminals in its selector, as some systems do."""

    def refuse(*_: object) -> None:
        raise PermissionError

    loop.add_reader = refuse  # type: ignore[method-assign]  # it is what such a loop does


async def settled(asking: asyncio.Task[Reply]) -> str:
    """Return how the prompt ended."""
    try:
        return shown(await asking)
    except TerminalGone:
        return "gone"
    except asyncio.CancelledError:
        return "cancelled"


def shown(reply: Reply) -> str:
    """Return a reply as text. A secret is revealed, so that the test can check it."""
    if isinstance(reply, Answered) and isinstance(reply.value, SecretValue):
        return repr(reply).replace("SecretValue(hidden)", repr(reply.value.reveal()))
    return repr(reply)


def write(result: Path, text: str) -> None:
    result.write_text(text, encoding="utf-8", errors="backslashreplace")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""))
