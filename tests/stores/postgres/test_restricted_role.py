"""A role with only the grants of the documents can do everything that midturn does with a database."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import midturn as mt
from midturn.stores.postgres.own_loop import parse_database_address
from support.loops import in_a_loop
from support.pages import agent_with
from support.postgres import Cluster

pytestmark = pytest.mark.real("PostgreSQL")
DOCUMENT = Path(__file__).parents[3] / "docs" / "operations" / "postgresql.md"
GO = mt.Question.boolean("go", "Deploy?")


def documented_grants(schema: str) -> str:
    """Return the SQL of the document for another schema."""
    found = re.search(r"```sql\n(GRANT .*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    return found[1].replace("SCHEMA shop", f"SCHEMA {schema}")


def midturn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midturn", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def restricted(cluster: Cluster, url: str) -> str:
    """Create the tables as their owner; return the address for the role `app`."""
    upgraded = midturn("store", "upgrade", "--store", url)
    assert upgraded.returncode == 0, upgraded.stderr
    with psycopg.connect(cluster.url, autocommit=True) as owner:
        if not owner.execute("select 1 from pg_roles where rolname = 'app'").fetchone():
            owner.execute("create role app login")
        owner.execute(documented_grants(parse_database_address(url).schema))  # pyright: ignore[reportCallIssue,reportArgumentType]
    return url.replace("midturn@", "app@")


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"{env}: {await ctx.ask(GO)}"


@in_a_loop
async def test_turns_are_asked_answered_resumed_and_removed(restricted: str) -> None:
    store = mt.open_store(restricted)
    agent = agent_with(store, deploy, arguments={"env": "staging"})

    asked = await agent.run("Ship it")
    (question,) = asked.pending
    await store.answer(question.id, True, user="ana")
    assert await store.ready() == [asked.conversation]
    assert (await agent.resume(asked.conversation)).status == "completed"

    copy = await store.fork(asked.conversation)
    await store.port.beside.keep("value", b"1")
    await store.remove(copy)
    assert await store.ids() == [asked.conversation]


def test_commands_that_do_not_change_tables_work(restricted: str) -> None:
    for command in (("check",), ("reindex",), ("upgrade",)):
        done = midturn("store", *command, "--store", restricted)
        assert done.returncode == 0, done.stderr


def test_tables_cannot_be_changed(restricted: str) -> None:
    address = parse_database_address(restricted)
    with (
        psycopg.connect(address.url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(f"drop table {address.schema}.event".encode())


def test_upgrade_by_a_role_without_the_right_names_the_remedy(restricted: str) -> None:
    missing = restricted.replace("midturn_schema=", "midturn_schema=missing_")
    refused = midturn("store", "upgrade", "--store", missing)
    assert refused.returncode == 1
    assert "the role may not change tables" in refused.stderr
    assert "with the role that owns them" in refused.stderr
