"""One conversation, held for writing, and the turns that are run in it."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.core.events import Event
from midturn.core.stream import open_turn, turns
from midturn.core.turn.effects import Effect, EndTurn, Record
from midturn.core.turn.inputs import Interrupted, TurnRequested
from midturn.core.turn.settings import TurnSettings
from midturn.core.turn.turn import Turn
from midturn.errors import NotOpen, StoreError
from midturn.ports import Services
from midturn.runtime.driver import Driver, Ending
from midturn.runtime.recorder import Recorder
from midturn.runtime.surroundings import Surroundings


class Session:
    """Runs turns of one conversation, one after the other. `interrupt` is for Ctrl-C while one runs."""

    def __init__(self, services: Services, settings: TurnSettings, surroundings: Surroundings) -> None:
        self._services = services
        self._settings = settings
        self._surroundings = surroundings
        self._driver: Driver | None = None

    @property
    def turn_is_open(self) -> bool:
        """Whether the last turn waits to be continued."""
        return open_turn(self._services.journal.events) is not None

    @property
    def window(self) -> Sequence[Event]:
        """The events of the last turn."""
        windows = turns(self._services.journal.events)
        return windows[-1].events if windows else ()

    async def run(self, requested: TurnRequested) -> Ending:
        """Run a new turn.

        Raises:
            StoreError: The last turn is still open, or the disk refused.
        """
        if self.turn_is_open:
            conversation = self._services.journal.conversation
            raise StoreError(
                f"Conversation {conversation} has an open turn. Continue it with `midturn resume {conversation}`, or end it with "
                f"`midturn resume {conversation} --discard`."
            )
        turn = Turn(self._settings, self._services.ids)
        return await self._drive(turn, turn.step(requested))

    async def resume(self) -> Ending:
        """Continue the open turn exactly where its events end (spec 7.4).

        Raises:
            NotOpen: The last turn has ended.
            StoreError: The disk refused.
        """
        turn, effects = Turn.resume(self._open_window(), self._settings, self._services.ids)
        return await self._drive(turn, effects)

    async def discard(self) -> Ending:
        """End the open turn as if the user had stopped it (spec 2.4).

        Raises:
            NotOpen: The last turn has ended.
            StoreError: The disk refused.
        """
        turn = Turn.load(self._open_window(), self._settings, self._services.ids)
        effects = turn.step(Interrupted())
        await Recorder(self._services.journal, self._services.clock, self._services.display).append(_events(effects))
        return next(Ending(effect.status) for effect in effects if isinstance(effect, EndTurn))

    def interrupt(self) -> None:
        """Ctrl-C while no prompt is open: end the turn that runs."""
        if self._driver:
            self._driver.interrupt()

    def _open_window(self) -> Sequence[Event]:
        window = open_turn(self._services.journal.events)
        if window is None:
            raise NotOpen(f"Conversation {self._services.journal.conversation} has no open turn to continue.")
        return window.events

    async def _drive(self, turn: Turn, effects: Sequence[Effect]) -> Ending:
        self._driver = Driver(turn, self._services, self._surroundings)
        try:
            return await self._driver.run(effects)
        finally:
            self._driver = None


def _events(effects: Sequence[Effect]) -> list[Event]:
    return [effect.event for effect in effects if isinstance(effect, Record)]
