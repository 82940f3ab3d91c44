"""`midturn worker`: a process that continues turns that are ready.

Any number of workers can run, on several machines.
"""

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
from midturn.cli.options import store_option, with_log_format
from midturn.cli.output import ExitStatus, note
from midturn.config.places import configured_keep
from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.http import Listening
from midturn.stores.opening import store_at
from midturn.stores.pruning import keep_for
from midturn.stores.store import ConversationStore

_GRACE_PERIOD = 0.9
"""Maximum time in seconds between a signal and the end of the process.

In this time, the worker releases its turns. Other workers reclaim the turns that it could not
release.
"""


@click.command
@click.argument("agent", metavar="MODULE:AGENT")
@click.option(
    "--at-once",
    type=click.IntRange(1, 10_000),
    default=16,
    show_default=True,
    help="Maximum number of concurrent turns",
)
@store_option("Use this store instead of the agent's own")
@click.option(
    "--engine",
    type=click.Choice(["none", "dbos"]),
    default="none",
    show_default=True,
    help="Job engine",
)
@click.option(
    "--deps-for",
    metavar="MODULE:FUNCTION",
    help="Function (conversation, author) that returns `ctx.deps` for the tools of a turn",
)
@click.option("--health", metavar="HOST:PORT", help="Address for GET /healthz and /readyz")
@with_log_format
def command(
    *,
    agent: str,
    at_once: int,
    store: StoreAddress | None,
    engine: Literal["none", "dbos"],
    deps_for: str | None,
    health: str | None,
) -> ExitStatus:
    """Continue turns whose questions were answered or whose process died

    AGENT is a variable in MODULE. Run any number of workers. On SIGTERM, a worker releases its
    turns within a second and exits with status 143.
    """
    listening = None if health is None else _listening(health)
    found = _find(agent)
    made_by = None if deps_for is None else _find_function(deps_for)
    working = found if store is None else found.with_store(store_at(store.where))
    start_measuring(os.environ, working.store)
    note("midturn: worker started (up to {} turns at once).", str(at_once))
    return asyncio.run(
        _run_services(
            listening,
            working.store,
            option_of(store),
            partial(working.work, at_once=at_once, deps_for=made_by, engine=engine),
        )
    )


async def _run_services(
    listening: Listening | None,
    store: ConversationStore,
    option: str,
    work: Callable[[], Coroutine[Any, Any, None]],
) -> ExitStatus:
    keep = configured_keep(os.environ)
    keeping = asyncio.create_task(keep_for(keep, store.prune, option)) if keep is not None else None
    received = (
        _receive_signals()
    )  # before the probes start: a worker that reports ready handles SIGTERM
    try:
        async with _probe_server(listening, store) if listening else nullcontext():
            return await _until_signal(work, received)
    finally:
        if keeping is not None:
            keeping.cancel()


def _probe_server(
    listening: Listening, store: ConversationStore
) -> AbstractAsyncContextManager[None]:
    try:
        from midturn.http_server import Health, serving  # imported lazily: large and rarely needed
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "midturn":
            raise
        raise ConfigError(
            f"`--health` requires the extra `http`. To install it: {install_command('http')}"
        ) from None
    return serving(Health(partial(store.port.newest, 1)), listening)


def _listening(address: str) -> Listening:
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16):
        raise click.BadParameter(
            f"Invalid address {address!r}. Expected HOST:PORT, for example 127.0.0.1:8080."
        )
    return Listening(host=host.removeprefix("[").removesuffix("]"), port=int(port))


def _receive_signals() -> asyncio.Future[signal.Signals]:
    """Return the first SIGTERM or SIGINT that this process receives from now on."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[signal.Signals] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(
            number, lambda number=number: received.done() or received.set_result(number)
        )
    return received


async def _until_signal(
    work: Callable[[], Coroutine[Any, Any, None]], received: asyncio.Future[signal.Signals]
) -> ExitStatus:
    working = asyncio.create_task(work())
    await asyncio.wait({working, received}, return_when=asyncio.FIRST_COMPLETED)
    if not received.done():
        working.result()
    working.cancel()
    done, _ = await asyncio.wait({working}, timeout=_GRACE_PERIOD)
    status = (
        ExitStatus.ENDED_BY_USER if received.result() == signal.SIGINT else ExitStatus.TERMINATED
    )
    if not done:  # a tool does not stop: exit, so that another worker reclaims its turn
        sys.stderr.flush()
        os._exit(status)
    return status


def _find(name: str) -> Agent[Any]:
    found = _loaded(name, "agent", "MODULE:AGENT, for example myapp:agent")
    if not isinstance(found, Agent):
        raise ConfigError(f"{name} is a {type(found).__name__}, not a `midturn.Agent`.")
    return cast("Agent[Any]", found)


def _find_function(name: str) -> Callable[[str, str | None], Any]:
    found = _loaded(name, "function", "MODULE:FUNCTION, for example myapp:deps_for")
    if not callable(found):
        raise ConfigError(
            f"--deps-for {name} is a {type(found).__name__}. It must be a function: `def"
            " deps_for(conversation: str, author: str | None)`."
        )
    return found


def _loaded(name: str, kind: str, form: str) -> object:
    """Import a variable from a module in the working directory or an installed package."""
    module, colon, variable = name.partition(":")
    if not colon or not module or not variable:
        raise click.BadParameter(f"Invalid {kind} {name!r}. Expected {form}.")
    if sys.path[:1] != [str(Path.cwd())]:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), variable)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            raise ConfigError(
                f"No module {module!r} in this directory or among the installed packages."
            ) from None
        raise
    except AttributeError:
        raise ConfigError(f"The module {module!r} has no {variable!r}.") from None
