"""A shared database: IDs, names, keys, schemas and notifications never become part of a
statement, and malformed ones stop no worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

import midturn as mt
from midturn.stores.postgres.conversations import PostgresStore
from midturn.stores.postgres.database import CHANGED, DUE
from support.postgres import Cluster
from support.stored import all_conversation_ids

pytestmark = pytest.mark.real("PostgreSQL")
VALUES = {
    "the end of a word": "'; drop table {s}.event cascade; --",
    "always true": "1' or '1'='1",
    "the end of a name": '"; drop schema public cascade; --',
    "a parameter": "%(id)s %s %%",
    "a field of a format": "{s}.event {c} {0}",
    "a NUL": "1\0",
    "half a character": "\ud83d",
    "dollars": "$$; drop table event; $$",
    "a back slash": "\\'; drop table event; --",
    "a path": "../../event",
    "ten thousand letters": "9" * 10_000,
}
CALL = {"calls": [{"name": "ship"}]}
USES: dict[str, Callable[[PostgresStore, str], object]] = {
    "read": lambda store, value: store.read_sync(value),
    "answer": lambda store, value: store.answer_sync(value, True),
    "answer a question of one": lambda store, value: store.answer_sync(f"{value}-e1", True),
    "fork": lambda store, value: store.fork_sync(value),
    "remove": lambda store, value: store.remove_sync(value),
    "pending": lambda store, value: store.pending_sync(value),
    "list after": lambda store, value: store.ids_sync(after=value, limit=5),
    "a title": lambda store, value: store.new_sync(value),
}


@pytest.mark.parametrize("use", USES)
def test_no_value_is_part_of_a_statement(url: str, use: str) -> None:
    store = PostgresStore(url)
    mine = store.new_sync("Mine")

    for value in VALUES.values():
        with suppress(mt.MidturnError):  # it is refused or treated as an ordinary name
            USES[use](store, value)

    assert store.read_sync(mine).title == "Mine"
    assert store.check_sync() == []


@pytest.mark.parametrize("name", VALUES)
def test_schema_name_is_quoted(cluster: Cluster, name: str) -> None:
    value = VALUES[name].encode("utf-8", "replace").decode()
    with pytest.raises(mt.ConfigError, match="is not a valid schema name"):
        PostgresStore(f"{cluster.url}&midturn_schema={quote(value)}")

    with psycopg.connect(cluster.url) as connection:
        assert connection.execute(
            "select 1 from pg_namespace where nspname = 'public'"
        ).fetchall() == [(1,)]


@pytest.mark.parametrize(
    "payload", ["", "x" * 7_999, "'; drop table event; --", "{}", "\x1b]52;c;aGk=\x07", "1-../../x"]
)
def test_foreign_notifications_cause_only_a_poll(url: str, cluster: Cluster, payload: str) -> None:
    store = PostgresStore(url)
    mine = store.new_sync("Mine")
    channels = [
        f"midturn.{store.database.database.address.schema}.{name}"
        for name in ("due", "stirred", "1")
    ]
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        for channel in channels:
            connection.execute("select pg_notify(%s, %s)", (channel, payload))

    assert store.pending_sync() == []
    assert all_conversation_ids(store) == [mine]
    assert store.check_sync() == []


@pytest.fixture
def stranger(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """A role that may only connect. PostgreSQL lets it notify any channel."""
    with psycopg.connect(cluster.url, autocommit=True) as owner:
        owner.execute("create role stranger login")
        try:
            with psycopg.connect(
                cluster.url.replace("midturn@", "stranger@"), autocommit=True
            ) as connection:
                yield connection
        finally:
            owner.execute("drop role stranger")


@mt.tool
async def ship(ctx: mt.ToolContext) -> str:
    """Ship something, once it is sure."""
    return f"shipped: {await ctx.ask(mt.Question.boolean('sure', 'Sure?'))}"


FLOOD = (
    "select pg_notify(%(channel)s, left(%(start)s || number || repeat('x', 7999), 7999)) from"
    " generate_series(1, 2000) number"
)


def test_flood_of_notifications_is_ignored_by_a_worker(
    url: str, stranger: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The notifications are malformed, of maximum length, or about other conversations.

    The worker polls, finds nothing and still continues answered turns.
    """
    store = PostgresStore(url)
    agent = mt.Agent(mt.ScriptedModel([CALL, {"text": "Shipped."}]), tools=[ship], store=store)
    other, mine = (agent.run_sync("Ship it.").pending[0] for _ in range(2))
    before = store.read_sync(other.conversation).events
    database = store.database.database
    holder = store.run_sync("hold", store.database.loop.run(database.holder()))

    def flood() -> None:
        for channel in (database.due_channel, database.channel(holder)):
            for start in ("", "\x1b]52;c;", "{", mine.conversation, f"{other.conversation}-"):
                stranger.execute(FLOOD, {"channel": channel, "start": start})
            stranger.execute("select pg_notify(%s, %s)", (channel, other.conversation))

    async def flooded() -> list[logging.LogRecord]:
        working = asyncio.create_task(agent.work())
        await asyncio.to_thread(flood)
        await store.answer(mine.id, True)
        async with asyncio.timeout(120):
            while (await store.read(mine.conversation)).turns[-1].open and not working.done():  # noqa: ASYNC110  the worker is another task
                await asyncio.sleep(0.02)
        assert not working.done()
        warned = [record for record in caplog.records if record.levelno >= logging.WARNING]
        working.cancel()  # the pool warns about the connection whose statement this may interrupt
        return warned

    assert asyncio.run(flooded()) == []
    assert set(database.notifications.counts) == {DUE, CHANGED}
    assert store.read_sync(other.conversation).events == before
    assert store.check_sync() == []
