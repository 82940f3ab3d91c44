"""Unattended run of another agent: one prompt, to its end, or until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import TypeVar

import click

from midturn.cli.command_context import Place, StoreAddress, place_in
from midturn.cli.output import line, note
from midturn.errors import TerminalGone
from midturn.question.text import prose
from midturn.security import process_ancestry

# ----------------------------------------------------------------------------------------------------------------------
# Signals during a turn


_T = TypeVar("_T")
DEADLY = (signal.SIGTERM, signal.SIGHUP)


async def with_signals(work: Callable[[], Awaitable[_T]], interrupt: Callable[[], None]) -> _T:
    """Let Ctrl-C end the turn (a second one leaves at once), and a deadly signal leave it open: it can be resumed.

    Raises:
        SystemExit: A signal came before the work was over, or just then; its status is 128 and the signal's number.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    signals: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        loop.call_soon_threadsafe(task.cancel)

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, leave)
        loop.call_soon_threadsafe(interrupt)

    # Not the loop's own handlers: what these are told in the loop's last round is lost, and a command that stays would stay for ever.
    found = {number: signal.signal(number, leave) for number in DEADLY} | {signal.SIGINT: signal.signal(signal.SIGINT, stop)}
    try:
        result = await task
    except (asyncio.CancelledError, TerminalGone):
        if signals:
            raise SystemExit(128 + signals[0]) from None
        raise
    finally:
        for number, handler in found.items():
            signal.signal(number, handler)
    if signals:
        raise SystemExit(128 + signals[0])
    return result


def headless_place(store: StoreAddress | None) -> Place:
    """Return where what an agent asks is kept. This process, and whatever the agent starts, answers nothing from now on."""
    process_ancestry.mark(os.getpid())
    return place_in(Path.cwd(), store)


def prompt_of(given: str | None) -> str:
    """Return what the agent is to do: `--prompt`, or what is piped into stdin."""
    prompt = given if given is not None else "" if sys.stdin.isatty() else sys.stdin.read()
    if not prompt.strip():
        raise click.UsageError("There is nothing to do: give `--prompt TEXT`, or pipe it into stdin.")
    return prompt


async def to_its_end(run: Coroutine[None, None, str | None], place: Place) -> str | None:
    """Run an agent; return how it ended, None where a signal or a person stopped it.

    While it waits it says nothing, so it is said before where.
    """
    asked = line("`midturn inbox{0}`, and on the page of `midturn serve{0}`", place.option)
    note("midturn: what the agent asks waits in {}. Ctrl-C stops it.", asked)
    going = asyncio.ensure_future(run)

    async def work() -> str | None:
        await asyncio.wait({going})
        return None if going.cancelled() else going.result()

    def stop() -> None:
        going.cancel()

    try:
        return await with_signals(work, stop)
    finally:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)


def say_prose(text: str) -> None:
    """Print what an agent says, with nothing in it that a terminal would obey."""
    sys.stdout.write(prose(text))
    sys.stdout.flush()


def complain(text: str) -> None:
    """Print what an agent writes to its standard error, in the same way."""
    sys.stderr.write(prose(text))
    sys.stderr.flush()
