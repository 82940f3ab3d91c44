# pyright: basic
"""A job of 10,000 rows on LangGraph: a graph per batch, its state in SQLite, an interrupt per row
that people decide about.

$ rows_langgraph.py [DIRECTORY [ROWS]]                      run or resume, and report
$ rows_langgraph.py DIRECTORY answer INTERRUPT VALUE USER
"""

import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send, interrupt

BATCH = 100
RULES = {"no currency": "EUR", "there twice": "delete"}


class State(TypedDict):
    """State of a batch: the decisions about rows, with their responders."""

    decided: Annotated[list[tuple[int, str, str]], add]
    first: int


class Odd(TypedDict):
    """A row with a problem."""

    row: int
    problem: str


def problem(row: int) -> str:
    """Return the problem of a row, if any."""
    return (
        "no currency"
        if row % 50 == 7
        else "there twice"
        if row % 250 == 99
        else "no amount"
        if row % 1000 == 404
        else ""
    )


def read(state: State) -> list[Send]:
    """Find the rows with problems in a batch, as a model would."""
    rows = range(state["first"], state["first"] + BATCH)
    return [Send("mend", Odd(row=row, problem=problem(row))) for row in rows if problem(row)]


def mend(odd: Odd) -> dict[str, Any]:
    """Have a row corrected by a rule or by a person."""
    if odd["problem"] in RULES:
        return {"decided": [(odd["row"], RULES[odd["problem"]], "house rules")]}
    said = interrupt(f"Row {odd['row']}: {odd['problem']}. What belongs there?")
    return {"decided": [(odd["row"], said["value"], said["user"])]}


def opened(directory: str) -> Any:
    """Return the graph on its database."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    saver = SqliteSaver(sqlite3.connect(f"{directory}/checkpoints.sqlite", check_same_thread=False))
    graph: Any = StateGraph(State)
    graph.add_node("mend", mend)
    graph.add_conditional_edges(START, read, ["mend"])
    return graph.compile(checkpointer=saver)


def threads(graph: Any) -> set[str]:
    """Return the batches that were begun."""
    return {kept.config["configurable"]["thread_id"] for kept in graph.checkpointer.list(None)}


def config(thread: str) -> Any:
    """Return the configuration of a batch."""
    return {"configurable": {"thread_id": thread}}


def waiting(graph: Any) -> Iterator[tuple[str, Interrupt]]:
    """Yield the open questions."""
    for thread in sorted(threads(graph)):
        for one in graph.get_state(config(thread)).interrupts:
            yield thread, one


def answer(directory: str, id: str, value: str, user: str) -> None:
    """Answer and resume."""
    graph = opened(directory)
    for thread, one in waiting(graph):
        if one.id == id:
            graph.invoke(Command(resume={id: {"value": value, "user": user}}), config(thread))
            return
    sys.exit(f"{id} is not open.")


def main(directory: str = "var/rows", rows: str = "10000") -> None:
    """Run the new batches, resume the interrupted ones, and report."""
    graph = opened(directory)
    begun = threads(graph)
    for first in range(0, int(rows), BATCH):
        thread = config(f"Rows {first} and on")
        state = graph.get_state(thread)
        if thread["configurable"]["thread_id"] not in begun:
            graph.invoke(State(decided=[], first=first), thread)
        elif state.next and not state.interrupts:
            graph.invoke(None, thread)
    who: Counter[str] = Counter()
    for thread in threads(graph):
        who.update(user for _, _, user in graph.get_state(config(thread)).values["decided"])
    still = list(waiting(graph))
    print(
        *(f"{count} decided by {name}" for name, count in who.most_common()),
        f"{len(still)} open",
        sep=", ",
    )
    for _, one in still:
        print(one.id, one.value)


if __name__ == "__main__":
    if sys.argv[2:3] == ["answer"]:
        answer(sys.argv[1], *sys.argv[3:])
    else:
        main(*sys.argv[1:])
