"""Conversations that are in a store, put there event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from midturn.core.events import Event, InquiryRequest
from midturn.store.store import ConversationJournal, ConversationStore
from support.tapes import Tape


def asking(prefix: str = "e") -> tuple[Tape, InquiryRequest]:
    """Return a turn whose tool has asked, and its question."""
    tape = Tape(prefix)
    tape.start()
    tape.user("Ship it")
    return tape, tape.ask(tape.call("call_1"))


def finished(prefix: str = "e") -> Tape:
    """Return a turn in which the model said something."""
    tape = Tape(prefix)
    tape.start()
    tape.user("Hello")
    tape.model("Hello yourself")
    tape.end()
    return tape


def append(journal: ConversationJournal, *batches: Sequence[Event]) -> None:
    """Append batch after batch."""

    async def run() -> None:
        for batch in batches:
            await journal.append(batch)

    asyncio.run(run())


def hold(store: ConversationStore, tape: Tape, words: str = "Ship it") -> ConversationJournal:
    """Make a conversation of what is on the tape, each event a batch, and go on holding it."""
    journal = store.create(words)
    append(journal, *([event] for event in tape.events))
    return journal


def keep(store: ConversationStore, tape: Tape, words: str = "Ship it") -> str:
    """Make a conversation of what is on the tape, and let go of it; return its id."""
    journal = hold(store, tape, words)
    journal.close()
    return journal.conversation
