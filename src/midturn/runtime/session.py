"""One conversation, held for writing, and the turns that are run in it."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.errors import ConfigError, NotOpen, TurnOpen
from midturn.journal import Journal
from midturn.record.events import Event, TurnEnd
from midturn.record.window import last_turn, open_turn
from midturn.runtime.driver import Driver, RunEnding, record_expired, time_of
from midturn.runtime.surroundings import Services, Surroundings
from midturn.turn.record import TurnRecord
from midturn.turn.step import Effect, TurnRequested, TurnResumed, TurnSettings
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView


class Session:
    """Runs turns of one conversation, one after the other. `interrupt` is for Ctrl-C while one runs."""

    def __init__(self, services: Services, settings: TurnSettings, surroundings: Surroundings) -> None:
        self._services = services
        self._settings = settings
        self._surroundings = surroundings
        self._driver: Driver | None = None
        self._record: TurnRecord | None = None

    @property
    def turn_is_open(self) -> bool:
        """Whether the last turn waits to be continued."""
        return open_turn(self._services.journal.events) is not None

    @property
    def view(self) -> TurnView:
        """The last turn: the one that was run last, where any was."""
        return TurnView(last_turn(self._services.journal.events), self._record)

    async def run(self, requested: TurnRequested) -> RunEnding:
        """Run a new turn.

        Raises:
            TurnOpen: The last turn is still open.
            StoreError: The disk refused.
        """
        if self.turn_is_open:
            conversation = self._services.journal.conversation
            raise TurnOpen(f"The last turn of conversation {conversation} is still open.", conversation=conversation)
        turn = Turn(self._settings, self._services.ids)
        return await self._drive(turn, turn.step(requested))

    async def resume(self) -> RunEnding:
        """Continue the open turn exactly where its events end. One that a person has ended since is told as that.

        Raises:
            NotOpen: The last turn has ended by itself.
            ConfigError: It waits in a call of a tool that is not here.
            StoreError: The disk refused.
        """
        if was_ended_by_user(self._services.journal.events):
            return RunEnding("ended_by_user")
        await record_expired(self._services)
        turn = Turn.load(open_window(self._services.journal), self._settings, self._services.ids)
        self._check_tools(turn)
        if turn.needs_time(TurnResumed()):
            turn.step(time_of(self._services))
        return await self._drive(turn, turn.step(TurnResumed()))

    def interrupt(self) -> None:
        """Ctrl-C while no prompt is open: end the turn that runs."""
        if self._driver:
            self._driver.interrupt()

    def _check_tools(self, turn: Turn) -> None:
        """Refuse to go on without a tool that has asked: its call would end as an error, and what was answered would be lost."""
        known = self._settings.tools
        begun = (call for call in turn.record.open_calls() if call.chains or call.approvals)
        missing = next((call.request.name for call in begun if call.request.name not in known), None)
        if missing is not None:
            raise ConfigError(
                f"The open turn of conversation {self._services.journal.conversation} is in a call of {missing!r}, and there is no such "
                f"tool here; the tools are: {', '.join(sorted(known)) or 'none'}. Go on with it where that tool is: in the program that "
                "began the turn, or here as soon as the tool is configured and its server starts. Nothing was lost: what was answered "
                "stays on record."
            )

    async def _drive(self, turn: Turn, effects: Sequence[Effect]) -> RunEnding:
        self._record = turn.record
        if self._surroundings.nest:
            parent = self._settings.start.parent
            self._settings.family[parent.child if parent else ""] = turn.record
        self._driver = Driver(turn, self._services, self._surroundings)
        try:
            return await self._driver.run(effects)
        finally:
            self._driver = None


def was_ended_by_user(events: Sequence[Event]) -> TurnEnd | None:
    """Return the end of the last turn where a person has ended it."""
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
