"""`schema=`: the final answer is checked and converted in the same way however a turn reaches its
end.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, Field

import midturn as mt
from support.agents import deploy

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}},
    "required": ["n"],
}


class Count(BaseModel):
    n: int = Field(ge=1)


@dataclass
class Plain:
    """A dataclass with a bounded field."""

    n: Annotated[int, Field(ge=1)]


def agent_saying(
    answer: str, store: mt.ConversationStore | None = None, schema: type | None = None
) -> mt.Agent:
    calls: dict[str, Any] = {"calls": [{"name": "deploy", "arguments": {}}]}
    return mt.Agent(
        mt.ScriptedModel([calls, {"text": answer}]), tools=[deploy], store=store, schema=schema
    )


# The tests pass `schema` as `Any`, which matches no overload. This alias selects the JSON Schema
# overload.


async def attached(agent: mt.Agent, schema: dict[str, Any]) -> mt.RunResult[Any]:
    return await agent.run(
        "Go.", schema=schema, prompter=mt.ScriptedPrompter({"deploy.sure": True})
    )


async def suspended(agent: mt.Agent, schema: dict[str, Any]) -> str:
    result = await agent.run("Go.", schema=schema)
    await agent.store.answer(result.pending[0].id, value=True)
    return result.conversation


async def resumed(agent: mt.Agent, schema: dict[str, Any]) -> mt.RunResult[Any]:
    return await agent.resume(await suspended(agent, schema))


async def resumed_and_watched(agent: mt.Agent, schema: dict[str, Any]) -> mt.RunResult[Any]:
    return await agent.resume(await suspended(agent, schema), on_event=lambda _: None)


async def resumed_with_the_type(agent: mt.Agent, schema: dict[str, Any]) -> mt.RunResult[Any]:
    return await agent.resume(await suspended(agent, schema), schema=schema)


async def streamed_with_the_type(agent: mt.Agent, schema: dict[str, Any]) -> mt.RunResult[Any]:
    async with agent.stream_resume(await suspended(agent, schema), schema=schema) as events:
        ended = [event.result async for event in events if isinstance(event, mt.TurnEnded)]
    return ended[0]


async def resumed_by_an_agent_of_the_type(
    agent: mt.Agent, schema: dict[str, Any]
) -> mt.RunResult[Any]:
    conversation = await suspended(agent, schema)
    return await mt.Agent(
        mt.ScriptedModel([{"text": "?"}, {"text": '{"n": 0}'}]),
        tools=[deploy],
        store=agent.store,
        schema=schema,
    ).resume(conversation)


Path_ = Callable[[mt.Agent, dict[str, Any]], Coroutine[Any, Any, mt.RunResult[Any]]]
PATHS: list[Path_] = [
    attached,
    resumed,
    resumed_and_watched,
    resumed_with_the_type,
    streamed_with_the_type,
    resumed_by_an_agent_of_the_type,
]


@pytest.mark.parametrize("schema", [SCHEMA, Count, Plain], ids=["json", "pydantic", "dataclass"])
@pytest.mark.parametrize("path", PATHS, ids=[path.__name__ for path in PATHS])
def test_an_answer_out_of_bounds_fails_on_every_path(path: Path_, schema: Any) -> None:
    result = asyncio.run(path(agent_saying('{"n": 0}'), schema))
    assert (result.status, result.structured) == ("failed", None)
    assert (result.error or "").startswith("The model's answer does not match the schema: /n: ")


@pytest.mark.parametrize("schema", [Count, Plain])
@pytest.mark.parametrize("path", [attached, resumed_with_the_type, streamed_with_the_type])
def test_answer_has_its_type_on_every_path(path: Path_, schema: Any) -> None:
    result = asyncio.run(path(agent_saying('{"n": 3}'), schema))
    assert (result.status, result.structured) == ("completed", schema(n=3))


def test_agent_schema_applies_to_all_runs() -> None:
    agent = mt.Agent(mt.ScriptedModel([{"text": '{"n": 3}'}, {"text": '{"n": 0}'}]), schema=Count)
    first = agent.run_sync("How many?")
    counted: Count | None = first.structured
    assert counted == Count(n=3)
    assert agent.run_sync("And now?", conversation=first.conversation).status == "failed"
    asking = agent_saying('{"n": 4}', schema=Plain)
    waiting = asking.run_sync("Go.")
    asking.store.answer_sync(waiting.pending[0].id, value=True)
    assert asking.resume_sync(waiting.conversation).structured == Plain(4)


def test_resumed_answer_without_the_type_is_plain_json() -> None:
    result = asyncio.run(resumed(agent_saying('{"n": 3}'), cast("Any", Count)))
    assert (result.status, result.structured) == ("completed", {"n": 3})


def test_another_process_checks_the_recorded_schema(tmp_path: Path) -> None:
    conversation = asyncio.run(
        suspended(agent_saying("?", mt.open_store(tmp_path / "store")), Count.model_json_schema())
    )
    program = f"""
import midturn as mt

@mt.tool(run="unattended")
async def deploy(ctx: mt.ToolContext) -> str:
    '''Deploy the service.'''
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))

agent = mt.Agent(mt.FunctionModel(lambda _: {{"n": 0}}), tools=[deploy], store=mt.open_store({str(tmp_path / "store")!r}))
result = agent.resume_sync({conversation!r})
print(result.status, result.structured, result.error)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert said.startswith("failed None The model's answer does not match the schema: /n: must be")


def test_type_without_a_schema_is_refused_before_the_run() -> None:
    agent = agent_saying('{"n": 3}')
    conversation = asyncio.run(suspended(agent, Count.model_json_schema()))
    with pytest.raises(mt.QuestionError, match="cannot create a JSON Schema"):
        agent.resume_sync(conversation, schema=object)
    assert agent.resume_sync(conversation, schema=Count).structured == Count(n=3)


def test_agent_is_generic_in_deps_and_answer_type() -> None:
    assert str(mt.Agent[int]) == str(mt.Agent[int, None])
    assert str(mt.Agent[int, str]) != str(mt.Agent[int])
