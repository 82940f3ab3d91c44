"""`midturn hook AGENT`: what an agent's hook runs. It reads JSON, asks, and prints the agent's own decision; it is not for people."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import suppress
from pathlib import Path

import click

from midturn.cli.hook.document import read_document
from midturn.cli.hook.options import with_policy
from midturn.cli.hook.where import WAIT
from midturn.cli.options import with_store
from midturn.cli.place import StoreAddress, environment, place_in
from midturn.clock import SYSTEM
from midturn.core.json_value import JsonObject
from midturn.core.loose_json import text
from midturn.foreign import words
from midturn.foreign.agents import AGENTS, DEFERRING
from midturn.foreign.errands import Errands
from midturn.foreign.hook import HookAgent, HookRun, agent_lives, asker_of, without_answer
from midturn.foreign.occasion import Said
from midturn.sandbox.served import remember

_LOG = logging.getLogger(__name__)
_UNSAID = 2  # the status that agents take for a denial, where what there is to say cannot be printed


def command_of(key: str) -> click.Command:
    """Return the command of one agent."""
    agent = AGENTS[key]

    @click.command(key, help=f"A hook of {agent.name}: reads its JSON on stdin, asks, and prints the decision.")
    @click.option(
        "--wait", type=click.FloatRange(min=0), default=agent.wait, show_default=True, metavar="SECONDS", help="How long to wait."
    )
    @with_store
    def command(*, wait: float, store: StoreAddress | None, policy: str = WAIT) -> int:
        return run_hook(agent if policy == WAIT else DEFERRING[key][0], wait, store)

    return with_policy(command) if key in DEFERRING else command


def run_hook(agent: HookAgent, wait: float, store: StoreAddress | None) -> int:
    """Run once, for what stands on stdin. Whatever goes wrong, the agent must not take it for a yes."""
    sink = Sink()
    otherwise = agent.unreadable
    try:
        document = read_document()
        if document is not None:
            otherwise = without_answer(agent, document, agent.read(document, environment()), words.FAILED)
            _run(agent, document, wait, store, sink)
    except Exception:  # noqa: BLE001  the agent has to hear of it, and this is how
        _LOG.exception("the hook of %s failed", agent.name)
    with suppress(OSError, ValueError, AttributeError):  # there may be nothing to print to
        sink(otherwise)
    return sink.status


def _run(agent: HookAgent, document: JsonObject, wait: float, store: StoreAddress | None, sink: Sink) -> None:
    """Run for a document that can be read; the hook itself says what is true where it cannot ask."""
    given = environment()
    cwd = Path(text(document.get("cwd")) or ".")
    place = place_in(cwd if cwd.is_dir() else Path.cwd(), store)
    asker = asker_of(agent, document, given)
    remember(asker.itself, asker.name)
    run = HookRun(
        agent=agent,
        document=document,
        environment=given,
        errands=Errands(place.store, asker, SYSTEM),
        clock=SYSTEM,
        wait=min(wait, agent.wait),
        say=sink,
        needed=agent_lives(asker),
    )
    asyncio.run(run.go())


class Sink:
    """Prints what the agent reads, at once; only the first thing that is said counts."""

    def __init__(self) -> None:
        self.status = 0
        self._has_spoken = False

    def __call__(self, said: Said) -> None:
        """Say it."""
        if self._has_spoken:
            return
        self._has_spoken = True
        self.status = said.status
        if said.document is not None:
            self.status = _UNSAID
            sys.stdout.write(json.dumps(said.document) + "\n")
            sys.stdout.flush()
            self.status = said.status
        if said.errors and sys.stderr is not None:
            sys.stderr.write(said.errors)
            sys.stderr.flush()
