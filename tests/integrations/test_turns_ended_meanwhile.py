"""A person ends a turn that no program holds. The program is told, and nobody is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from agents import Agent as SdkAgent, RunConfig, RunState
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import midturn as mt
from midturn.integrations import langgraph as langgraph_adapter
from midturn.integrations.openai_agents import Asking
from midturn.integrations.pydantic_ai import run as run_pydantic_ai
from midturn.stores.store import ConversationStore

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    """Reset the recorded tool effects of other tests."""
    RAN.clear()


async def deploy(env: str) -> str:
    """Deploy the service."""
    if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    RAN.append(env)
    return f"{env} is live."


async def asked(store: ConversationStore, conversation: str) -> list[str]:
    """Return the texts of all questions that were ever asked."""
    return [request.question.text for request, _ in (await store.read(conversation)).pairs()]


async def held(
    store: ConversationStore, conversation: str, text: str = "Ship it.", call_id: str = "call_1"
) -> mt.CallContent:
    """Hold a turn for one call of a custom loop."""
    inquirer = mt.Inquirer(store, conversation)
    async with inquirer.turn(text):
        return await inquirer.run("deploy", call_id, {"env": "eu"}, lambda _: deploy("eu"))


@pytest.mark.parametrize("text", ["Ship it.", ""])
def test_custom_loop_is_told_once_and_then_starts_a_new_turn(
    store: ConversationStore, text: str
) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        with pytest.raises(mt.Suspended):
            await held(store, conversation, text)
        await store.end(conversation, user="u42")

        content = await held(store, conversation, text)

        assert content.turn_ended
        assert content == "Tool input cancelled by user."
        assert await asked(store, conversation) == ["Deploy to eu?"]
        with pytest.raises(mt.Suspended):
            await held(store, conversation, text)
        assert await asked(store, conversation) == ["Deploy to eu?"] * 2

    asyncio.run(scene())


def test_other_messages_and_calls_belong_to_a_new_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        with pytest.raises(mt.Suspended):
            await held(store, conversation)
        await store.end(conversation, user="u42")
        with pytest.raises(mt.Suspended):
            await held(store, conversation, "Something else.", "call_2")
        await store.end(conversation, user="u42")
        with pytest.raises(mt.Suspended):
            await held(store, conversation, "", "call_3")

    asyncio.run(scene())


def test_program_that_held_the_ended_turn_was_told(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        inquirer = mt.Inquirer(
            store, conversation, mt.ScriptedPrompter({"deploy.confirm": mt.EndedTurn()})
        )
        async with inquirer.turn("Ship it."):
            content = await inquirer.run("deploy", "call_1", {"env": "eu"}, lambda _: deploy("eu"))
        assert content.turn_ended

        with pytest.raises(mt.Suspended):
            await held(store, conversation)

    asyncio.run(scene())


def test_state_of_a_conversation_is_removed_with_it(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        with pytest.raises(mt.Suspended):
            await held(store, conversation)
        await store.end(conversation, user="u42")
        await held(store, conversation)
        assert await store.port.beside.kept("reported-end/")

        await store.remove(conversation)

        assert not await store.port.beside.kept("reported-end/")

    asyncio.run(scene())


def test_ended_older_turn_does_not_hide_the_last_one(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("")
        inquirer = mt.Inquirer(store, conversation)
        with pytest.raises(mt.Suspended):
            async with inquirer.turn("Ship it.", key="job-1"):
                await inquirer.run("deploy", "call_0", {"env": "eu"}, lambda _: deploy("eu"))
        await store.end(conversation, user="u42")
        with pytest.raises(mt.Suspended):
            await held(store, conversation, "Something else.")
        await store.end(conversation, user="u42")
        assert (await held(store, conversation, "Something else.")).turn_ended
        with pytest.raises(mt.CallEnded):
            async with inquirer.turn("Ship it.", key="job-1"):
                inquirer.raise_end()

        with pytest.raises(mt.Suspended):
            await held(store, conversation, "Something else.")

    asyncio.run(scene())


# Frameworks
# --------------------------------------------------------------------------------------------------


def test_pydantic_ai_raises_how_the_turn_ended_and_then_refuses_its_messages(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            is_new = len(messages) == 1
            return ModelResponse(
                [
                    (
                        ToolCallPart("deploy", {"env": "eu"}, tool_call_id="call_1")
                        if is_new
                        else TextPart("It is live.")
                    )
                ]
            )

        agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests], tools=[deploy])
        conversation = await store.new("")
        inquirer = mt.Inquirer(store, conversation)
        waiting = (await run_pydantic_ai(agent, inquirer, "Ship it.")).all_messages()
        await store.end(conversation, user="u42")

        with pytest.raises(mt.CallEnded) as ended:
            await run_pydantic_ai(agent, inquirer, message_history=waiting)
        assert ended.value.turn_ended
        with pytest.raises(
            mt.ConfigError, match=r"`deploy` \(call_1\).*Pass the messages from before that turn"
        ):
            await run_pydantic_ai(agent, inquirer, "Something else.", message_history=waiting)
        assert await asked(store, conversation) == ["Deploy to eu?"]
        assert not RAN

    asyncio.run(scene())


def test_the_openai_sdk_raises_how_the_turn_ended_and_then_refuses_its_state(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        asking = Asking(mt.Inquirer(store, conversation := await store.new("")))
        model = ScriptedModel(
            [
                [function_call("deploy", {"env": "eu"}, call_id="call_1")],
                [assistant_message("It is live.")],
            ]
        )
        agent = SdkAgent[Any](name="Shop", model=model, tools=[asking.tool(deploy)])
        config = RunConfig(tracing_disabled=True)
        kept = (await asking.run(agent, "Ship it.", run_config=config)).to_state().to_json()
        await store.end(conversation, user="u42")

        with pytest.raises(mt.CallEnded) as ended:
            await asking.run(agent, await RunState.from_json(agent, kept), run_config=config)
        assert ended.value.turn_ended
        with pytest.raises(mt.ConfigError, match=r"`deploy` \(call_1\).*Start a new run"):
            await asking.run(agent, await RunState.from_json(agent, kept), run_config=config)
        assert await asked(store, conversation) == ["Deploy to eu?"]
        assert not RAN

    asyncio.run(scene())


def graph_of_an_agent() -> Any:
    """Return a graph whose model calls `deploy`, unless the user has said something else."""

    def model(state: MessagesState) -> dict[str, list[AIMessage]]:
        last = state["messages"][-1]
        if isinstance(last, ToolMessage) or "else" in last.text:
            return {"messages": [AIMessage("Well.")]}
        return {
            "messages": [
                AIMessage(
                    "", tool_calls=[{"name": "deploy", "args": {"env": "eu"}, "id": "call_1"}]
                )
            ]
        }

    building = StateGraph(MessagesState)
    building.add_node("model", model)
    building.add_node(
        "tools", ToolNode([tool(deploy)], awrap_tool_call=langgraph_adapter.tool_call)
    )
    building.add_edge(START, "model")
    building.add_conditional_edges("model", tools_condition)
    building.add_edge("tools", "model")
    return building.compile(checkpointer=InMemorySaver())


def test_a_graph_raises_how_the_turn_ended_and_then_takes_a_new_message(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        graph, thread = graph_of_an_agent(), RunnableConfig({"configurable": {"thread_id": "7"}})
        conversation = await store.new("")
        inquirer = mt.Inquirer(store, conversation)

        async def say(*messages: str) -> Sequence[Any]:
            given = (
                {"messages": [HumanMessage(message) for message in messages]} if messages else None
            )
            state = await langgraph_adapter.invoke(graph, inquirer, given, thread)
            return state["messages"]

        with pytest.raises(mt.Suspended):
            await say("Ship it.")
        await store.end(conversation, user="u42")

        with pytest.raises(mt.CallEnded) as ended:
            await say("Ship it.")
        assert ended.value.turn_ended
        assert (await say("Something else."))[-1].text == "Well."
        assert await asked(store, conversation) == ["Deploy to eu?"]
        assert not RAN

    asyncio.run(scene())
