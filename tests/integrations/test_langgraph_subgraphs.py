"""Questions of graphs inside a graph: each is asked once, or an error says why it cannot be
answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from operator import add
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Send

import midturn as mt
from midturn.integrations import langgraph as adapter
from midturn.stores.store import ConversationStore

THREAD: RunnableConfig = {"configurable": {"thread_id": "7"}}
REGION = mt.Question.text("region", "Which region?")


class State(TypedDict):
    """The messages of the nodes."""

    said: Annotated[list[str], add]


async def by_ask(_: Any) -> dict[str, list[str]]:
    """Ask in the node."""
    return {"said": [adapter.ask(REGION)]}


async def by_call(_: Any) -> dict[str, list[str]]:
    """Ask in a call."""

    async def deploy(call: mt.InquirerCall) -> str:
        return await call.ask(REGION)

    return {"said": [str(await adapter.call("deploy", {}, deploy))]}


def one_node(node: Any, checkpointer: Any = None) -> Any:
    """Return a graph of one node."""
    building: Any = StateGraph(State)
    return (
        building.add_node("node", node).add_edge(START, "node").compile(checkpointer=checkpointer)
    )


def as_node(inner: Any) -> Any:
    """Return a graph whose only node is another graph."""
    return inner


def in_function(inner: Any) -> Any:
    """Return a node that runs a graph."""

    async def node(_: Any) -> dict[str, list[str]]:
        return {"said": (await inner.ainvoke({"said": []}))["said"]}

    return node


async def answered_one_by_one(
    store: ConversationStore, graph: Any, given: Any, answers: list[str]
) -> tuple[Any, list[str]]:
    """Run a graph to its end; return its result and the texts of all questions."""
    conversation, left = await store.new(""), [*answers]
    for _ in range(len(answers) + 1):
        try:
            returned = await adapter.invoke(graph, mt.Inquirer(store, conversation), given, THREAD)
        except mt.Suspended as suspended:
            await store.answer(suspended.pending[0].id, left.pop(0))
        else:
            return returned, [
                request.question.text for request, _ in (await store.read(conversation)).pairs()
            ]
    raise AssertionError("it asks more than it should")


@pytest.mark.parametrize("node", [by_ask, by_call])
@pytest.mark.parametrize("place", [as_node, in_function])
@pytest.mark.parametrize("checkpointer", [None, True])
def test_nested_graph_asks_once(
    store: ConversationStore, node: Any, place: Callable[[Any], Any], checkpointer: Any
) -> None:
    async def scene() -> None:
        graph = one_node(place(one_node(node, checkpointer)), InMemorySaver())
        assert await answered_one_by_one(store, graph, {"said": []}, ["eu"]) == (
            {"said": ["eu"]},
            ["Which region?"],
        )

    asyncio.run(scene())


@pytest.mark.parametrize("node", [by_ask, by_call])
@pytest.mark.parametrize("place", [as_node, in_function])
def test_nested_graph_without_checkpoints_is_an_explained_error(
    store: ConversationStore, node: Any, place: Callable[[Any], Any]
) -> None:
    async def scene() -> None:
        conversation, saver = await store.new(""), InMemorySaver()
        inquirer = mt.Inquirer(store, conversation)
        with pytest.raises(
            mt.ConfigError,
            match=r"node `node` does not save checkpoints.*without `checkpointer=False`",
        ):
            await adapter.invoke(
                one_node(place(one_node(node, checkpointer=False)), saver),
                inquirer,
                {"said": []},
                THREAD,
            )

        mended = one_node(place(one_node(node)), saver)
        returned: Any = None
        while (
            returned is None
        ):  # the checkpoint of the outer graph may contain the previous question
            with suppress(mt.Suspended):
                returned = await adapter.invoke(mended, inquirer, {"said": []}, THREAD)
            for question in await store.pending(conversation):
                await store.answer(question.id, "eu")
        assert returned == {"said": ["eu"]}
        assert len((await store.read(conversation)).pairs()) <= 2
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())


def test_graph_without_checkpoints_asks_an_attached_person(store: ConversationStore) -> None:
    async def scene() -> None:
        graph = one_node(one_node(by_call, checkpointer=False), InMemorySaver())
        inquirer = mt.Inquirer(
            store, await store.new(""), mt.ScriptedPrompter({"deploy.region": "eu"})
        )
        assert await adapter.invoke(graph, inquirer, {"said": []}, THREAD) == {"said": ["eu"]}

    asyncio.run(scene())


def test_tasks_of_the_functional_api_ask_once(store: ConversationStore) -> None:
    @task
    async def region(service: str) -> str:
        return adapter.ask(mt.Question.text("region", f"Which region for {service}?"))

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(services: list[str]) -> dict[str, Any]:
        return {"said": [await region(service) for service in services]}

    async def scene() -> None:
        returned, asked = await answered_one_by_one(store, flow, ["shop", "mail"], ["eu", "us"])
        assert (returned, asked) == (
            {"said": ["eu", "us"]},
            ["Which region for shop?", "Which region for mail?"],
        )

    asyncio.run(scene())


def test_equal_calls_of_sent_nodes_have_separate_answers(store: ConversationStore) -> None:
    async def scene() -> None:
        building: Any = StateGraph(State)
        building.add_node("node", by_call)
        building.add_conditional_edges(
            START,
            lambda _: [Send("node", {"said": []}) for _ in range(2)],  # pyright: ignore[reportUnknownLambdaType]
            ["node"],
        )
        graph = building.compile(checkpointer=InMemorySaver())
        returned, asked = await answered_one_by_one(store, graph, {"said": []}, ["eu", "us"])
        assert (sorted(returned["said"]), asked) == (["eu", "us"], ["Which region?"] * 2)

    asyncio.run(scene())
