"""A run without the `deps` that a tool declares is refused before anything runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

import midturn as mt
from midturn import testing

if TYPE_CHECKING:
    from midturn.question.json_value import JsonObject


@dataclass
class Shop:
    name: str


@mt.tool
async def greet(ctx: mt.ToolContext[Shop]) -> str:
    """Greet."""
    return ctx.deps.name


@mt.tool
def greet_in_a_thread(ctx: mt.ToolContext[Shop]) -> str:
    """Greet."""
    return ctx.deps.name


def only_own(_: JsonObject, ctx: mt.ToolContext[Shop]) -> Literal["unattended", "skip"]:
    """Decide from the fields of the shop."""
    return "unattended" if ctx.deps.name == "mine" else "skip"


@mt.tool(run=only_own)
async def close() -> str:
    """Close."""
    return "closed"


def agent_with(tool: Any, *, says: Any = "", **settings: Any) -> mt.Agent[Any]:
    model = mt.ScriptedModel([{"calls": [{"name": tool.name}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[tool], instructions=says, **settings)


def run(agent: mt.Agent[Any]) -> object:
    return agent.run_sync("Go.")


def stream(agent: mt.Agent[Any]) -> object:
    with agent.stream_sync("Go.") as events:
        return [*events]


def run_with_key(agent: mt.Agent[Any]) -> object:
    return agent.run_sync("Go.", conversation=agent.store.new_sync(), key="once")


@pytest.mark.parametrize("begin", [run, stream, run_with_key])
@pytest.mark.parametrize("tool", [greet, greet_in_a_thread, close])
def test_run_without_declared_deps_is_refused(
    begin: Callable[[mt.Agent[Any]], object], tool: mt.FunctionTool[..., str]
) -> None:
    agent = agent_with(tool)
    with pytest.raises(
        mt.ConfigError,
        match=(
            rf"^Tool `{tool.name}` needs `deps` \(`ToolContext\[Shop\]`\), but the run has none\."
            r" Pass `deps=…`"
        ),
    ):
        begin(agent)
    assert agent.store.ids_sync() == []


def test_instructions_that_take_deps_are_checked_as_well() -> None:
    def says(shop: Shop) -> str:
        return f"You work for {shop.name}."

    @mt.tool
    async def nod() -> str:
        """Nod."""
        return "nodded"

    agent = agent_with(nod, says=says)
    with pytest.raises(
        mt.ConfigError, match=r"^`instructions` takes a `Shop`, but the run has no `deps`"
    ):
        agent.run_sync("Go.")
    assert agent.store.ids_sync() == []
    assert agent.run_sync("Go.", deps=Shop("corner")).status == "completed"


@pytest.mark.parametrize(
    "hint",
    [
        "mt.ToolContext",
        "mt.ToolContext[Any]",
        "mt.ToolContext[None]",
        "mt.ToolContext[Shop | None]",
    ],
)
def test_tool_without_declared_deps_runs_without_deps(hint: str) -> None:
    async def look(ctx: Any) -> str:
        """Look."""
        return repr(ctx.deps)

    look.__annotations__["ctx"] = hint
    agent = agent_with(mt.tool(look))
    result = agent.run_sync("Go.")
    (response,) = [
        event
        for event in agent.store.read_sync(result.conversation).events
        if isinstance(event, mt.events.ToolCallResponse)
    ]
    assert (result.status, response.content) == ("completed", "None")


def test_turn_of_another_program_stays_open_without_deps() -> None:
    """The program that began the turn did not declare `deps`."""

    async def scene() -> None:
        @mt.tool(name="greet", run="ask")
        async def undeclared(ctx: mt.ToolContext) -> str:
            """Greet."""
            return str(ctx.deps)

        beginner = agent_with(undeclared)
        waiting = await beginner.run("Go.")
        await beginner.store.answer(waiting.pending[0], approve=True, user="ana")
        declared = mt.tool(run="ask")(greet.function)
        with pytest.raises(
            mt.ConfigError, match=r"Tool `greet` needs `deps` \(`ToolContext\[Shop\]`\)"
        ):
            await agent_with(declared, store=beginner.store).resume(waiting.conversation)
        assert await beginner.store.open_turns() == {waiting.conversation}
        result = await agent_with(declared, store=beginner.store).resume(
            waiting.conversation, deps=Shop("corner")
        )
        assert result.status == "completed"

    asyncio.run(scene())


def test_tool_run_without_an_agent_names_missing_deps() -> None:
    with pytest.raises(
        mt.ConfigError, match=r"Tool `greet` needs `deps` \(`ToolContext\[Shop\]`\)"
    ):
        asyncio.run(testing.run_tool(greet))
    assert asyncio.run(testing.run_tool(greet, deps=Shop("corner"))).content == "corner"
