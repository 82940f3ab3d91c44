"""Run another agent with one prompt and without a terminal."""

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

from midturn.cli.command_context import CommandContext, StoreAddress, place_in
from midturn.cli.output import line, note
from midturn.errors import TerminalGone
from midturn.question.text import prose
from midturn.security import process_ancestry

# --------------------------------------------------------------------------------------------------
# Signals during a turn


_T = TypeVar("_T")
DEADLY = (signal.SIGTERM, signal.SIGHUP)


async def with_signals(work: Callable[[], Awaitable[_T]], interrupt: Callable[[], None]) -> _T:
    """Run a turn.

    Ctrl-C ends the turn, and a second Ctrl-C exits immediately. SIGTERM and SIGHUP leave the turn
    open, so that it can be resumed.

    Raises:
        SystemExit: A signal arrived before the turn ended. The status is 128 plus the number of the
            signal.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    signals: list[int] = []

    def cancel(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        loop.call_soon_threadsafe(task.cancel)

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, cancel)
        loop.call_soon_threadsafe(interrupt)

    # The loop's own signal handlers are not used: a signal in the last iteration of the loop would
    # be lost, and the process would keep running.
    found = {number: signal.signal(number, cancel) for number in DEADLY} | {
        signal.SIGINT: signal.signal(signal.SIGINT, stop)
    }
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


def headless_place(store: StoreAddress | None) -> CommandContext:
    """Return the store for an agent's questions.

    From now on, this process and its children must not answer questions.
    """
    process_ancestry.mark(os.getpid())
    return place_in(Path.cwd(), store)


def prompt_of(given: str | None) -> str:
    """Return the prompt from `--prompt` or stdin."""
    prompt = given if given is not None else "" if sys.stdin.isatty() else sys.stdin.read()
    if not prompt.strip():
        raise click.UsageError(
            "The prompt is empty. Pass `--prompt TEXT`, or pipe a prompt to stdin."
        )
    return prompt


async def run_to_end(run: Coroutine[None, None, str | None], place: CommandContext) -> str | None:
    """Run an agent. Return a description of its end, or None if it was stopped.

    A note about the inbox is printed first, because nothing is printed while the agent waits for an
    answer.
    """
    inbox = line("`midturn inbox{0}`, and on the page of `midturn serve{0}`", place.option)
    note("midturn: the agent's questions appear in {}. Press Ctrl-C to stop.", inbox)
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
    """Print the agent's output on stdout, without control codes."""
    sys.stdout.write(prose(text))
    sys.stdout.flush()


def complain(text: str) -> None:
    """Print the agent's output on stderr, without control codes."""
    sys.stderr.write(prose(text))
    sys.stderr.flush()
