"""The measured turn: one tool call with a question or two, suspended to disk and resumed by new
objects, after a history.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import midturn as mt
from midturn.events.codec import encode_event
from midturn.events.types import (
    AnsweredBy,
    ChatRequest,
    ChatResponse,
    Event,
    InquiryAnswered,
    InquiryRequest,
    Source,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from midturn.exchange import ModelRequest, TextPart, ToolCallPart
from midturn.question.authoring import _cache  # pyright: ignore[reportPrivateUsage]
from midturn.question.json_value import Json
from midturn.stores.conversation import PASTS

MOMENT = "2026-01-01T00:00:00.000000Z"
QUESTIONS = 100
REGION = mt.Question.select("region", "Which region?", ["eu-1", "us-2"]).persisted()


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    region = await ctx.ask(mt.Question.select("region", "Which region?", ["eu-1", "us-2"]))
    return f"deployed {env} to {region}"


@mt.tool
async def deploy_twice(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service, after two questions."""
    sure = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    region = await ctx.ask(mt.Question.select("region", "Which region?", ["eu-1", "us-2"]))
    return f"deployed {env} to {region}: {sure}"


def model(tool: str) -> mt.FunctionModel:
    """Return a model that calls the tool once and then completes.

    The time of a real model is not measured.
    """
    call = ToolCallPart("call_1", tool, {"env": "staging"})

    def say(request: ModelRequest) -> ToolCallPart | TextPart:
        return TextPart("Done.") if request.events[-1].type == "tool_call_response" else call

    return mt.FunctionModel(say)


@mt.tool
async def interview(env: str, ctx: mt.ToolContext) -> str:
    """Ask a lot."""
    for number in range(QUESTIONS):
        await ctx.ask(mt.Question.text(f"q{number}", "And?"))
    return env


def interviewed(read: Callable[[], float]) -> tuple[float, float]:
    """Run one turn of many questions; return the increase of a counter over the first ten and
    over the last ten.
    """
    seen: list[float] = []

    class Person(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            del prompt
            seen.append(read())
            return mt.Answered("yes")

    with tempfile.TemporaryDirectory() as directory:
        agent = mt.Agent(
            model("interview"), tools=[interview], store=mt.open_store(directory), prompter=Person()
        )
        asyncio.run(agent.run("Go"))
    return seen[11] - seen[1], seen[-1] - seen[-11]


class Replayed:
    """A turn that waits behind many answers of one call.

    Resuming it replays each answer, and it waits again.
    """

    def __init__(self, directory: str, answers: int) -> None:
        @mt.tool
        async def interview(env: str, ctx: mt.ToolContext) -> str:
            """Ask a lot."""
            for number in range(answers + 1):
                await ctx.ask(mt.Question.text(f"q{number}", "And?"))
            return env

        self._agent = partial(mt.Agent, model("interview"), tools=[interview])
        self._directory = directory
        store = mt.open_store(directory)
        asked = self._agent(store=store).run_sync("Go")
        self._conversation = asked.conversation
        for _ in range(answers):
            store.answer_sync(asked.pending[0].id, "yes")
            asked = self.go_on(lambda: 0.0)[1]

    def go_on(self, read: Callable[[], float]) -> tuple[float, mt.RunResult[Any]]:
        """Resume with new objects; return the increase of a counter, and the result."""

        async def going_on() -> tuple[float, mt.RunResult[Any]]:
            agent = self._agent(store=mt.open_store(self._directory))
            began = read()
            waiting = await agent.resume(self._conversation)
            return read() - began, waiting

        return asyncio.run(going_on())


def history(events: int, moment: str = MOMENT) -> bytes:
    """Return finished turns of earlier days, about 350 bytes per event."""
    lines: list[bytes] = []
    for turn in range(events // 4):
        filler = "x" * 280
        lines += [
            msgspec.json.encode(
                {
                    "type": "turn_start",
                    "timestamp": moment,
                    "event_id": f"a{turn}",
                    "metadata": {"filler": filler},
                }
            ),
            msgspec.json.encode(
                {
                    "type": "chat_request",
                    "timestamp": moment,
                    "event_id": f"b{turn}",
                    "content": filler,
                }
            ),
            msgspec.json.encode(
                {
                    "type": "chat_response",
                    "timestamp": moment,
                    "event_id": f"c{turn}",
                    "message": filler,
                }
            ),
            msgspec.json.encode(
                {
                    "type": "turn_end",
                    "timestamp": moment,
                    "event_id": f"d{turn}",
                    "status": "completed",
                }
            ),
        ]
    return b"".join(line + b"\n" for line in lines)


def agent_history(events: int) -> bytes:
    """Return finished turns with a call and a question each, about 290 bytes per event."""
    return b"".join(line for turn in range(events // 8) for line in _agent_turn(turn))


def _agent_turn(turn: int) -> list[bytes]:
    filler = "x" * 280
    call = f"c{turn}"
    said: list[Event] = [
        TurnStart(event_id=f"a{turn}", timestamp=MOMENT),
        ChatRequest(event_id=f"b{turn}", timestamp=MOMENT, content=filler),
        ToolCallRequest(
            event_id=call,
            timestamp=MOMENT,
            id="call_1",
            name="deploy",
            arguments={"env": "staging", "note": filler},
        ),
        InquiryRequest(
            event_id=f"d{turn}",
            timestamp=MOMENT,
            id="call_1.region.1",
            call=call,
            tool_call_id="call_1",
            question_id="region",
            source=Source.tool("deploy"),
            question=REGION,
        ),
        InquiryAnswered(
            event_id=f"e{turn}",
            timestamp=MOMENT,
            id="call_1.region.1",
            answer="eu-1",
            answered_by=AnsweredBy("user"),
        ),
        ToolCallResponse(
            event_id=f"f{turn}", timestamp=MOMENT, id="call_1", call=call, content=filler
        ),
        ChatResponse(event_id=f"g{turn}", timestamp=MOMENT, message=filler),
        TurnEnd(event_id=f"h{turn}", timestamp=MOMENT, status="completed"),
    ]
    return [encode_event(event) + b"\n" for event in said]


def forget() -> None:
    """Clear the caches that a process keeps between turns: histories and questions."""
    PASTS.forget()
    _cache.clear()


def keep() -> None:
    """Clear nothing."""


async def turn(
    store: Path,
    conversation: str,
    tool: mt.Tool,
    answers: list[Json],
    between: Callable[[], None] = keep,
) -> None:
    """Run until suspended, then answer and resume with new objects until the turn is complete.

    `between` is called before each step.
    """
    name = tool.definition.name
    between()
    result = await mt.Agent(model(name), tools=[tool], store=mt.open_store(store)).run(
        "Ship it", conversation=conversation
    )
    for answer in answers:
        between()
        await mt.open_store(store).answer(result.pending[0].id, answer)
        between()
        result = await mt.Agent(model(name), tools=[tool], store=mt.open_store(store)).resume(
            conversation
        )
    if result.status != "completed":
        raise SystemExit(f"the turn ended {result.status}: {result.error}")


def prepared(root: Path, events: int) -> tuple[Path, str]:
    """Create a store with one conversation of this many events."""
    conversation = mt.open_store(root).new_sync("ship it")
    (path,) = root.glob(f"{conversation}-*")
    (path / "events.jsonl").write_bytes(history(events))
    return path, conversation
