"""A graph of LangGraph: one node calls a tool that asks, another asks by itself, a third uses LangGraph's own interrupt.

    $ python examples/frameworks/with_langgraph.py

Nobody is there to answer, so each entry ends, and the next one goes on where it was.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# LangGraph comes without stubs of its own.

from __future__ import annotations

import asyncio
from operator import add
from typing import Annotated

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

import midturn as mt
from midturn.adapters import langgraph as adapter

REGION = mt.Question.select("region", "Which region?", ["eu-1", "us-2"])


class State(TypedDict):
    """What the nodes say."""

    said: Annotated[list[str], add]


async def deploy(call: mt.InquirerCall) -> str:
    """Ask, and have an effect once."""
    return f"staging is live in {await call.ask(REGION)}."


async def call_a_tool(state: State) -> State:
    """Make a call, once, however often the node begins anew."""
    assert not state["said"]
    return {"said": [await adapter.call("deploy", {"env": "staging"}, deploy)]}


def ask(state: State) -> State:
    """Ask in a node; the answer has the question's type."""
    return {"said": ["Everybody knows."] if adapter.ask(mt.Question.boolean("tell", f"Tell them: {state['said'][-1]}?")) else []}


def note(state: State) -> State:
    """Interrupt the graph, as LangGraph has it."""
    return {"said": [interrupt(f"A word after {len(state['said'])}?")]}


async def main() -> None:
    """Enter until the graph is done."""
    graph = StateGraph(State).add_sequence([call_a_tool, ask, note]).add_edge(START, "call_a_tool").compile(checkpointer=InMemorySaver())
    store = mt.MemoryStore()
    conversation = await store.new("Ship it.")
    answers = iter(["us-2", True, "Well done."])
    while True:
        try:
            state = await adapter.invoke(graph, mt.Inquirer(store, conversation), {"said": []}, {"configurable": {"thread_id": "7"}})
        except mt.Suspended as suspended:
            (question,) = suspended.pending
            print(question.question.text)
            await store.answer(question.id, next(answers), user="u42")
        else:
            print(*state["said"])
            return


if __name__ == "__main__":
    asyncio.run(main())
