"""`midturn hook AGENT`: the hook that another agent runs. It reads JSON, asks, and prints the
decision in the agent's format.

An agent runs its hook at each call, and most calls need no question. Therefore the common cases
import few modules:

1. A command line as written by `midturn hook install` is parsed without click.
2. The JSON is read. If it needs no question, the hook only checks whether a question is open.
3. The code that asks and waits is loaded only if a question has to be asked or closed.
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
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude_deferring import POLICY
from midturn.integrations.hooks.clients import BUILT_IN
from midturn.question.json_value import JsonObject, members, text
from midturn.security.authorization import mark_agent
from midturn.stores.sync_forms import in_a_loop

if TYPE_CHECKING:
    from midturn.cli.command_context import CommandContext, StoreAddress

# --------------------------------------------------------------------------------------------------
# Input of a hook: a JSON object on stdin, called the document below. Some agents leave stdin open,
# or write text that is not UTF-8.


_INPUT_TIMEOUT = 30.0  # seconds without input after which reading ends
_QUIET_PERIOD = 0.2  # seconds without input after which a document that looks complete is used
_CHUNK_SIZE = 1 << 20


def read_document() -> JsonObject | None:
    """Read the document from stdin. Return None if there is no document.

    Reading ends at the end of stdin, or when the document looks complete and no more input arrives.
    """
    return members(_read()) or None


def _read() -> object:
    """Read and decode stdin. Some agents never close it."""
    if sys.stdin is None or sys.stdin.closed:
        return None
    try:
        stdin = sys.stdin.fileno()
    except (OSError, ValueError):  # stdin has no descriptor
        return _decode(sys.stdin.buffer.read())
    pieces: list[bytes] = []
    while True:
        is_whole = bool(pieces) and pieces[-1].rstrip().endswith(b"}")
        ready, _, _ = select.select([stdin], [], [], _QUIET_PERIOD if is_whole else _INPUT_TIMEOUT)
        if ready and (piece := os.read(stdin, _CHUNK_SIZE)):
            pieces.append(piece)
            continue
        content = b"".join(pieces)
        document = _decode(content)
        if ready or not is_whole or document is not None:
            return document
        pieces = [content, b" "]  # the document is incomplete: continue with the long timeout


def _decode(content: bytes) -> object:
    """Decode JSON and replace invalid UTF-8. Return None if the text is not JSON."""
    try:
        return msgspec.json.decode(content)
    except (ValueError, RecursionError):  # not JSON, or not UTF-8
        from midturn.question.json_text import read_loosely

        return read_loosely(content)


_LOG = logging.getLogger(__name__)
DEFER: Final = ("--policy", POLICY)
"""Option that `midturn hook install` adds for agents that exit at a question and are resumed."""
_UNPRINTABLE_STATUS = 2  # exit status if no decision can be printed; agents treat it as a denial


def run_at_once(arguments: Sequence[str]) -> int | None:
    """Run a hook whose command line was written by `midturn hook install`.

    `arguments` are the words after `midturn hook`. Return None if the command line has another
    form.
    """
    key, *policy = arguments or ("",)
    support = BUILT_IN.get(key)
    if support and tuple(policy) == DEFER:
        support = support.deferring
    elif policy:
        return None
    if support is None:
        return None
    try:
        begin_command(os.environ)
    except MidturnError:  # the click command reports the error
        return None
    try:
        return run_hook(support.hooks, support.hooks.wait, None)
    except KeyboardInterrupt:
        return ExitStatus.ENDED_BY_USER


def run_hook(agent: hook_agent.HookAgent, wait: float, store: StoreAddress | None) -> int:
    """Run the hook for the document on stdin.

    A failure must never look like an approval to the agent.
    """
    sink = Sink()
    fallback = agent.unreadable
    try:
        document = read_document()
        if document is not None:
            given = dict(os.environ)
            event = agent.read(document, given)
            fallback = hook_agent.without_answer(agent, document, event, model_messages.FAILED)
            asker = hook_agent.asker_of(agent, document, given)
            mark_agent(asker.itself, asker.name)
            run = _Run(
                agent=agent,
                document=document,
                event=event,
                asker=asker,
                wait=min(wait, agent.wait),
                say=sink,
            )
            run.handle(store)
    except Exception:  # noqa: BLE001  the fallback below is sent to the agent
        _LOG.exception("the hook of %s failed", agent.name)
    with suppress(OSError, ValueError, AttributeError):  # stdout may be closed
        sink(fallback)
    return sink.status


class _Run(Struct, frozen=True, kw_only=True):
    """One run of a hook, with its parsed input."""

    agent: hook_agent.HookAgent
    document: JsonObject
    event: hook_agent.HookEvent
    asker: AskingAgent
    wait: float
    say: Sink

    def handle(self, store: StoreAddress | None) -> None:
        """Handle the event. Most events neither ask nor close a question."""
        if not isinstance(self.event, hook_agent.Nothing):
            from midturn.cli.command_context import (
                place_in,
            )  # slow to import, and not needed for most events

            cwd = Path(text(self.document.get("cwd")) or ".")
            place = place_in(cwd if cwd.is_dir() else Path.cwd(), store)
            if not self._only_ends_questions or place.has_open_turn():
                self._ask(place)
        self.say(hook_agent.HookOutput())

    @property
    def _only_ends_questions(self) -> bool:
        return isinstance(
            self.event, hook_agent.Done | hook_agent.Ran | hook_agent.Stopping | hook_agent.MovedOn
        )

    def _ask(self, place: CommandContext) -> None:
        """Ask, wait, and print the answer."""
        from midturn.cli.loading import (  # imported lazily: the import is slow
            fixed_rules_in,
            rules_in,
        )
        from midturn.integrations.hooks import external_calls, hook

        run = hook.HookRun(
            agent=self.agent,
            document=self.document,
            occasion=self.event,
            calls=external_calls.ExternalCallService(
                place.store, self.asker, SYSTEM, rules=rules_in(place), fixed=fixed_rules_in(place)
            ),
            clock=SYSTEM,
            wait=self.wait,
            say=self.say,
            needed=hook_agent.agent_watch(self.asker),
        )
        in_a_loop(run.go())


class Sink:
    """Prints the decision for the agent immediately. Only the first decision is printed."""

    def __init__(self) -> None:
        self.status = 0
        self._has_printed = False

    def __call__(self, output: hook_agent.HookOutput) -> None:
        """Print a decision."""
        if self._has_printed:
            return
        self._has_printed = True
        self.status = output.status
        if output.document is not None:
            self.status = _UNPRINTABLE_STATUS
            sys.stdout.write(dumped(output.document) + "\n")
            sys.stdout.flush()
            self.status = output.status
        if output.errors and sys.stderr is not None:
            sys.stderr.write(output.errors)
            sys.stderr.flush()
