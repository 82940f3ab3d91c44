"""Tests the claims of `docs/explanation/comparison.md` about other frameworks, in the versions
named there. The document names each test.
"""

from __future__ import annotations

import asyncio
import json
import re
from importlib.metadata import version
from typing import Any, TypedDict

import pytest
from agents import Agent as OpenAIAgent, RunConfig, Runner, RunState, function_tool
from agents.testing import ScriptedModel as OpenAIScript, assistant_message, function_call
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from mcp.server.elicitation import elicit_with_validation
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from support.documents import ROOT

COMPARED = (ROOT / "docs" / "explanation" / "comparison.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("LangGraph", "langgraph"),
        ("OpenAI Agents SDK", "openai-agents"),
        ("Pydantic AI", "pydantic-ai-slim"),
    ],
)
def test_compared_versions_are_the_installed_ones(name: str, package: str) -> None:
    said = re.search(rf"^\| {name} \| ([\d.]+) \|", COMPARED, re.MULTILINE)
    assert said
    assert version(package).startswith(said[1])


def test_every_test_is_named_in_the_document() -> None:
    named = set(re.findall(r"`(test_\w+)`", COMPARED))
    assert named <= set(globals())
    assert len(named) >= 6


class State(TypedDict):
    """The state of the graph."""

    said: str


def test_langgraph_runs_a_node_again_from_its_beginning() -> None:
    """A node may call `interrupt` anywhere.

    The caller resumes with any JSON, which is not checked.
    """
    effects: list[str] = []

    def node(state: State) -> dict[str, Any]:
        del state
        effects.append("before")
        given: Any = interrupt({"question": "Deploy?"})
        return {"said": repr(given)}

    graph: Any = (
        StateGraph(State)
        .add_node("node", node)
        .add_edge(START, "node")
        .compile(checkpointer=InMemorySaver())
    )
    config = {"configurable": {"thread_id": "1"}}
    first = graph.invoke({"said": ""}, config)
    assert first["__interrupt__"][0].value == {"question": "Deploy?"}
    assert (
        graph.invoke(Command(resume=["not", "a", "boolean"]), config)["said"]
        == "['not', 'a', 'boolean']"
    )
    assert effects == ["before", "before"]


def test_openai_agents_asks_before_a_call_runs() -> None:
    """The run ends with interruptions, its state is serialised as JSON, and an approval is yes or
    no.
    """
    ran: list[str] = []

    @function_tool(needs_approval=True)
    def drop(name: str) -> str:
        """Drop something."""
        ran.append(name)
        return "gone"

    model = OpenAIScript(
        [
            [function_call("drop", {"name": "orders"}, call_id="call_1")],
            [assistant_message("Done.")],
        ]
    )
    agent = OpenAIAgent(name="Shop", model=model, tools=[drop])

    async def play() -> str:
        quiet = RunConfig(tracing_disabled=True)
        stopped = await Runner.run(agent, "Drop it.", run_config=quiet)
        assert (len(stopped.interruptions), ran) == (1, [])
        state = await RunState.from_json(
            agent, json.loads(json.dumps(stopped.to_state().to_json()))
        )
        state.approve(state.get_interruptions()[0])
        return str((await Runner.run(agent, state, run_config=quiet)).final_output)

    assert (asyncio.run(play()), ran) == ("Done.", ["orders"])


def test_pydantic_ai_ends_a_run_with_deferred_calls() -> None:
    """A new run takes the message history and the results. The program has to store both."""

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        called = any(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(
            [
                TextPart("Done.")
                if called
                else ToolCallPart("drop", {"name": "orders"}, tool_call_id="call_1")
            ]
        )

    agent: Agent[None, str | DeferredToolRequests] = Agent(
        FunctionModel(model), output_type=[str, DeferredToolRequests]
    )
    ran: list[str] = []

    @agent.tool_plain(requires_approval=True)
    def drop(name: str) -> str:
        """Drop something."""
        ran.append(name)
        return "gone"

    stopped = asyncio.run(agent.run("Drop it."))
    assert isinstance(stopped.output, DeferredToolRequests)
    assert ran == []
    given = DeferredToolResults(approvals={"call_1": True})
    assert (
        asyncio.run(
            agent.run(message_history=stopped.all_messages(), deferred_tool_results=given)
        ).output
        == "Done."
    )
    assert ran == ["orders"]


class Place(BaseModel):
    """A nested model."""

    city: str


class Nested(BaseModel):
    """A nested object, which MCP forms do not support."""

    place: Place


def test_mcp_takes_flat_forms_of_primitive_values_only() -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match="PrimitiveSchemaDefinition"):
        asyncio.run(elicit_with_validation(nobody, "Where?", Nested))
