"""Keys of conversations in PostgreSQL: several processes, and schemas that older versions use."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from midturn.errors import StoreError
from midturn.stores.postgres.conversations import PostgresStore
from support.loops import in_a_loop

pytestmark = pytest.mark.real("PostgreSQL")


async def _execute(url: str, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    connection = await psycopg.AsyncConnection.connect(
        url.partition("&midturn_schema")[0], autocommit=True
    )
    async with connection:
        cursor = await connection.execute(statement.encode(), parameters)
        return await cursor.fetchall() if cursor.description else []


@in_a_loop
async def test_processes_create_one_conversation_for_a_key(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(4)]

    created = await asyncio.gather(*(store.new(key="agui:ada:1") for store in stores * 5))

    assert len(set(created)) == 1
    assert [await store.find("agui:ada:1") for store in stores] == created[:4]
    assert await stores[0].port.ids() == created[:1]


@in_a_loop
async def test_schema_without_the_table_of_keys_is_read_as_it_is(url: str) -> None:
    """The table is created by the first conversation with a key. The version of the tables stays."""
    store = PostgresStore(url)
    first = await store.new()
    schema = url.rpartition("=")[2]
    await _execute(url, f'drop table "{schema}".conversation_key')  # as an older version left it
    tables = "select tablename::text from pg_tables where schemaname = %s"

    assert await store.find("k") is None
    assert ("conversation_key",) not in await _execute(url, tables, schema)
    second = await store.new(key="k")
    assert ("conversation_key",) in await _execute(url, tables, schema)
    assert await _execute(url, f'select version from "{schema}".midturn') == [(1,)]
    assert await store.find("k") == second != first


@in_a_loop
async def test_role_that_cannot_change_tables_uses_keys(url: str) -> None:
    """`upgrade` creates the table, so that the grants of the documents include it."""
    owner, schema = PostgresStore(url), url.rpartition("=")[2]
    await owner.upgrade()
    role = f"app_{schema}"
    for statement in (
        f"create role {role} login",
        f'grant usage on schema "{schema}" to {role}',
        f'grant select, insert, update, delete on all tables in schema "{schema}" to {role}',
        f'grant usage, select on all sequences in schema "{schema}" to {role}',
        f'grant execute on all functions in schema "{schema}" to {role}',
    ):
        await _execute(url, statement)
    store = PostgresStore(f"{url}&options=-c%20role%3D{role}")

    first = await store.new(key="k")

    assert await owner.find("k") == first == await store.new(key="k")
    await store.port.beside.keep("draft/1", b"{}")
    await _execute(url, f'drop table "{schema}".conversation_key')
    with pytest.raises(StoreError, match="permission denied"):
        await store.new(key="k")


@in_a_loop
async def test_conversation_that_an_older_version_removes_frees_its_key(url: str) -> None:
    store = PostgresStore(url)
    first = await store.new(key="k")
    schema = url.rpartition("=")[2]

    await _execute(url, f'delete from "{schema}".conversation where id = %s', first)

    assert await store.find("k") is None
    assert await store.new(key="k") != first
