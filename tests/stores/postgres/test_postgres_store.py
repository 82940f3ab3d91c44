"""Behaviour specific to PostgreSQL: outages, lost sessions, takeovers, notifications."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import midturn as mt
from midturn.errors import ConfigError, StoreError, StoreLocked
from midturn.events.types import ChatRequest, Event, TurnStart
from midturn.stores.batch import event_id
from midturn.stores.postgres import database, statements
from midturn.stores.postgres.conversations import PostgresConversations, PostgresStore
from midturn.stores.postgres.database import DUE
from midturn.stores.postgres.own_loop import NotificationWaiters, parse_database_address
from midturn.testing import check_store_sync
from support.agents import ship
from support.loops import in_a_loop
from support.postgres import Cluster

pytestmark = pytest.mark.real("PostgreSQL")


def _process(url: str) -> PostgresConversations:
    """Return a store as another process would have it, with its own sessions, worker number and
    lock.
    """
    return PostgresConversations(parse_database_address(url))


def _more() -> list[Event]:
    return [ChatRequest(timestamp="2026-01-01T00:00:00Z", event_id=event_id(), content="Ship it")]


def _begun() -> list[Event]:
    return [TurnStart(timestamp="2026-01-01T00:00:00Z", event_id=event_id()), *_more()]


async def _end_session(url: str, store: PostgresConversations) -> None:
    """Terminate the session of a process, as the server does when the process is gone."""
    holder = await store.loop.run(store.database.holder())
    connection = await psycopg.AsyncConnection.connect(
        url.partition("&midturn_schema")[0], autocommit=True
    )
    async with connection:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid ="
            " %s and granted",
            [holder],
        )


async def _until(condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    deadline = time.monotonic() + 120
    while not await condition():
        assert time.monotonic() < deadline, "it never came"
        await asyncio.sleep(0.02)


@in_a_loop
async def test_conversation_is_locked_by_one_process(url: str) -> None:
    one, other = _process(url), _process(url)
    async with await one.create("Ship it") as journal:
        with pytest.raises(StoreLocked, match="is being written by process"):
            await other.open(journal.conversation)
        with pytest.raises(StoreLocked):
            await other.remove(journal.conversation)
    async with await other.open(journal.conversation):
        pass


@in_a_loop
async def test_turn_of_a_dead_process_is_ready(url: str) -> None:
    one, other = _process(url), _process(url)
    journal = await one.create("Ship it")
    await journal.append(_begun())
    assert await other.claim() == []
    one.loop.begin(one.database.close())

    async def claimed() -> bool:
        return [held.conversation for held in await other.claim()] == [journal.conversation]

    await _until(claimed)


@in_a_loop
async def test_process_that_lost_its_lock_cannot_write(url: str) -> None:
    """The fencing token refuses the write: the process still runs and believes that it holds the
    lock.
    """
    one, other = _process(url), _process(url)
    journal = await one.create("Ship it")
    await journal.append(_begun())
    taken = None
    deadline = time.monotonic() + 120
    while taken is None:
        assert time.monotonic() < deadline, "its session was always back in time"
        await _end_session(url, one)
        with suppress(StoreLocked):
            taken = await other.open(journal.conversation)
    with pytest.raises(StoreLocked, match="taken over"):
        await journal.append(_more())
    assert len(taken.events) == 2
    await taken.append(_more())
    assert len((await other.read(journal.conversation)).events) == 3


@in_a_loop
async def test_database_crash_is_waited_out(url: str, cluster: Cluster) -> None:
    """The event loop does not block during the outage, and each write is stored once."""
    store = _process(url)
    journal = await store.create("Ship it")
    await journal.append(_begun())
    stalls: list[float] = []
    watching = asyncio.create_task(_stalls(stalls))
    crash = asyncio.create_task(asyncio.to_thread(cluster.crash))
    written = 2
    while not crash.done():
        await journal.append(_more())
        written += 1
    await crash
    await journal.append(_more())
    watching.cancel()
    assert max(stalls) < 1  # guards against blocking for the whole outage
    events = (await store.read(journal.conversation)).events
    assert len(events) == written + 1
    assert len({event.event_id for event in events}) == len(events)


@in_a_loop
async def test_event_loop_runs_during_a_database_outage(url: str, cluster: Cluster) -> None:
    """The loop runs a hundred iterations while every database call waits.

    Then all calls complete.
    """
    store = _process(url)
    journal = await store.create("Ship it")
    await journal.append(_begun())
    await asyncio.to_thread(cluster.stop, "immediate")
    waiting = [
        asyncio.create_task(work)
        for work in (
            journal.append(_more()),
            store.look(journal.conversation),
            store.questions(),
            store.claim(),
            journal.answers.collect(),
        )
    ]
    for _ in range(100):
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in waiting)
    await asyncio.to_thread(cluster.start)
    await asyncio.gather(*waiting)
    assert len((await store.read(journal.conversation)).events) == 3


async def _stalls(found: list[float]) -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.005)
        found.append(time.monotonic() - before)


@in_a_loop
async def test_long_outage_is_an_error_with_the_address(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = PostgresConversations(
        parse_database_address(f"postgresql://nobody@/db?host={tmp_path_factory.mktemp('none')}")
    )
    store.database.outage = 0.2
    with pytest.raises(StoreError, match="postgresql:///db cannot be reached"):
        await store.ids()


@in_a_loop
async def test_cancelled_claim_releases_its_lock(url: str) -> None:
    """A claim whose caller was cancelled releases its lock."""
    one, other = _process(url), _process(url)
    async with await one.create("Ship it") as journal:
        await journal.append(_begun())
    for _ in range(20):
        claiming = asyncio.create_task(one.claim())
        await asyncio.sleep(0)
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming

    async def free() -> bool:
        return bool(await other.claim())

    await _until(free)


@in_a_loop
async def test_an_append_is_one_statement_and_an_answer_two(url: str) -> None:
    store = _process(url)
    counted: list[str] = []
    original = store.database.run_one

    async def counting(statement: str, parameters: Any) -> Any:
        if statement != statements.NOTIFY:  # notifications have their own transaction
            counted.append(statement)
        return await original(statement, parameters)

    async with await store.create("Ship it") as journal:
        store.database.run_one = counting
        await journal.append(_begun())
        assert len(counted) == 1
    counted.clear()
    await store.settle(journal.conversation, lambda _: _begun())
    assert len(counted) == 2


@in_a_loop
async def test_idle_process_closes_its_connections(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SPARE", 0.1)
    store = _process(url)
    await store.ids()  # the tables exist now
    await asyncio.gather(*(store.ids() for _ in range(40)))

    async def connections() -> int:
        async with await psycopg.AsyncConnection.connect(
            url.partition("&midturn_schema")[0], autocommit=True
        ) as connection:
            about = (
                "select count(*) from pg_stat_activity where query like %s and pid <>"
                " pg_backend_pid()"
            )
            row = await (
                await connection.execute(about, [f'%"{store.address.schema}".%'])
            ).fetchone()
            return int(row[0]) if row else 0

    async def none() -> bool:
        return await connections() == 0

    await _until(none)


@in_a_loop
async def test_schemas_of_one_database_have_separate_notifications(
    url: str, cluster: Cluster
) -> None:
    one, other = _process(url), _process(f"{cluster.url}&midturn_schema=elsewhere")
    async with await one.create("Ship it") as journal:
        await journal.append(_begun())
    assert await other.ids() == []
    assert await other.claim() == []
    assert one.database.due_channel != other.database.due_channel


@in_a_loop
async def test_watcher_is_notified_by_the_database(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notification is required, because the next poll would happen in an hour."""
    monkeypatch.setattr(database, "_MAX_CHANGE_WAIT", 3600.0)
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    journal = await here.create("Ship it")  # the session already listens, but not for questions
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}]),
        tools=[ship],
        store=elsewhere,
    )
    seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def watch() -> None:
        async for change in here.watch():
            await seen.put((change.kind, change.conversation))

    watching = asyncio.create_task(watch())
    async with asyncio.timeout(120):
        question = (await agent.run("Ship it.")).pending[0]
        assert await seen.get() == ("asked", question.conversation)
        await elsewhere.answer(question.id, True)
        assert await seen.get() == ("answered", question.conversation)
        await agent.resume(question.conversation)
        assert await seen.get() == ("turn_ended", question.conversation)
    watching.cancel()
    await journal.__aexit__(None, None, None)


@in_a_loop
async def test_answer_during_a_claim_is_noticed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification is required, because the next poll would happen in an hour."""
    monkeypatch.setattr(NotificationWaiters.wait, "__defaults__", (3600.0,))
    worker, elsewhere = PostgresStore(url), PostgresStore(url)
    assert isinstance(worker.port, PostgresConversations)
    notifications = worker.port.database.notifications
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}]),
        tools=[ship],
        store=elsewhere,
    )
    question = (await agent.run("Ship it.")).pending[0]
    waiting = asyncio.create_task(worker.port.wait_for_work())
    async with asyncio.timeout(120):
        await worker.port.loop.run(worker.port.database.holder())
        assert await worker.claim() == []
        waiting.cancel()  # one of its turns completed, so the worker claims again
        heard = notifications.counts[DUE]
        await elsewhere.answer(question.id, True)

        async def rung() -> bool:
            return notifications.counts[DUE] > heard

        await _until(rung)
        await worker.port.wait_for_work()
        (journal,) = await worker.claim()
        await journal.__aexit__(None, None, None)


@in_a_loop
async def test_answer_queued_during_release_makes_the_turn_ready(url: str) -> None:
    store, elsewhere = PostgresStore(url), PostgresStore(url)
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}]),
        tools=[ship],
        store=elsewhere,
    )
    question = (await agent.run("Ship it.")).pending[0]
    async with await store.open(question.conversation):
        assert (await elsewhere.answer(question.id, True)).held

    (journal,) = await store.claim()

    await journal.__aexit__(None, None, None)


def test_schema_name_fits_into_a_channel_name() -> None:
    with pytest.raises(ConfigError, match="is not a valid schema name"):
        parse_database_address("postgresql://h/db?midturn_schema=a-b")


def test_a_password_is_in_no_message() -> None:
    address = parse_database_address(
        "postgresql://ada:secret@db/app?sslmode=require&midturn_schema=deploys"
    )
    assert address.shown == "postgresql://db/app"
    assert address.url == "postgresql://ada:secret@db/app?sslmode=require"
    assert address.schema == "deploys"


@in_a_loop
async def test_derived_columns_can_be_recomputed(url: str) -> None:
    store = PostgresStore(url)
    async with await store.create("Ship it") as journal:
        await journal.append(_begun())
    assert await store.check() == []
    database = store.database.database
    spoilt = "update {s}.conversation set turn_at = 1, unfinished = false, head = 7 returning id"
    await store.database.loop.run(database.rows(spoilt))
    assert await store.check() == [
        (
            f"{journal.conversation}: head is 7, not 2, turn_at is 1, not 0, unfinished is False, not"
            " True"
        )
    ]
    assert await store.reindex() == 1
    assert await store.check() == []
    assert await store.upgrade() == (1, 1)


@in_a_loop
async def test_tables_of_a_newer_version_are_left_alone(url: str) -> None:
    store = PostgresStore(url)
    await store.ids()
    await store.database.loop.run(
        store.database.database.rows("update {s}.midturn set version = 99 returning version")
    )
    with pytest.raises(
        StoreError, match=r"has version 99; this midturn needs version 1\. A newer midturn wrote it"
    ):
        await PostgresStore(url).ids()


def test_postgres_store_satisfies_the_store_contract(url: str) -> None:
    check_store_sync(lambda: mt.open_store(url))
