"""What every store does, on disk and in memory."""

from __future__ import annotations

import asyncio

import pytest

from midturn.core.events import ChatRequest, TurnStart
from midturn.errors import StoreError, StoreLocked
from midturn.store.store import ConversationStore
from support.stored import append, asking, finished, hold, keep


def test_a_new_conversation_is_held_by_whoever_made_it(store: ConversationStore) -> None:
    journal = store.create("Ship it")

    with pytest.raises(StoreLocked, match="written by this process since") as refused:
        store.open(journal.conversation)
    assert refused.value.pid
    assert refused.value.since

    journal.close()
    store.open(journal.conversation).close()


def test_what_was_recorded_can_be_read_while_and_after_it_is_held(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    assert list(store.read(journal.conversation).events) == list(journal.events) == tape.events
    journal.close()
    assert list(store.read(journal.conversation).events) == tape.events


def test_batches_are_marked(store: ConversationStore) -> None:
    journal = store.create("Ship it")

    append(journal, [TurnStart(), ChatRequest(content="a")])

    assert [event.more for event in store.read(journal.conversation).events] == [1, 0]


def test_a_batch_that_is_too_large_leaves_no_trace(store: ConversationStore) -> None:
    journal = store.create("Ship it")

    with pytest.raises(StoreError, match="may be recorded at once"):
        append(journal, [ChatRequest(content="x" * 3_000_000)])

    assert list(journal.events) == []


def test_a_closed_journal_takes_nothing_more(store: ConversationStore) -> None:
    journal = store.create("Ship it")
    journal.close()
    journal.close()

    with pytest.raises(StoreError, match="is closed"):
        asyncio.run(journal.append([TurnStart()]))


def test_conversations_are_listed_by_age(store: ConversationStore) -> None:
    ids = [keep(store, finished(f"{number}.")) for number in range(5)]

    assert store.ids() == ids == sorted(ids, key=int)


def test_the_title_is_what_was_asked_first(store: ConversationStore) -> None:
    assert store.read(keep(store, finished(), "Ship it\nplease")).title == "Ship it"


def test_a_removed_conversation_is_gone(store: ConversationStore) -> None:
    first, second = keep(store, asking("a")[0]), keep(store, asking("b")[0])

    store.remove(first)

    assert store.ids() == [second]
    assert [question.conversation for question in store.pending()] == [second]
    with pytest.raises(StoreError, match="There is no conversation"):
        store.read(first)


def test_a_conversation_that_is_written_is_not_removed(store: ConversationStore) -> None:
    journal = hold(store, finished())

    with pytest.raises(StoreLocked):
        store.remove(journal.conversation)

    assert store.ids() == [journal.conversation]


def test_a_fork_has_the_finished_turns_and_a_life_of_its_own(store: ConversationStore) -> None:
    """The open question stays where it is: it can be answered in one place only."""
    journal = hold(store, finished("a"), "Hello")
    append(journal, finished("b").events, asking("c")[0].events)
    journal.close()

    fork = store.fork(journal.conversation)
    again = store.open(fork)
    append(again, finished("d").events)
    again.close()

    original, copy = store.read(journal.conversation), store.read(fork)
    assert copy.events[:8] == original.events[:8]
    assert [event.event_id[0] for event in copy.events] == ["a"] * 4 + ["b"] * 4 + ["d"] * 4
    assert copy.title == "Hello"
    assert len(store.pending()) == 1


def test_a_fork_can_end_earlier(store: ConversationStore) -> None:
    journal = hold(store, finished("a"))
    append(journal, finished("b").events)
    journal.close()

    assert len(store.read(store.fork(journal.conversation, turns=1)).events) == 4
    assert store.read(store.fork(journal.conversation, turns=0)).events == ()


def test_an_unknown_conversation_is_an_error(store: ConversationStore) -> None:
    for act in (store.read, store.open, store.path, store.remove, store.fork):
        with pytest.raises(StoreError, match="There is no conversation '17'"):
            act("17")
