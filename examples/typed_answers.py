"""Answers have the types of their questions, both for a type checker and at run time.

Check it with `pyright examples/typed_answers.py`; run it with `python examples/typed_answers.py`.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_type

from msgspec import Struct

import midturn as mt


class Region(Enum):
    """A deployment region."""

    EUROPE = "eu-1"
    AMERICA = "us-2"


class Window(Struct):
    """A maintenance window."""

    day: str
    hours: int


SURE = mt.Question.boolean("sure", "Are you sure?")
REGION = mt.Question.select("region", "Where?", Region, default=Region.EUROPE)
SIZE = mt.Question.select("size", "How many?", [1, 2, 3])
TARGETS = mt.Question.multi_select("targets", "Which?", ["web", "worker"], min=1)
NAME = mt.Question.text("name", "What is it called?")
REMARK = mt.Question.text("remark", "Anything else?", optional=True)
WINDOW = mt.Question.schema("window", "When may it be slow?", Window)
TOKEN = mt.Question.secret("token", "The token?")


@mt.tool
async def plan(ctx: mt.ToolContext[list[str]]) -> str:
    """Ask for everything, one question after the other."""
    sure = assert_type(await ctx.ask(SURE), bool)
    region = assert_type(await ctx.ask(REGION), Region)
    size = assert_type(await ctx.ask(SIZE), int)
    targets = assert_type(await ctx.ask(TARGETS), list[str])
    name = assert_type(await ctx.ask(NAME), str)
    remark = assert_type(await ctx.ask(REMARK), str | None)
    window = assert_type(await ctx.ask(WINDOW), Window)
    token = assert_type(await ctx.ask(TOKEN), mt.SecretValue)
    seen = assert_type(ctx.deps, list[str])
    seen.append(
        f"{sure} {region.name} {size + 1} {targets[0]} {name.upper()} {remark} {window.hours:02}"
        f" {token}"
    )
    return "planned"


@mt.tool
async def ask_at_once(ctx: mt.ToolContext[list[str]]) -> str:
    """Ask in one form, and ask without insisting."""
    answers = await ctx.ask_form(mt.Form([SURE, REGION, REMARK]))
    sure, region, remark = answers[SURE], answers[REGION], answers[REMARK]
    assert_type(sure, bool)
    assert_type(region, Region)
    assert_type(remark, str | None)
    match await ctx.try_ask(SIZE):
        case mt.Answer(value, reason, by):
            assert_type(value, int)
            size = f"{value} by {by} because {reason}"
        case mt.Unanswered(reason):
            size = f"nothing, because {reason}"
    ctx.deps.append(f"{sure} {region.name} {remark} {size}")
    return "asked"


@mt.tool
def in_a_thread(ctx: mt.ToolContext[list[str]]) -> str:
    """Ask from a function that is not async."""
    ctx.deps.append(str(assert_type(ctx.ask_sync(SIZE), int)))
    return "asked"


ANSWERS = {
    "plan.sure": True,
    "plan.region": "us-2",
    "plan.size": 2,
    "plan.targets": [["web"]],
    "plan.name": "shop",
    "plan.remark": None,
    "plan.window": {"day": "Sunday", "hours": 6},
    "plan.token": "hunter2",
    "ask_at_once.sure": False,
    "ask_at_once.region": "eu-1",
    "ask_at_once.remark": "later",
    "ask_at_once.size": mt.Answered(3, reason="it is much"),
    "in_a_thread.size": 1,
}


def main() -> None:
    """Call each tool once and print its answers."""
    calls = [{"name": tool.name} for tool in (plan, ask_at_once, in_a_thread)]
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": calls}, {"text": "Done."}]),
        tools=[plan, ask_at_once, in_a_thread],
    )
    seen: list[str] = []
    result = assert_type(
        agent.run_sync("Plan it.", prompter=mt.ScriptedPrompter(ANSWERS), deps=seen),
        mt.RunResult[None],
    )
    print(result.text, *sorted(seen), sep="\n")


if __name__ == "__main__":
    main()
