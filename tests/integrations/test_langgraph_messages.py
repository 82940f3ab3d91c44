"""Messages for a waiting graph: none is lost, in any format, also after a person has ended the
turn.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from pydantic import BaseModel

import midturn as mt
from midturn.events.types import ChatRequest
from midturn.integrations import langgraph as adapter
from midturn.stores.store import ConversationStore

THREAD: RunnableConfig = {"configurable": {"thread_id": "7"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
FIRST = {"messages": [HumanMessage("Ship it.")]}


class ModelState(BaseModel):
    """The state of a graph as a Pydantic model."""

    messages: Annotated[list[Any], add_messages] = []


@tool
async def deploy(env: str) -> str:
    """Deploy the service."""
    if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    return f"{env} is live."


def model(state: Any) -> dict[str, list[AIMessage]]:
    """Call `deploy`, unless the last message is a result or another message."""
    last: Any = (
        vars(state).get("messages", [])[-1]
        if isinstance(state, ModelState)
        else state["messages"][-1]
    )
    if isinstance(last, ToolMessage) or last.text != "Ship it.":
        return {"messages": [AIMessage(f"Read: {last.text}")]}
    return {
        "messages": [
            AIMessage("", tool_calls=[{"name": "deploy", "args": {"env": "eu"}, "id": "call_1"}])
        ]
    }


def graph_of_an_agent(schema: Any = MessagesState) -> Any:
    """Return a graph whose tool asks."""
    building: Any = StateGraph(schema)
    building.add_node("model", model)
    building.add_node("tools", ToolNode([deploy], awrap_tool_call=adapter.tool_call))
    building.add_edge(START, "model")
    building.add_conditional_edges("model", tools_condition)
    building.add_edge("tools", "model")
    return building.compile(checkpointer=InMemorySaver())


async def waits(store: ConversationStore, graph: Any, first: object) -> tuple[str, mt.Inquirer]:
    """Start a turn that waits."""
    conversation = await store.new("")
    inquirer = mt.Inquirer(store, conversation)
    with pytest.raises(mt.Suspended):
        await adapter.invoke(graph, inquirer, first, THREAD)
    return conversation, inquirer


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "text", "text": "Wait."}]},
        {"type": "human", "content": "Wait."},
        ("user", [{"type": "text", "text": "Wait."}]),
        ["user", "Wait."],
        HumanMessage([IMAGE]),
        HumanMessage(["Wait.", IMAGE]),
    ],
)
def test_a_new_message_of_each_shape_is_refused_while_a_question_is_open(
    store: ConversationStore, message: Any
) -> None:
    async def scene() -> None:
        graph = graph_of_an_agent()
        conversation, inquirer = await waits(store, graph, FIRST)
        (question,) = await store.pending(conversation)
        await store.answer(question, True)
        with pytest.raises(mt.TurnOpen):
            await adapter.invoke(graph, inquirer, {"messages": [message]}, THREAD)
        assert (await adapter.invoke(graph, inquirer, FIRST, THREAD))["messages"][
            -1
        ].text == "Read: eu is live."

    asyncio.run(scene())


def test_message_of_images_starts_and_continues_a_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        def ask(_: MessagesState) -> dict[str, list[AIMessage]]:
            return {"messages": [AIMessage(str(adapter.ask(mt.Question.boolean("look", "Look?"))))]}

        building: Any = StateGraph(MessagesState)
        graph = (
            building.add_node("ask", ask)
            .add_edge(START, "ask")
            .compile(checkpointer=InMemorySaver())
        )
        given = {"messages": [HumanMessage([IMAGE])]}
        conversation, inquirer = await waits(store, graph, given)
        (question,) = await store.pending(conversation)
        await store.answer(question, True)
        assert (await adapter.invoke(graph, inquirer, given, THREAD))["messages"][-1].text == "True"
        assert [
            event.content
            for event in (await store.read(conversation)).events
            if isinstance(event, ChatRequest)
        ] == ["[image_url]"]

    asyncio.run(scene())


def test_a_new_message_in_a_state_that_is_an_object_is_refused(store: ConversationStore) -> None:
    async def scene() -> None:
        graph = graph_of_an_agent(ModelState)
        _, inquirer = await waits(store, graph, ModelState(messages=[HumanMessage("Ship it.")]))
        with pytest.raises(mt.TurnOpen):
            await adapter.invoke(
                graph, inquirer, ModelState(messages=[HumanMessage("Wait.")]), THREAD
            )

    asyncio.run(scene())


def test_a_command_is_refused_if_it_would_be_lost(store: ConversationStore) -> None:
    async def scene() -> None:
        graph = graph_of_an_agent()
        conversation, inquirer = await waits(store, graph, FIRST)
        with pytest.raises(mt.TurnOpen):
            await adapter.invoke(
                graph, inquirer, Command(update={"messages": [HumanMessage("Wait.")]}), THREAD
            )
        with pytest.raises(mt.ConfigError, match=r"`Command` with `resume`.*store\.answer"):
            await adapter.invoke(graph, inquirer, Command(resume="yes"), THREAD)
        assert len(await store.pending(conversation)) == 1

    asyncio.run(scene())


@pytest.mark.parametrize("text", ["Ship it.", "Something else."])
def test_repaired_graph_is_told_once_that_its_turn_ended(
    store: ConversationStore, text: str
) -> None:
    async def scene() -> None:
        graph = graph_of_an_agent()
        conversation, inquirer = await waits(store, graph, FIRST)
        await store.end(conversation, user="u42")
        await graph.aupdate_state(
            THREAD,
            {"messages": [ToolMessage("The user has ended it.", tool_call_id="call_1")]},
            as_node="tools",
        )

        given = {"messages": [HumanMessage(text)]}
        with pytest.raises(mt.CallEnded) as ended:
            await adapter.invoke(graph, inquirer, given, THREAD)
        assert ended.value.turn_ended
        assert len((await graph.aget_state(THREAD)).values["messages"]) == 3

        if text == "Ship it.":
            with pytest.raises(mt.Suspended):
                await adapter.invoke(graph, inquirer, given, THREAD)
        else:
            assert (await adapter.invoke(graph, inquirer, given, THREAD))["messages"][
                -1
            ].text == "Read: Something else."

    asyncio.run(scene())
