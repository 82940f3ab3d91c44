"""A database of many users: no id, name, key, schema or message is part of a statement, and none that is no text stops a worker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

import psycopg
import pytest

import midturn as mt
from midturn.store.postgres.store import PostgresStore
from support.postgres import Cluster

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
        with suppress(mt.MidturnError):  # it is refused, or it is a name like any other
            USES[use](store, value)

    assert store.read_sync(mine).title == "Mine"
    assert store.check_sync() == []


@pytest.mark.parametrize("name", VALUES)
def test_the_name_of_a_schema_is_a_name(cluster: Cluster, name: str) -> None:
    value = VALUES[name].encode("utf-8", "replace").decode()
    with pytest.raises(mt.ConfigError, match="names no schema"):
        PostgresStore(f"{cluster.url}&midturn_schema={quote(value)}")

    with psycopg.connect(cluster.url) as connection:
        assert connection.execute("select 1 from pg_namespace where nspname = 'public'").fetchall() == [(1,)]


@pytest.mark.parametrize("payload", ["", "x" * 7_999, "'; drop table event; --", "{}", "\x1b]52;c;aGk=\x07", "1-../../x"])
def test_what_others_notify_stirs_nothing_but_a_look(url: str, cluster: Cluster, payload: str) -> None:
    store = PostgresStore(url)
    mine = store.new_sync("Mine")
    channels = [f"midturn.{store.database.database.address.schema}.{name}" for name in ("due", "stirred", "1")]
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        for channel in channels:
            connection.execute("select pg_notify(%s, %s)", (channel, payload))

    assert store.pending_sync() == []
    assert store.ids_sync() == [mine]
    assert store.check_sync() == []
