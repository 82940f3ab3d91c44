"""The agent under torture: chains, forms, parallel calls and questions, approvals, agents inside
a tool. Its workers are killed.

Every effect is a line in the file `TORTURE_EFFECTS`: the call's idempotency key and what it did.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import midturn as mt
from midturn.events.types import ChatRequest
from midturn.exchange import ModelRequest, TextPart, ToolCallPart

EFFECTS = Path(os.environ.get("TORTURE_EFFECTS", os.devnull))
SLOW = 0.005


def _happened(ctx: mt.ToolContext, what: str) -> None:
    """Record an effect, like a real tool whose effects cannot be undone."""
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{ctx.idempotency_key} {what}\n".encode())
    os.close(descriptor)


@mt.tool
async def chain(number: int, ctx: mt.ToolContext) -> str:
    """Ask one thing after the other."""
    sure = await ctx.ask(mt.Question.boolean("sure", f"Sure about {number}?"))
    await asyncio.sleep(SLOW)
    region = await ctx.ask(mt.Question.select("region", "Which region?", ["eu-1", "us-2"]))
    _happened(ctx, f"chain {number}")
    return f"{sure} {region}"


@mt.tool
async def form(number: int, ctx: mt.ToolContext) -> str:
    """Ask several things at once."""
    asked = mt.Form([mt.Question.boolean("go", f"Go {number}?"), mt.Question.text("why", "Why?")])
    answers = await ctx.ask_form(asked)
    _happened(ctx, f"form {number}")
    return f"{answers}"


@mt.tool
async def both(number: int, ctx: mt.ToolContext) -> str:
    """Ask two things at the same time."""
    left, right = await asyncio.gather(
        ctx.ask(mt.Question.boolean("left", f"Left {number}?")),
        ctx.ask(mt.Question.text("right", f"Right {number}?")),
    )
    _happened(ctx, f"both {number}")
    return f"{left} {right}"


@mt.tool(run="ask")
async def approved(number: int, ctx: mt.ToolContext) -> str:
    """Do what somebody has to allow."""
    await asyncio.sleep(SLOW)
    _happened(ctx, f"approved {number}")
    return "done"


TEAM = mt.People(ask=["team"], only=True, approvals=2, members={"team": ["person-0", "person-1"]})


def _of_the_team(arguments: object, context: object) -> mt.People:
    del arguments, context
    return TEAM


@mt.tool(run=_of_the_team)
async def guarded(number: int, ctx: mt.ToolContext) -> str:
    """Do what two people have to allow."""
    await asyncio.sleep(SLOW)
    _happened(ctx, f"guarded {number}")
    return f"guarded {number}"


async def _instruct(request: ModelRequest) -> Sequence[ToolCallPart] | TextPart:
    """Call the one tool that the task names, as the inner agents do."""
    await asyncio.sleep(SLOW)
    if any(event.type == "tool_call_response" for event in request.events):
        return TextPart("Done.")
    task = next(event.content for event in request.events if isinstance(event, ChatRequest))
    name, number = task.split()
    return (ToolCallPart("call_1", name, {"number": int(number)}),)


@mt.tool
async def delegate(number: int) -> str:
    """Have two agents ask at the same time, one of them through a third."""
    inside = mt.Agent(mt.FunctionModel(_instruct), tools=[chain, form, pass_on])
    tasks = (f"form {number}1", f"pass_on {number}2")
    results = await asyncio.gather(*(inside.run(task) for task in tasks))
    return " ".join(result.text for result in results)


@mt.tool
async def pass_on(number: int) -> str:
    """Have another agent ask."""
    return (await mt.Agent(mt.FunctionModel(_instruct), tools=[chain]).run(f"chain {number}")).text


TURNS = (
    (ToolCallPart("call_1", "chain", {"number": 1}),),
    (ToolCallPart("call_2", "form", {"number": 2}), ToolCallPart("call_3", "chain", {"number": 3})),
    (
        ToolCallPart("call_4", "approved", {"number": 4}),
        ToolCallPart("call_5", "both", {"number": 5}),
    ),
    (
        ToolCallPart("call_6", "delegate", {"number": 6}),
        ToolCallPart("call_7", "form", {"number": 7}),
    ),
    (
        ToolCallPart("call_8", "guarded", {"number": 8}),
        ToolCallPart("call_9", "chain", {"number": 9}),
    ),
)


async def _say(request: ModelRequest) -> Sequence[ToolCallPart] | TextPart:
    """Call the tools of the next cycle after a short delay, as a model would."""
    await asyncio.sleep(SLOW)
    done = sum(event.type == "tool_call_response" for event in request.events)
    for cycle in TURNS:
        if done < len(cycle):
            return cycle
        done -= len(cycle)
    return TextPart("Done.")


TOOLS = [chain, form, approved, both, delegate, guarded]
agent = mt.Agent(
    mt.FunctionModel(_say), tools=TOOLS, store=mt.open_store(os.environ.get("TORTURE_STORE", "var"))
)
