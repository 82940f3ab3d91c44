"""Behaviour of every store, on disk and in memory."""

from __future__ import annotations

import asyncio
import os

import pytest

from midturn.errors import StoreError, StoreLocked
from midturn.events.types import ChatRequest, Standing, TurnStart
from midturn.events.window import standing_decisions
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.stored import append, asking, create, finished, hold, keep, release, reopen


def test_new_conversation_is_locked_by_its_creator(store: ConversationStore) -> None:
    journal = create(store)

    with pytest.raises(StoreLocked, match="written by this process since") as refused:
        reopen(store, journal.conversation)
    assert refused.value.holder == f"pid {os.getpid()} on {os.uname().nodename}"
    assert refused.value.since

    release(journal)
    release(reopen(store, journal.conversation))


def test_events_can_be_read_during_and_after_the_lock(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    assert list(store.read_sync(journal.conversation).events) == list(journal.events) == tape.events
    release(journal)
    assert list(store.read_sync(journal.conversation).events) == tape.events


def test_batches_are_marked(store: ConversationStore) -> None:
    journal = create(store)

    append(journal, [TurnStart(), ChatRequest(content="a")])

    assert [event.more for event in store.read_sync(journal.conversation).events] == [1, 0]


def test_a_batch_that_is_too_large_leaves_no_trace(store: ConversationStore) -> None:
    journal = create(store)

    with pytest.raises(StoreError, match="may be recorded at once"):
        append(journal, [ChatRequest(content="x" * 3_000_000)])

    assert list(journal.events) == []


def test_closed_journal_refuses_further_appends(store: ConversationStore) -> None:
    journal = create(store)
    release(journal)
    release(journal)

    with pytest.raises(StoreError, match="is closed"):
        asyncio.run(journal.append([TurnStart()]))


def test_conversations_are_listed_by_age(store: ConversationStore) -> None:
    ids = [keep(store, finished(f"{number}.")) for number in range(5)]

    assert store.ids_sync() == ids == sorted(ids, key=int)


def test_title_is_the_first_message(store: ConversationStore) -> None:
    assert store.read_sync(keep(store, finished(), "Ship it\nplease")).title == "Ship it"


def test_removed_conversation_is_not_found(store: ConversationStore) -> None:
    first, second = keep(store, asking("a")[0]), keep(store, asking("b")[0])

    store.remove_sync(first)

    assert store.ids_sync() == [second]
    assert [question.conversation for question in store.pending_sync()] == [second]
    with pytest.raises(StoreError, match="There is no conversation"):
        store.read_sync(first)


def test_locked_conversation_is_not_removed(store: ConversationStore) -> None:
    journal = hold(store, finished())

    with pytest.raises(StoreLocked):
        store.remove_sync(journal.conversation)

    assert store.ids_sync() == [journal.conversation]


def test_fork_has_the_finished_turns_and_is_independent(store: ConversationStore) -> None:
    """The open question stays in the original, because it can be answered in one place only."""
    journal = hold(store, finished("a"), "Hello")
    append(journal, finished("b").events, asking("c")[0].events)
    release(journal)

    fork = store.fork_sync(journal.conversation)
    again = reopen(store, fork)
    append(again, finished("d").events)
    release(again)

    original, copy = store.read_sync(journal.conversation), store.read_sync(fork)
    assert copy.events[:8] == original.events[:8]
    assert [event.event_id[0] for event in copy.events] == ["a"] * 4 + ["b"] * 4 + ["d"] * 4
    assert copy.title == "Hello"
    assert len(store.pending_sync()) == 1


def test_fork_drops_permissions_of_the_conversation(store: ConversationStore) -> None:
    """The fork is another conversation. The recorded decisions are kept as history."""
    journal = hold(store, finished("a"), "Hello")
    allowed = Standing(
        event_id="s", id="i", tool="shell", rule={"when": {"cmd": "ls"}, "run": "unattended"}
    )
    append(journal, (*finished("b").events[:3], allowed, *finished("b").events[3:]))
    release(journal)

    events = store.read_sync(store.fork_sync(journal.conversation)).events

    assert [event.rule for event in standing_decisions(events)] == [None]
    assert [
        event.rule for event in standing_decisions(store.read_sync(journal.conversation).events)
    ] == [allowed.rule]


def test_a_fork_can_end_earlier(store: ConversationStore) -> None:
    journal = hold(store, finished("a"))
    append(journal, finished("b").events)
    release(journal)

    assert len(store.read_sync(store.fork_sync(journal.conversation, turns=1)).events) == 4
    assert store.read_sync(store.fork_sync(journal.conversation, turns=0)).events == ()


def test_an_unknown_conversation_is_an_error(store: ConversationStore) -> None:
    for act in (store.read, store.open, store.remove, store.fork):
        with pytest.raises(StoreError, match="There is no conversation '17'"):
            drive(act("17"))
