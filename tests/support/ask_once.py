"""A program that asks one prompt of the catalogue on its terminal and writes the reply to a file: `ask_once.py NAME FILE [CASE]`."""

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


async def main(name: str, result: Path, case: str) -> None:
    """Ask, as `case` says: plainly, or with a host around that does what hosts do."""
    if case == "busy":
        sys.stdout.write("busy")
        sys.stdout.flush()
        time.sleep(0.5)  # noqa: ASYNC251 (a host that is busy, so that keys pile up)
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
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, write, result, "host heard SIGINT")
    if case == "output":
        await asyncio.sleep(0.2)
        gate.write(sys.stderr, "held: line 1\n")
        gate.write(sys.stdout, "held: line 2\n")
    if case == "child killed":
        child = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
        child.kill()
        await child.wait()
        write(result, "child gone")
    if case.startswith("cancel") or case == "withdrawn":
        await asyncio.sleep(2 if case == "cancel later" else 0.5)
        asking.cancel()
    write(result, await settled(asking))
    if case == "withdrawn":
        prompter.withdrawn({**PROMPTS, **WALKED}[name].id, "ann\x1b")


def refuse_terminals(loop: asyncio.AbstractEventLoop) -> None:
    """Be a loop whose selector cannot wait for terminals, as on some systems."""

    def refuse(*_: object) -> None:
        raise PermissionError

    loop.add_reader = refuse  # type: ignore[method-assign]  # it is what such a loop does


async def settled(asking: asyncio.Task[Reply]) -> str:
    """Say what the prompt ended in."""
    try:
        return shown(await asking)
    except TerminalGone:
        return "gone"
    except asyncio.CancelledError:
        return "cancelled"


def shown(reply: Reply) -> str:
    """Write a reply; a secret is revealed, for the test must see it."""
    if isinstance(reply, Answered) and isinstance(reply.value, SecretValue):
        return repr(reply).replace("SecretValue(hidden)", repr(reply.value.reveal()))
    return repr(reply)


def write(result: Path, text: str) -> None:
    """Leave `text` for the test."""
    result.write_text(text, encoding="utf-8", errors="backslashreplace")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""))
