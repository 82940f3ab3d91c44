"""`midturn hook AGENT`: what an agent's hook runs. It reads JSON, asks, and prints the agent's own decision; it is not for people."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from midturn.cli.hook.options import WAIT, with_policy
from midturn.cli.loading import rules_in
from midturn.cli.options import with_store
from midturn.cli.place import StoreAddress, environment, place_in
from midturn.clock import SYSTEM
from midturn.foreign import words
from midturn.foreign.clients import support_of
from midturn.foreign.errands import Errands
from midturn.foreign.hook import HookAgent, HookRun, agent_lives, asker_of, without_answer
from midturn.foreign.occasion import Said
from midturn.sandbox.doors import remember
from midturn.values.json_value import JsonObject, members, text

# ----------------------------------------------------------------------------------------------------------------------
# Input of a hook: a JSON object on stdin, from programs that may leave stdin open, or write what is not UTF-8


_SILENCE = 30.0  # seconds without a word after which nothing more is expected
_PAUSE = 0.2  # seconds without a word after which what looks like a whole document is taken for one
_PIECE = 1 << 20


def read_document() -> JsonObject | None:
    """Return the document; None where there is none. It is whole when stdin ends, or when it looks so and nothing more comes."""
    return members(_read()) or None


def _read() -> object:
    """Read until the end, and decode what was said; an agent may never close what it has written to."""
    if sys.stdin is None or sys.stdin.closed:
        return None
    try:
        stdin = sys.stdin.fileno()
    except (OSError, ValueError):  # it is not a file
        return _decoded(sys.stdin.buffer.read())
    pieces: list[bytes] = []
    while True:
        is_whole = bool(pieces) and pieces[-1].rstrip().endswith(b"}")
        ready, _, _ = select.select([stdin], [], [], _PAUSE if is_whole else _SILENCE)
        if ready and (piece := os.read(stdin, _PIECE)):
            pieces.append(piece)
            continue
        content = b"".join(pieces)
        document = _decoded(content)
        if ready or not is_whole or document is not None:
            return document
        pieces = [content, b" "]  # it was not whole: wait once more, for long


def _decoded(content: bytes) -> object:
    """Decode a document; what cannot be text is shown as such. None where it is not JSON."""
    try:
        return msgspec.json.decode(content)
    except (ValueError, RecursionError):  # it is not JSON, or not UTF-8
        pass
    try:
        return _as_text(json.loads(content.decode("utf-8", "replace"), parse_constant=str))
    except (ValueError, RecursionError):
        return None


def _as_text(value: object) -> object:
    """Return a value in which halves of characters are replaced, which JavaScript writes and no store can keep."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_as_text(one) for one in cast("list[Any]", value)]
        case dict():
            return {_as_text(name): _as_text(one) for name, one in cast("Mapping[str, Any]", value).items()}
        case _:
            return value


_LOG = logging.getLogger(__name__)
_UNSAID = 2  # the status that agents take for a denial, where what there is to say cannot be printed


def command_of(key: str) -> click.Command:
    """Return the command of one agent."""
    support = support_of(key)
    agent, deferring = support.hooks, support.deferring

    @click.command(key, help=f"A hook of {agent.name}: reads its JSON on stdin, asks, and prints the decision.")
    @click.option(
        "--wait", type=click.FloatRange(min=0), default=agent.wait, show_default=True, metavar="SECONDS", help="How long to wait."
    )
    @with_store
    def command(*, wait: float, store: StoreAddress | None, policy: str = WAIT) -> int:
        return run_hook(agent if policy == WAIT or deferring is None else deferring.hooks, wait, store)

    return with_policy(command) if deferring else command


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
        errands=Errands(place.store, asker, SYSTEM, rules=rules_in(place)),
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
