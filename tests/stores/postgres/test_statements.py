"""SQL statements of a question: their number from request to answer, and their query plans with a
hundred thousand rows.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, LiteralString, cast

import psycopg
import pytest
from psycopg import sql

import midturn as mt
from midturn.stores.postgres import statements
from midturn.stores.postgres.conversations import PostgresStore
from support.loops import in_a_loop

pytestmark = pytest.mark.real("PostgreSQL")

MANY = 100_000
FILL = """
insert into {s}.conversation (id, metadata, head, unfinished, asking)
select (1000000000000000 + n)::text, '{{}}', 1, n %% 2 = 0, n %% 2 = 0 from generate_series(1, %(many)s) n;
insert into {s}.event select (1000000000000000 + n)::text, 0, '{{}}' from generate_series(1, %(many)s) n
"""
SOME = "1000000000050000"
GIVEN: dict[str, object] = {
    "id": SOME,
    "head": 1,
    "fence": 0,
    "holder": None,
    "lines": [b"{}"],
    "may_close": True,
    "waiting": ["e1"],
    "stirs": True,
    "stirred": "s",
    "turn_at": None,
    "unfinished": True,
    "asking": True,
    "answered": True,
    "channel": "c",
    "event_id": "e1",
    "submission": b"{}",
    "handed_seq": 0,
    "again": "now",
    "limit": 50,
    "after": SOME,
    "first": SOME,
    "only": None,
    "metadata": b"{}",
    "before": b"{}",
    "root": None,
    "deadline": None,
    "noted": ["e1"],
    "without": [SOME],
    "position": 0,
    "most": 100,
    "bytes": 100,
    "begins": b"{",
    "length": 1,
    "count": 1,
    "width": 4096,
}
HELD = {**GIVEN, "holder": 1}
EXPLAINED: dict[str, tuple[str, dict[str, object]]] = {
    "append": (statements.APPEND, GIVEN),
    "answer: look": (statements.LAST_TURN, GIVEN),
    "answer: record": (statements.SETTLE, GIVEN),
    "hand over": (statements.HAND_OVER, HELD),
    "collect": (statements.COLLECT, GIVEN),
    "hold": (statements.HOLD, HELD),
    "claim": (statements.CLAIM, {**HELD, "limit": 16}),
    "release": (statements.RELEASE, GIVEN),
    "what is ours": (statements.MINE, HELD),
    "a page of the inbox": (statements.ASKING, GIVEN),
    "the questions of one": (statements.ASKING, {**GIVEN, "only": SOME}),
    "a page of all": (statements.IDS["all"], GIVEN),
    "a page of the open": (statements.IDS["open"], GIVEN),
    "those past a deadline": (statements.OVERDUE, GIVEN),
    "a page of the newest": (statements.NEWEST, GIVEN),
    "a page of what they are called": (statements.LISTED, GIVEN),
    "what some are called": (statements.LISTED, {**GIVEN, "after": "", "only": [SOME]}),
    "read": (statements.READ, GIVEN),
    "a part": (statements.PART, GIVEN),
    "the last turns": (statements.LAST_TURNS, GIVEN),
    "the turns before some": (statements.TURNS_BEFORE, {**GIVEN, "before": None}),
    "remove": (statements.REMOVE, GIVEN),
    "describe": (statements.DESCRIBE, GIVEN),
}


def test_no_statement_scans_a_table(url: str) -> None:
    store = PostgresStore(url)
    store.ids_sync()
    schema = sql.Identifier(store.database.address.schema)
    with psycopg.connect(store.database.address.url, autocommit=True) as connection:
        for statement in FILL.split(";"):
            text = sql.SQL(statement).format(s=schema)
            connection.execute(text, {"many": MANY})
        for table in ("conversation", "event", "handed"):
            connection.execute(
                sql.SQL("vacuum analyze {}.{}").format(schema, sql.Identifier(table))
            )
        through = {
            name: found
            for name, (one, given) in EXPLAINED.items()
            if (found := _through(connection, schema, one, given))
        }
    assert through == {}


def _through(
    connection: psycopg.Connection, schema: sql.Identifier, statement: str, given: dict[str, object]
) -> list[str]:
    """Return the large tables that a statement would scan sequentially."""
    text = sql.SQL("explain (format json) " + cast("LiteralString", statement)).format(
        s=schema, c=sql.Literal(1)
    )
    row = connection.execute(text, given).fetchone()
    assert row
    plan: Any = row[0]
    scanned = [
        node["Relation Name"] for node in _nodes(plan[0]["Plan"]) if node["Node Type"] == "Seq Scan"
    ]
    return [table for table in scanned if table != "handed"]


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(found for child in node.get("Plans", []) for found in _nodes(child))]


@mt.tool
async def ship(ctx: mt.ToolContext) -> str:
    """Ship it."""
    sure = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    return f"{sure} {await ctx.ask(mt.Question.text('where', 'Where to?'))}"


@in_a_loop
async def test_number_of_statements_of_a_turn(url: str) -> None:
    """The numbers do not depend on the length of the conversation.

    A changed number is a changed cost.
    """
    store = PostgresStore(url)
    model = mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[ship], store=store)
    names = {
        statement: name
        for name, statement in vars(statements).items()
        if name.isupper() and isinstance(statement, str)
    }
    counted: Counter[str] = Counter()
    original = store.database.database.run_one

    async def counting(statement: str, parameters: Any) -> Any:
        counted[names.get(statement, statement[:20])] += 1
        return await original(statement, parameters)

    def taken() -> dict[str, int]:
        # they have their own transactions
        found = {name: count for name, count in counted.items() if name != "NOTIFY"}
        counted.clear()
        return found

    await store.ids()
    async with await store.create("The session is there"):
        pass
    store.database.database.run_one = counting
    counted.clear()
    asked = await agent.run("Ship it.")
    begun = taken()
    await store.answer(asked.pending[0].id, True)
    answered = taken()
    waiting = await agent.resume(asked.conversation)
    resumed = taken()
    await store.answer(waiting.pending[0].id, "Mars")
    await agent.resume(asked.conversation)
    taken()
    assert answered == {"LAST_TURN": 1, "SETTLE": 1}
    assert begun == {"INSERT": 1, "APPEND": 3, "COLLECT": 1, "RELEASE": 1}
    assert resumed == {"HOLD": 1, "LINES": 1, "APPEND": 1, "COLLECT": 2, "RELEASE": 1}
