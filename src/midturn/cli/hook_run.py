"""`midturn hook AGENT`: what an agent's hook runs. It reads JSON, asks, and prints the agent's own decision; it is not for people.

It runs with every call of the agent, and seldom is anything to be asked. So a line as `midturn hook install` writes it is read without the
library for command lines, and the document is looked at first; then, where it asks nothing by itself, whether any question is open here at
all; and only then is loaded what asks, waits and answers.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from midturn.cli.log import begin_command
from midturn.cli.output import ExitStatus, dumped
from midturn.clock import SYSTEM
from midturn.errors import MidturnError
from midturn.events.open_question import Asker
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude_deferring import POLICY
from midturn.integrations.hooks.clients import OURS
from midturn.question.json_value import JsonObject, members, text
from midturn.security.authorization import remember
from midturn.stores.sync_forms import in_a_loop

if TYPE_CHECKING:
    from midturn.cli.command_context import Place, StoreAddress

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
        from midturn.question.json_text import read_loosely

        return read_loosely(content)


_LOG = logging.getLogger(__name__)
DEFER: Final = ("--policy", POLICY)
"""Option that `midturn hook install` adds for runs that end where a person is needed."""
_UNSAID = 2  # the status that agents take for a denial, where what there is to say cannot be printed


def run_at_once(arguments: Sequence[str]) -> int | None:
    """Run the hook of a line as `midturn hook install` writes it, `midturn hook` left out; None for any other, which its command reads."""
    key, *policy = arguments or ("",)
    support = OURS.get(key)
    if support and tuple(policy) == DEFER:
        support = support.deferring
    elif policy:
        return None
    if support is None:
        return None
    try:
        begin_command(os.environ)
    except MidturnError:  # the command says it
        return None
    try:
        return run_hook(support.hooks, support.hooks.wait, None)
    except KeyboardInterrupt:
        return ExitStatus.ENDED_BY_USER


def run_hook(agent: hook_agent.HookAgent, wait: float, store: StoreAddress | None) -> int:
    """Run once, for what stands on stdin. Whatever goes wrong, the agent must not take it for a yes."""
    sink = Sink()
    otherwise = agent.unreadable
    try:
        document = read_document()
        if document is not None:
            given = dict(os.environ)
            occasion = agent.read(document, given)
            otherwise = hook_agent.without_answer(agent, document, occasion, model_messages.FAILED)
            asker = hook_agent.asker_of(agent, document, given)
            remember(asker.itself, asker.name)
            run = _Run(agent=agent, document=document, occasion=occasion, asker=asker, wait=min(wait, agent.wait), say=sink)
            run.look(store)
    except Exception:  # noqa: BLE001  the agent has to hear of it, and this is how
        _LOG.exception("the hook of %s failed", agent.name)
    with suppress(OSError, ValueError, AttributeError):  # there may be nothing to print to
        sink(otherwise)
    return sink.status


class _Run(Struct, frozen=True, kw_only=True):
    """One run, for a document that can be read."""

    agent: hook_agent.HookAgent
    document: JsonObject
    occasion: hook_agent.Occasion
    asker: Asker
    wait: float
    say: Sink

    def look(self, store: StoreAddress | None) -> None:
        """Carry out what there is to do, if anything: mostly no one asks, and no one waits."""
        if not isinstance(self.occasion, hook_agent.Nothing):
            from midturn.cli.command_context import place_in  # most calls of an agent are nothing to us

            cwd = Path(text(self.document.get("cwd")) or ".")
            place = place_in(cwd if cwd.is_dir() else Path.cwd(), store)
            if not self._only_ends_what_waits or place.has_open_turn():
                self._go(place)
        self.say(hook_agent.Said())

    @property
    def _only_ends_what_waits(self) -> bool:
        return isinstance(self.occasion, hook_agent.Done | hook_agent.Ran | hook_agent.Stopping | hook_agent.MovedOn)

    def _go(self, place: Place) -> None:
        """Ask, wait and answer; the hook itself says what is true where it cannot ask."""
        from midturn.cli.loading import (  # this and the following take half as long again as all that was loaded before
            fixed_rules_in,
            rules_in,
        )
        from midturn.integrations.hooks import external_calls, hook

        run = hook.HookRun(
            agent=self.agent,
            document=self.document,
            occasion=self.occasion,
            errands=external_calls.Errands(place.store, self.asker, SYSTEM, rules=rules_in(place), fixed=fixed_rules_in(place)),
            clock=SYSTEM,
            wait=self.wait,
            say=self.say,
            needed=hook_agent.agent_lives(self.asker),
        )
        in_a_loop(run.go())


class Sink:
    """Prints what the agent reads, at once; only the first thing that is said counts."""

    def __init__(self) -> None:
        self.status = 0
        self._has_spoken = False

    def __call__(self, said: hook_agent.Said) -> None:
        """Say it."""
        if self._has_spoken:
            return
        self._has_spoken = True
        self.status = said.status
        if said.document is not None:
            self.status = _UNSAID
            sys.stdout.write(dumped(said.document) + "\n")
            sys.stdout.flush()
            self.status = said.status
        if said.errors and sys.stderr is not None:
            sys.stderr.write(said.errors)
            sys.stderr.flush()
