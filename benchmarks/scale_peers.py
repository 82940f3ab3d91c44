# pyright: basic, reportMissingImports=false, reportMissingTypeStubs=false
"""Many waiting questions in LangGraph and DBOS on PostgreSQL.

Run by `scale.py --peers` with a Python in which both are installed.

Usage: scale_peers.py URL WAITING. Prints a JSON array for each figure: its name and its value. As
in `scale.py`, the framework creates one waiting question, whose rows are copied. Neither
framework lists the questions for people: for LangGraph its list of checkpoints is used, for DBOS
every pending workflow.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

ANSWERS = 100
PAGE = 50


def main(url: str, waiting: int) -> None:
    schema = f"peers_{waiting}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    langgraph(f"{url}&options=-csearch_path%3D{schema}", waiting)
    dbos(url, schema, waiting)


def say(figure: str, found: str) -> None:
    """Print a figure."""
    print(json.dumps([figure, found]), flush=True)


def timed(work: Callable[[], object]) -> float:
    """Return the duration in milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def copied(
    connection: psycopg.Connection[Any], table: str, key: str, of: str, waiting: int
) -> None:
    """Copy the rows of a waiting question under other keys."""
    name = sql.Identifier(*table.split("."))
    *schema, plain = table.split(".")
    found = connection.execute(
        "select column_name from information_schema.columns where table_name = %s and table_schema"
        " = coalesce(%s, current_schema())",
        [plain, schema[0] if schema else None],
    )
    columns = [column for (column,) in found]
    values = [
        sql.SQL("%(of)s || '-' || n") if column == key else sql.Identifier(column)
        for column in columns
    ]
    copy = sql.SQL(
        "insert into {name} ({columns}) select {values} from {name}, generate_series(1, %(n)s) n"
        " where {key} = %(of)s"
    ).format(
        name=name,
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        values=sql.SQL(", ").join(values),
        key=sql.Identifier(key),
    )
    connection.execute(copy, {"of": of, "n": waiting})
    connection.execute(sql.SQL("analyze {}").format(name))


def answered(name: str, answers: Sequence[float], what: str) -> None:
    """Print the times of answers."""
    ordered = sorted(answers)
    found = (
        f"{statistics.median(ordered):.1f} ms, 99 of 100 in"
        f" {ordered[int(len(ordered) * 0.99)]:.1f} ms"
    )
    say(f"{name}: {what}", found)


# LangGraph
# --------------------------------------------------------------------------------------------------


def langgraph(url: str, waiting: int) -> None:
    """A graph with a model and a tool that interrupts, with LangGraph's PostgreSQL
    checkpointer.
    """
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.types import Command

    from contestants import langgraph_on

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        graph = langgraph_on(saver)
        assert graph.invoke(
            {"messages": [HumanMessage("Ship it")]}, {"configurable": {"thread_id": "one"}}
        )["__interrupt__"]
        with psycopg.connect(url, autocommit=True) as connection:
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                copied(connection, table, "thread_id", "one", waiting)
        number = iter(range(1, waiting + 1))

        def answer() -> None:
            thread = {"configurable": {"thread_id": f"one-{next(number)}"}}
            assert graph.invoke(Command(resume="eu-1"), thread)["messages"][-1].content == "Done."

        answered(
            "LangGraph",
            [timed(answer) for _ in range(ANSWERS)],
            "an answer with the rest of its turn",
        )
        pages = [timed(lambda: _first(_interrupted(saver, 4 * PAGE))) for _ in range(3)]
        say(f"LangGraph: the first {PAGE} that wait", f"{statistics.median(pages):.0f} ms")
        say("LangGraph: all that wait", f"{timed(lambda: len(list(_interrupted(saver)))):.0f} ms")


def _interrupted(saver: Any, limit: int | None = None) -> Iterator[str]:
    """Yield the threads whose last checkpoint is interrupted, among `limit` checkpoints.

    A thread has several.
    """
    seen: set[str] = set()
    for found in saver.list(None, limit=limit):
        thread = found.config["configurable"]["thread_id"]
        if thread not in seen and any(
            channel == "__interrupt__" for _, channel, _ in found.pending_writes
        ):
            yield thread
        seen.add(thread)


def _first(found: Iterator[str]) -> list[str]:
    return [thread for thread, _ in zip(found, range(PAGE), strict=False)]


# DBOS
# --------------------------------------------------------------------------------------------------


def dbos(url: str, schema: str, waiting: int) -> None:
    """A workflow that waits in `recv`.

    Copied workflows wait in no process, as if theirs were away.
    """
    from dbos import DBOS, SetWorkflowID

    at = url.replace("@/postgres", "@localhost/postgres")
    DBOS(
        config={
            "name": "scale",
            "system_database_url": at,
            "dbos_system_schema": schema,
            "log_level": "ERROR",
        }
    )

    @DBOS.workflow()
    def deploy() -> str:
        return str(DBOS.recv("region", timeout_seconds=3600))

    DBOS.launch()
    try:
        with SetWorkflowID("one"):
            DBOS.start_workflow(deploy)
        while not DBOS.list_workflows(status="PENDING"):
            time.sleep(0.05)
        with psycopg.connect(url, autocommit=True) as connection:
            copied(connection, f"{schema}.workflow_status", "workflow_uuid", "one", waiting)
        number = iter(range(1, waiting + 1))
        answered(
            "DBOS",
            [
                timed(lambda: DBOS.send(f"one-{next(number)}", "eu-1", "region"))
                for _ in range(ANSWERS)
            ],
            "an answer",
        )
        pages = [timed(lambda: DBOS.list_workflows(status="PENDING", limit=PAGE)) for _ in range(5)]
        say(f"DBOS: the first {PAGE} that wait", f"{statistics.median(pages):.0f} ms")
        say("DBOS: all that wait", f"{timed(lambda: DBOS.list_workflows(status='PENDING')):.0f} ms")
        DBOS.send("one", "eu-1", "region")
    finally:
        DBOS.destroy(workflow_completion_timeout_sec=5)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
