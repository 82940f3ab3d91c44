"""A conversation that a command holds for writing, from its first look at it to its last word."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from midturn.cli.command_context import Place
from midturn.cli.output import is_terminal
from midturn.events.types import Event
from midturn.security.authorization import not_a_persons
from midturn.stores.locked import HeldConversation
from midturn.terminal.attributes import can_open_terminal

if TYPE_CHECKING:
    from midturn.terminal.device import Hush


class Held:
    """Use it in a `with` statement; `journal` is the conversation's log."""

    def __init__(self, place: Place, journal: HeldConversation) -> None:
        self._place = place
        self.journal = journal

    @classmethod
    def new(cls, place: Place, first_words: str) -> Self:
        """Begin a conversation, and hold it.

        Raises:
            StoreError: It cannot be written.
        """
        return cls(place, place.run(place.store.create(first_words)))

    @classmethod
    def existing(cls, place: Place, conversation: str) -> Self:
        """Hold a conversation; of one whose turn runs inside a tool of another agent, the one at the top.

        Raises:
            StoreLocked: It is held elsewhere.
            StoreError: There is no such conversation, or it cannot be read or written.
        """
        return cls(place, place.run(place.store.open_root(conversation)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._place.run(self.journal.__aexit__(kind, error, trace))

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self.journal.conversation

    @property
    def events(self) -> Sequence[Event]:
        """Everything recorded so far."""
        return self.journal.events

    def wait_for_answers(self) -> None:
        """Return when an answer was handed over."""
        while not self._place.run(self.journal.answers.collect()):
            self._place.run(self.journal.answers.changed())

    def take_answers(self) -> None:
        """Have what was handed over recorded."""
        self._place.run(self.journal.take_over())


# ----------------------------------------------------------------------------------------------------------------------
# A command that stays until Ctrl-C, and is looked at meanwhile


@contextmanager
def without_echo() -> Generator[None]:
    """Keep what is typed, `^C` included, out of what is shown; where another program shows it, the terminal is that one's."""
    if not is_terminal():
        yield
        return
    with hush().during_turn():
        yield


def hush() -> Hush:
    """Return what keeps typing off the screen: without a person there, no terminal is touched."""
    from midturn.terminal.device import HUSH

    return HUSH


# ----------------------------------------------------------------------------------------------------------------------
# Presence of a person at a terminal


SWITCHES = ("CI", "MIDTURN_NON_INTERACTIVE")


def is_attached(environment: Mapping[str, str], *, non_interactive: bool) -> bool:
    """Say whether questions can be shown: piping stdin or stdout changes nothing. No person sits at one that a tool or an agent made."""
    if non_interactive or any(_is_on(environment.get(name)) for name in SWITCHES):
        return False
    if not can_open_terminal():
        return False

    return not not_a_persons(environment)


def _is_on(value: str | None) -> bool:
    return value is not None and value.strip().lower() not in ("", "0", "false", "no", "off")
