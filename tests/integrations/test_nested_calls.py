"""Calls made by the function of another call: both wait for a person together, and both
continue.
"""

from __future__ import annotations

import asyncio

import pytest
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain.agents.middleware import wrap_tool_call
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import midturn as mt
from midturn.integrations import langgraph as adapter
from midturn.stores.store import ConversationStore

CONFIRM = mt.Question.boolean("confirm", "Deploy?")


@pytest.mark.parametrize("way", ["functions", "blocks"])
def test_the_turn_waits_for_a_question_of_a_call_inside_a_call(
    store: ConversationStore, way: str
) -> None:
    async def scene() -> None:
        conversation, ran = await store.new(), list[str]()

        async def inner(call: mt.InquirerCall) -> str:
            yes = await call.ask(CONFIRM)
            ran.append("inner")
            return "live" if yes else "not live"

        async def enter() -> str:
            inquirer = mt.Inquirer(store, conversation)

            async def outer(_: mt.InquirerCall) -> str:
                contents = [
                    await inquirer.run("deploy", name, {}, inner) for name in ("inner_1", "inner_2")
                ]
                return " and ".join(contents)

            async with inquirer.turn("Ship it."):
                if way == "functions":
                    return await inquirer.run("release", "outer", {}, outer)
                async with inquirer.call("release", "outer") as call:
                    return call.finish(await outer(call))

        for _ in range(2):
            with pytest.raises(mt.Suspended):
                async with asyncio.timeout(120):
                    await enter()
            (question,) = await store.pending(conversation)
            assert question.tool == "deploy"
            await store.answer(question, True)
        assert await enter() == "live and live"
        assert ran == ["inner", "inner"]
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())


def test_an_agent_of_langgraph_inside_a_tool_may_have_the_wrapper_too(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        conversation, ran = await store.new(), list[str]()
        ask = {"name": "deploy", "args": {"env": "eu"}, "id": "inner"}

        @tool
        async def deploy(env: str) -> str:
            """Deploy the service."""
            if not await mt.ask(CONFIRM):
                raise mt.Rejected("Not deployed.")
            ran.append(env)
            return f"{env} is live."

        said = iter([AIMessage("", tool_calls=[ask]), AIMessage("Done.")])

        @tool
        async def release() -> str:
            """Have another agent deploy."""
            agent = create_agent(
                Saying(messages=said), [deploy], middleware=[wrap_tool_call(adapter.tool_call)]
            )
            state = await agent.ainvoke({"messages": [HumanMessage("Deploy.")]})
            return str(state["messages"][-1].text)

        def model(state: MessagesState) -> dict[str, list[AIMessage]]:
            last = state["messages"][-1]
            if isinstance(last, ToolMessage):
                return {"messages": [AIMessage(last.text)]}
            return {
                "messages": [
                    AIMessage("", tool_calls=[{"name": "release", "args": {}, "id": "outer"}])
                ]
            }

        building = StateGraph(MessagesState)
        building.add_node("model", model)
        building.add_node("tools", ToolNode([release], awrap_tool_call=adapter.tool_call))
        building.add_edge(START, "model")
        building.add_conditional_edges("model", tools_condition)
        building.add_edge("tools", "model")
        graph = building.compile(checkpointer=InMemorySaver())
        thread: RunnableConfig = {"configurable": {"thread_id": "7"}}

        async def enter() -> str:
            async with asyncio.timeout(120):
                state = await adapter.invoke(
                    graph,
                    mt.Inquirer(store, conversation),
                    {"messages": [HumanMessage("Go.")]},
                    thread,
                )
            return str(state["messages"][-1].text)

        with pytest.raises(mt.Suspended):
            await enter()
        (question,) = await store.pending(conversation)
        await store.answer(question, True)
        assert await enter() == "Done."
        assert ran == ["eu"]

    asyncio.run(scene())


class Saying(GenericFakeChatModel):
    """A model that repeats its input and accepts tools."""

    def bind_tools(self, tools: object, **options: object) -> Saying:
        _ = tools, options
        return self
