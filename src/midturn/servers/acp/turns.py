"""What runs our assistant's turns for an editor: whoever knows the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from midturn.ports import Display
from midturn.runtime.driver import RunEnding
from midturn.store.held import HeldConversation
from midturn.store.store import ConversationStore

Interrupt: TypeAlias = Callable[[], object]


class Turns(Protocol):
    """Turns of conversations in one place. Whatever needs a person is left open: who asks it, and how, is not theirs."""

    @property
    def store(self) -> ConversationStore:
        """Where the conversations are."""
        ...

    async def begin(self, conversation: str, words: str) -> str:
        """Make a conversation with this id, of which these are the first words; return the id that it has."""
        ...

    async def run(self, journal: HeldConversation, words: str | None, display: Display, begun: Callable[[Interrupt], None]) -> RunEnding:
        """Run a turn, or go on with the open one (None); `begun` gets what ends it.

        Raises:
            MidturnError: It cannot be set up, or the store refuses.
        """
        ...

    async def end(self, journal: HeldConversation) -> None:
        """End the open turn of a conversation, as a person who wants no more of it does."""
        ...

    async def close(self) -> None:
        """Leave what was connected for the turns."""
        ...
