"""Puts prepared conversations into a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from midturn.events.types import Event, InquiryRequest
from midturn.journal import Journal, QueuedReply
from midturn.stores.file_conversations import FileConversations
from midturn.stores.folder import Folder
from midturn.stores.locked import LockedConversation
from midturn.stores.opening import FileStore
from midturn.stores.port import LastTurn, LockedBy
from midturn.stores.queued_answer import AnswerQueueFolder, QueuedAnswer
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.tapes import Tape


def asking(prefix: str = "e") -> tuple[Tape, InquiryRequest]:
    """Return a turn whose tool has asked, and the open question."""
    tape = Tape(prefix)
    tape.start()
    tape.user("Ship it")
    return tape, tape.ask(tape.call("call_1"))


def finished(prefix: str = "e") -> Tape:
    """Return a finished turn with one message of the model."""
    tape = Tape(prefix)
    tape.start()
    tape.user("Hello")
    tape.model("Hello yourself")
    tape.end()
    return tape


def append(journal: Journal, *batches: Sequence[Event]) -> None:
    """Append batches of events."""
    for batch in batches:
        drive(journal.append(batch))


def create(store: ConversationStore, words: str = "Ship it") -> LockedConversation:
    """Create a conversation, and keep it locked."""
    return drive(store.create(words))


def reopen(store: ConversationStore, conversation: str) -> LockedConversation:
    """Lock a conversation."""
    return drive(store.open(conversation))


def release(journal: Journal) -> None:
    """Unlock a conversation."""
    drive(journal.__aexit__(None, None, None))


def queued_answers(journal: Journal) -> Sequence[QueuedReply]:
    """Return the answers in the queue of a locked conversation."""
    return drive(journal.answers.collect())


def hold(store: ConversationStore, tape: Tape, words: str = "Ship it") -> LockedConversation:
    """Create a conversation with the events of a tape, each in a batch of its own, and keep it
    locked.
    """
    journal = create(store, words)
    append(journal, *([event] for event in tape.events))
    return journal


def keep(store: ConversationStore, tape: Tape, words: str = "Ship it") -> str:
    """Create a conversation with the events of a tape, and unlock it; return its ID."""
    journal = hold(store, tape, words)
    release(journal)
    return journal.conversation


def enqueue_answer(store: ConversationStore, conversation: str, answer: QueuedAnswer) -> None:
    """Put an answer into the queue of a conversation, whether or not it is locked."""
    if isinstance(store, FileStore):
        with Folder.at(store.files.directories.path(conversation)) as folder:
            AnswerQueueFolder(folder).put(answer)
        return
    journal = drive(store.port.open(conversation))
    drive(store.port.queue_answer(LockedBy(conversation=conversation, turn=LastTurn(())), answer))
    drive(journal.__aexit__(None, None, None))


def path_of(store: ConversationStore, conversation: str) -> Path:
    """Return the directory of a conversation on disk."""
    assert isinstance(store.port, FileConversations)
    return store.port.directories.path(conversation)


def all_conversation_ids(store: ConversationStore) -> list[str]:
    """Return all conversation IDs, including conversations without events, which lists leave
    out.
    """
    return store.run_sync("ids", store.port.ids())
