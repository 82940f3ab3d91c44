"""Turns that are cancelled, suspended, answered elsewhere and resumed at random always
complete.
"""

from __future__ import annotations

import asyncio
import random

import pytest

import midturn as mt
from midturn.testing.tool_run import recorded_pairs
from support.agents import tool_results

QUESTIONS = [
    mt.Question.text(f"q{place}", f"Question {place}?", exclusive=True) for place in range(3)
]
TOOLS = ("one_by_one", "at_once", "in_a_thread", "as_a_form")
CALLED_AGAIN = TOOLS[:2]


@mt.tool
async def one_by_one(ctx: mt.ToolContext) -> str:
    """Ask one question after the other."""
    return " ".join([await ctx.ask(question) for question in QUESTIONS])


@mt.tool
async def at_once(ctx: mt.ToolContext) -> str:
    """Ask all of them at once."""
    return " ".join(await asyncio.gather(*map(ctx.ask, QUESTIONS)))


@mt.tool
def in_a_thread(ctx: mt.ToolContext) -> str:
    """Ask from a thread."""
    return " ".join(ctx.ask_sync(question) for question in QUESTIONS)


@mt.tool
def as_a_form(ctx: mt.ToolContext) -> mt.Form | str:
    """Return a form, and run again."""
    return (
        " ".join(str(ctx.answers[question.id]) for question in QUESTIONS)
        if "q2" in ctx.answers
        else mt.Form(QUESTIONS)
    )


class Person(mt.Prompter):
    """Answers now, answers later, or is unavailable."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.concurrent = dice.random() < 0.5

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        await asyncio.sleep(self.dice.choice([0, 0, 0.001, 0.003]))
        return (
            mt.Unavailable()
            if self.dice.random() < 0.2
            else mt.Answered(answer(prompt.tool, prompt.question.id))
        )


def answer(tool: str, question: str) -> str:
    """Return the answer to a question, the same in every interface."""
    return f"{tool}.{question}"


def new_agent() -> mt.Agent:
    """Return an agent whose model calls every tool, and then two of them again."""
    replies = [
        {"calls": [{"name": name} for name in TOOLS]},
        {"text": "Again.", "calls": [{"name": name} for name in CALLED_AGAIN]},
    ]
    model = mt.ScriptedModel([*replies, {"text": "Done."}])
    return mt.Agent(
        model, tools=[one_by_one, at_once, in_a_thread, as_a_form], limits={"shown": 1_000}
    )


async def answer_some(store: mt.ConversationStore, dice: random.Random) -> None:
    """Answer some of the open questions."""
    for question in await store.pending():
        if dice.random() < 0.6:
            await store.answer(
                question.id, answer(question.tool, question.request.id.split(".")[1])
            )


async def play(seed: int) -> mt.Agent:
    """Resume the turn until it has ended."""
    dice, agent = random.Random(seed), new_agent()
    for _ in range(300):
        conversations = await agent.store.ids()
        prompter = Person(dice) if dice.random() < 0.7 else None
        turns = (await agent.store.read(conversations[0])).turns if conversations else ()
        if turns and not turns[-1].open:
            return agent
        run = (
            agent.resume(conversations[0], prompter=prompter)
            if turns
            else agent.run("Go", conversation=next(iter(conversations), None))
        )
        task = asyncio.create_task(run)
        if dice.random() < 0.5:
            asyncio.get_running_loop().call_later(dice.uniform(0, 0.01), task.cancel)
        async with asyncio.timeout(120):
            (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, mt.RunResult | asyncio.CancelledError), ended
        await answer_some(agent.store, dice)
    raise AssertionError("the turn never came to an end")


@pytest.mark.parametrize("seed", range(25))
def test_random_turn_completes(seed: int) -> None:
    agent = asyncio.run(play(seed))

    (conversation,) = agent.store.ids_sync()
    expected = [
        " ".join(answer(tool, question.id) for question in QUESTIONS)
        for tool in (*TOOLS, *CALLED_AGAIN)
    ]
    assert sorted(tool_results(agent.store, conversation)) == sorted(expected)
    assert not any(
        pair.outcome == "open" for pair in recorded_pairs(agent.store.read_sync(conversation))
    )
