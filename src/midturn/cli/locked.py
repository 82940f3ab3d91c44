"""Conversations that a command has locked for writing, and detection of a user at the terminal."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from midturn.cli.command_context import CommandContext
from midturn.cli.output import is_terminal
from midturn.events.types import Event
from midturn.security.authorization import nonhuman_reason
from midturn.stores.locked import LockedConversation
from midturn.terminal.attributes import can_open_terminal

if TYPE_CHECKING:
    from midturn.terminal.device import EchoSuppressor


class ConversationLock:
    """A locked conversation, used in a `with` statement. `journal` is its log."""

    def __init__(self, place: CommandContext, journal: LockedConversation) -> None:
        self._place = place
        self.journal = journal

    @classmethod
    def new(cls, place: CommandContext, first_words: str) -> Self:
        """Create a conversation and lock it.

        Raises:
            StoreError: The conversation cannot be written.
        """
        return cls(place, place.run(place.store.create(first_words)))

    @classmethod
    def existing(cls, place: CommandContext, conversation: str) -> Self:
        """Lock a conversation. If it belongs to a nested agent, lock the outermost conversation.

        Raises:
            StoreLocked: Another process has locked the conversation.
            StoreError: The conversation does not exist, or cannot be read or written.
        """
        return cls(place, place.run(place.store.open_root(conversation)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._place.run(self.journal.__aexit__(kind, error, trace))

    @property
    def conversation(self) -> str:
        """The conversation ID."""
        return self.journal.conversation

    @property
    def events(self) -> Sequence[Event]:
        """All recorded events."""
        return self.journal.events

    def wait_for_answers(self) -> None:
        """Wait until an answer is queued."""
        while not self._place.run(self.journal.answers.collect()):
            self._place.run(self.journal.answers.changed())

    def take_answers(self) -> None:
        """Record the queued answers."""
        self._place.run(self.journal.drain_answer_queue())


# --------------------------------------------------------------------------------------------------
# Commands that run until Ctrl-C


@contextmanager
def without_echo() -> Generator[None]:
    """Hide typed keys, such as `^C`, while the block runs.

    If stdout is not the terminal, the terminal is not changed.
    """
    if not is_terminal():
        yield
        return
    with hush().during_turn():
        yield


def hush() -> EchoSuppressor:
    """Return the echo suppressor of the terminal. The terminal is not changed yet."""
    from midturn.terminal.device import HUSH

    return HUSH


# --------------------------------------------------------------------------------------------------
# Detection of a user at the terminal


SWITCHES = ("CI", "MIDTURN_NON_INTERACTIVE")


def is_attached(environment: Mapping[str, str], *, non_interactive: bool) -> bool:
    """Return whether questions can be asked at a terminal, even if stdin or stdout is a pipe.

    Terminals in which tools or agents run do not count.
    """
    if non_interactive or any(_is_on(environment.get(name)) for name in SWITCHES):
        return False
    if not can_open_terminal():
        return False

    return not nonhuman_reason(environment)


def _is_on(value: str | None) -> bool:
    return value is not None and value.strip().lower() not in ("", "0", "false", "no", "off")
