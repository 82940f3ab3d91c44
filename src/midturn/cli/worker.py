"""`midturn worker`: goes on with turns that are due, as a process of its own, on as many machines as one likes."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import click

from midturn.agent.agent import Agent
from midturn.cli.command_context import StoreAddress, option_of
from midturn.cli.log import start_measuring
from midturn.cli.options import with_store
from midturn.cli.output import ExitStatus, note
from midturn.config.places import configured_keep
from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.http import Listening
from midturn.stores.opening import store_at
from midturn.stores.pruning import keep_for
from midturn.stores.store import ConversationStore

_PATIENCE = 0.9
"""Seconds that turns have to be handed back in, once the worker is told to stop. What is not by then, others find without its process."""


@click.command
@click.argument("agent", metavar="MODULE:AGENT")
@click.option("--at-once", type=click.IntRange(1, 10_000), default=16, show_default=True, help="How many turns run at the same time.")
@with_store
@click.option("--engine", type=click.Choice(["none", "dbos"]), default="none", show_default=True, help="Who wakes the worker.")
@click.option(
    "--deps-for",
    metavar="MODULE:FUNCTION",
    help="Function of the conversation and its author that returns what the tools of a turn find as `ctx.deps`.",
)
@click.option("--health", metavar="HOST:PORT", help="Answer `GET /healthz` and `/readyz` there.")
def command(
    *,
    agent: str,
    at_once: int,
    store: StoreAddress | None,
    engine: Literal["none", "dbos"],
    deps_for: str | None,
    health: str | None,
) -> ExitStatus:
    """Go on with turns of AGENT (a variable of MODULE) whose questions are answered, until told to stop.

    With `--store`, work there in place of the agent's own store. Start as many as you like. SIGTERM hands their turns back within a second.
    """
    listening = None if health is None else _listening(health)
    found = _find(agent)
    made_by = None if deps_for is None else _find_function(deps_for)
    working = found if store is None else found.with_store(store_at(store.where))
    start_measuring(os.environ, working.store)
    note("midturn: working on turns that are due, {} at once.", str(at_once))
    return asyncio.run(
        _beside(listening, working.store, option_of(store), partial(working.work, at_once=at_once, deps_for=made_by, engine=engine))
    )


async def _beside(
    listening: Listening | None, store: ConversationStore, option: str, work: Callable[[], Coroutine[Any, Any, None]]
) -> ExitStatus:
    keep = configured_keep(os.environ)
    keeping = asyncio.create_task(keep_for(keep, store.prune, option)) if keep is not None else None
    try:
        async with _answering_probes(listening, store) if listening else nullcontext():
            return await _until_told(work)
    finally:
        if keeping is not None:
            keeping.cancel()


def _answering_probes(listening: Listening, store: ConversationStore) -> AbstractAsyncContextManager[None]:
    try:
        from midturn.http_server import Health, serving  # loaded where it is used: it is large
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "midturn":
            raise
        raise ConfigError(f"`--health` needs the extra `web`: {install_command('web')}") from None
    return serving(Health(partial(store.port.newest, 1)), listening)


def _listening(address: str) -> Listening:
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16):
        raise click.BadParameter(f"{address!r} is no place to listen at: write HOST:PORT, such as `127.0.0.1:8080`.")
    return Listening(host=host.removeprefix("[").removesuffix("]"), port=int(port))


async def _until_told(work: Callable[[], Coroutine[Any, Any, None]]) -> ExitStatus:
    loop = asyncio.get_running_loop()
    told = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda number=number: told.done() or told.set_result(number))
    working = asyncio.create_task(work())
    await asyncio.wait({working, told}, return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        working.result()
    working.cancel()
    done, _ = await asyncio.wait({working}, timeout=_PATIENCE)
    status = ExitStatus.ENDED_BY_USER if told.result() == signal.SIGINT else ExitStatus.TERMINATED
    if not done:  # a tool does not let go: the next worker finds its conversation without a process
        sys.stderr.flush()
        os._exit(status)
    return status


def _find(name: str) -> Agent[Any]:
    found = _loaded(name, "agent", "MODULE:AGENT, such as `myapp:agent`")
    if not isinstance(found, Agent):
        raise ConfigError(f"{name} is not a `midturn.Agent` but {type(found).__name__}.")
    return cast("Agent[Any]", found)


def _find_function(name: str) -> Callable[[str, str | None], Any]:
    found = _loaded(name, "function", "MODULE:FUNCTION, such as `myapp:deps_for`")
    if not callable(found):
        raise ConfigError(
            f"--deps-for {name} is a {type(found).__name__}. It must be a function: `def deps_for(conversation: str, author: str | None)`."
        )
    return found


def _loaded(name: str, kind: str, form: str) -> object:
    """Return a variable of a module, here or among the installed ones."""
    module, colon, variable = name.partition(":")
    if not colon or not module or not variable:
        raise click.BadParameter(f"{name!r} names no {kind}: write {form}.")
    if sys.path[:1] != [str(Path.cwd())]:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), variable)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            raise ConfigError(f"There is no module {module!r} here or among the installed ones.") from None
        raise
    except AttributeError:
        raise ConfigError(f"The module {module!r} has no {variable!r}.") from None
