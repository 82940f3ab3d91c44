"""A conversation that is locked for writing, and the turns that run in it."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.errors import ConfigError, NotOpen, TurnOpen
from midturn.events.types import Event, TurnEnd, user_requests
from midturn.events.window import last_turn, open_turn
from midturn.journal import Journal
from midturn.runtime.driver import Driver, RunEnding
from midturn.runtime.recording import read_time, record_expired
from midturn.runtime.session_context import SessionContext
from midturn.turn import inputs as steps
from midturn.turn.pending import pending
from midturn.turn.record import TurnRecord
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView


class Session:
    """Runs the turns of one conversation, one after the other. Each run has its own driver.

    Args:
        context: Services, settings and options, bound to the conversation.
    """

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._journal = context.journal
        self._driver: Driver | None = None
        self._record: TurnRecord | None = None

    @property
    def turn_is_open(self) -> bool:
        """Whether the last turn can be resumed."""
        return open_turn(self._journal.events) is not None

    @property
    def view(self) -> TurnView:
        """The last turn."""
        return TurnView(last_turn(self._journal.events), self._record)

    async def run(self, requested: steps.TurnRequested) -> RunEnding:
        """Run a new turn.

        Raises:
            TurnOpen: The last turn is still open.
            StoreError: The store could not record the events.
        """
        if self.turn_is_open:
            conversation, events = self._journal.conversation, self._journal.events
            window = open_turn(events)
            began = (
                next((request.content for request in user_requests(window.events)), "")
                if window
                else ""
            )
            message = f"The last turn of conversation {conversation} is still open."
            raise TurnOpen(
                message,
                conversation=conversation,
                text=began,
                pending=pending(events, conversation),
            )
        turn = Turn(self._context.turn_settings(), self._context.ids)
        return await self._drive(turn, turn.step(requested))

    async def resume(self) -> RunEnding:
        """Continue the open turn from its events.

        If a person ended the turn in the meantime, return its ending.

        Raises:
            NotOpen: The last turn has ended, and not because a person ended it.
            ConfigError: The turn is waiting in a call to a tool that this process does not have.
            StoreError: The store could not record the events.
        """
        self._record = None
        if was_ended_by_user(self._journal.events):
            return RunEnding("ended_by_user")
        context, clock = self._context, self._context.services.clock
        await record_expired(self._journal, clock, context.options.display, context.ids)
        turn = Turn.load(open_window(self._journal), context.turn_settings(), context.ids)
        self._check_tools(turn)
        if turn.needs_time(steps.TurnResumed()):
            turn.step(read_time(self._journal, clock))
        return await self._drive(turn, turn.step(steps.TurnResumed()))

    def interrupt(self) -> None:
        """End the running turn. Called for Ctrl-C while no prompt is open."""
        if self._driver:
            self._driver.interrupt()

    def _check_tools(self, turn: Turn) -> None:
        """Raise an error if a tool with open questions is missing. Otherwise the call would end
        with an error, and the answers would be lost.
        """
        known = self._context.settings.tools
        begun = (call for call in turn.record.open_calls() if call.threads or call.approvals)
        missing = next(
            (call.request.name for call in begun if call.request.name not in known), None
        )
        if missing is not None:
            conversation = self._journal.conversation
            raise ConfigError(
                f"The open turn of conversation {conversation} is in a call of {missing!r}, and"
                f" there is no such tool here; the tools are: {', '.join(sorted(known)) or 'none'}."
                " Continue the turn in the program that began it, or configure the tool here and"
                " start its server. The recorded answers are not lost. If the tool no longer"
                " exists, end the turn: `await"
                f" store.end({conversation!r})` in a program, or `midturn resume {conversation}"
                " --discard`."
            )

    async def _drive(self, turn: Turn, effects: Sequence[steps.Effect]) -> RunEnding:
        self._record = turn.record
        if self._context.options.nesting:
            parent = self._context.settings.start.parent
            self._context.settings.family[parent.child if parent else ""] = turn.record
        self._driver = Driver(turn, self._context)
        try:
            return await self._driver.run(effects)
        finally:
            self._driver = None


def was_ended_by_user(events: Sequence[Event]) -> TurnEnd | None:
    """Return the end event of the last turn, if a person ended it."""
    turn = TurnView.last(events)
    ended = None if turn.is_open else turn.record.ended
    return ended if ended and ended.status == "ended_by_user" else None


def open_window(journal: Journal) -> Sequence[Event]:
    """Return the events of the open turn.

    Raises:
        NotOpen: The last turn has ended.
    """
    window = open_turn(journal.events)
    if window is None:
        raise NotOpen(f"Conversation {journal.conversation} has no open turn to continue.")
    return window.events
