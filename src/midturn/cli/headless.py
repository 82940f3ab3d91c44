"""Running somebody else's agent with nobody at its terminal: one prompt, to its end, or until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path

import click

from midturn.cli.output import note
from midturn.cli.place import Place, StoreAddress, place_in
from midturn.cli.signals import with_signals
from midturn.core.visible import prose
from midturn.sandbox import marks


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


async def to_its_end(run: Coroutine[None, None, str]) -> str | None:
    """Run an agent; return how it ended, None where a signal stopped it. While it waits it says nothing, so it is said before where."""
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


def say(text: str) -> None:
    """Print what an agent says, with nothing in it that a terminal would obey."""
    sys.stdout.write(prose(text))
    sys.stdout.flush()
