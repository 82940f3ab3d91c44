"""Conversations that are in a store, put there event by event."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from midturn.events.types import Event, InquiryRequest
from midturn.journal import Handed, Journal
from midturn.stores.file_conversations import FileConversations
from midturn.stores.folder import Folder
from midturn.stores.locked import HeldConversation
from midturn.stores.opening import FileStore
from midturn.stores.port import HeldBy, LastTurn
from midturn.stores.queued_answer import HandedOver, HandoverFolder
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
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


def append(journal: Journal, *batches: Sequence[Event]) -> None:
    """Append batch after batch."""
    for batch in batches:
        drive(journal.append(batch))


def create(store: ConversationStore, words: str = "Ship it") -> HeldConversation:
    """Begin a conversation, and hold it."""
    return drive(store.create(words))


def reopen(store: ConversationStore, conversation: str) -> HeldConversation:
    """Hold a conversation."""
    return drive(store.open(conversation))


def release(journal: Journal) -> None:
    """Let go of a conversation."""
    drive(journal.__aexit__(None, None, None))


def handed(journal: Journal) -> Sequence[Handed]:
    """Return what was handed over to whoever holds a conversation."""
    return drive(journal.answers.collect())


def hold(store: ConversationStore, tape: Tape, words: str = "Ship it") -> HeldConversation:
    """Make a conversation of what is on the tape, each event a batch, and go on holding it."""
    journal = create(store, words)
    append(journal, *([event] for event in tape.events))
    return journal


def keep(store: ConversationStore, tape: Tape, words: str = "Ship it") -> str:
    """Make a conversation of what is on the tape, and let go of it; return its id."""
    journal = hold(store, tape, words)
    release(journal)
    return journal.conversation


def hand_over(store: ConversationStore, conversation: str, answer: HandedOver) -> None:
    """Put an answer where the holder of a conversation finds it, whether anybody holds it or not."""
    if isinstance(store, FileStore):
        with Folder.at(store.files.directories.path(conversation)) as folder:
            HandoverFolder(folder).put(answer)
        return
    journal = drive(store.port.open(conversation))
    drive(store.port.hand_over(HeldBy(conversation=conversation, turn=LastTurn(())), answer))
    drive(journal.__aexit__(None, None, None))


def path_of(store: ConversationStore, conversation: str) -> Path:
    """Return the directory of a conversation on disk."""
    assert isinstance(store.port, FileConversations)
    return store.port.directories.path(conversation)


def every(store: ConversationStore) -> list[str]:
    """Return all conversations, those included in which nothing is recorded: lists leave them out."""
    return store.run_sync("ids", store.port.ids())
