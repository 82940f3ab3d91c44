"""Unattended run of another agent: one prompt, to its end, or until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import click

from midturn.cli.output import note
from midturn.cli.place import Place, StoreAddress, place_in
from midturn.errors import TerminalGone
from midturn.sandbox import marks
from midturn.values.text import prose

# ----------------------------------------------------------------------------------------------------------------------
# Signals during a turn


_T = TypeVar("_T")
DEADLY = (signal.SIGTERM, signal.SIGHUP)


async def with_signals(work: Callable[[], Awaitable[_T]], interrupt: Callable[[], None]) -> _T:
    """Let Ctrl-C end the turn (a second one leaves at once), and a deadly signal leave it open: it can be resumed.

    Raises:
        SystemExit: A signal ended the work; its status is 128 and the signal's number.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    signals: list[signal.Signals] = []

    def leave(number: signal.Signals) -> None:
        signals.append(number)
        task.cancel()

    def stop() -> None:
        loop.add_signal_handler(signal.SIGINT, leave, signal.SIGINT)
        interrupt()

    loop.add_signal_handler(signal.SIGINT, stop)
    for number in DEADLY:
        loop.add_signal_handler(number, leave, number)
    try:
        return await task
    except (asyncio.CancelledError, TerminalGone):
        if signals:
            raise SystemExit(128 + signals[0]) from None
        raise
    finally:
        for number in (signal.SIGINT, *DEADLY):
            loop.remove_signal_handler(number)


def headless_place(store: StoreAddress | None) -> Place:
    """Return where what an agent asks is kept. This process, and whatever the agent starts, answers nothing from now on."""
    marks.mark(os.getpid())
    return place_in(Path.cwd(), store)


def prompt_of(given: str | None) -> str:
    """Return what the agent is to do: `--prompt`, or what is piped into stdin."""
    prompt = given if given is not None else "" if sys.stdin.isatty() else sys.stdin.read()
    if not prompt.strip():
        raise click.UsageError("There is nothing to do: give `--prompt TEXT`, or pipe it into stdin.")
    return prompt


async def to_its_end(run: Coroutine[None, None, str | None]) -> str | None:
    """Run an agent; return how it ended, None where a signal or a person stopped it.

    While it waits it says nothing, so it is said before where.
    """
    note("midturn: what the agent asks waits in `midturn inbox`, and on the page of `midturn serve`. Ctrl-C stops it.")
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
