"""A LangGraph graph whose nodes call a tool that asks, ask directly, and use `interrupt`.

No one is there to answer, so each run ends at a question, and the next run continues.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import asyncio
from operator import add
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

import midturn as mt
from midturn.integrations import langgraph as adapter


class State(TypedDict):
    """The outputs of the nodes."""

    said: Annotated[list[str], add]


async def deploy(call: mt.InquirerCall) -> str:
    """Ask, and have an effect once."""
    return (
        "staging is live in"
        f" {await call.ask(mt.Question.select('region', 'Which region?', ['eu-1', 'us-2']))}."
    )


async def call_a_tool(state: State) -> State:
    """Make a call once, however often the node starts over."""
    return {"said": [await adapter.call("deploy", {"for": len(state["said"])}, deploy)]}


def ask(state: State) -> State:
    """Ask in a node. The answer has the question's type."""
    return {
        "said": (
            ["Everybody knows."]
            if adapter.ask(mt.Question.boolean("tell", f"Tell them: {state['said'][-1]}?"))
            else []
        )
    }


def note(state: State) -> State:
    """Interrupt the graph with LangGraph's own function."""
    return {"said": [interrupt(f"A word after {len(state['said'])}?")]}


async def main() -> None:
    """Run until the graph is done."""
    graph = (
        StateGraph(State)
        .add_sequence([call_a_tool, ask, note])
        .add_edge(START, "call_a_tool")
        .compile(checkpointer=InMemorySaver())
    )
    store, answers = mt.MemoryStore(), iter(["us-2", True, "Well done."])
    conversation = await store.new("Ship it.")
    while True:
        try:
            state = await adapter.invoke(
                graph,
                mt.Inquirer(store, conversation),
                {"said": []},
                {"configurable": {"thread_id": "7"}},
            )
            return print(*state["said"])
        except mt.Suspended as suspended:
            print(suspended.pending[0].question.text)
            await store.answer(suspended.pending[0].id, next(answers), user="u42")


asyncio.run(main())
