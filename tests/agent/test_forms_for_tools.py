"""Answers of a form as data (`FormAnswers.to_json`), and forms whose reply reaches the tool
(`try_ask_form`): at once, from the inbox, and after a restart.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import midturn as mt
from midturn.testing import run_tool
from midturn.turn.inputs import Given

PACK = mt.Question.boolean("pack", "Pack?")
WHERE = mt.Question.text("where", "Where to?", when=mt.When("pack", equals=True))
NOTE = mt.Question.text("note", "A note?", optional=True)
TOKEN = mt.Question.secret("token", "The token?")
MOVE = mt.Form([PACK, WHERE, NOTE])

Store = Callable[[], mt.ConversationStore]


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A function that opens the same store again, as another process does."""
    if request.param == "memory":
        memory = mt.MemoryStore()
        return lambda: memory
    return lambda: mt.open_store(tmp_path / "conversations")


def calling(name: str) -> mt.ScriptedModel:
    return mt.ScriptedModel([{"calls": [{"name": name}]}, {"text": "Done."}])


def tool_result(store: mt.ConversationStore, conversation: str) -> str:
    (result,) = [
        event.content
        for event in store.read_sync(conversation).events
        if isinstance(event, mt.events.ToolCallResponse)
    ]
    return result


# Answers as data
# --------------------------------------------------------------------------------------------------


def test_answers_of_a_form_are_data_without_secrets() -> None:
    seen: list[mt.FormAnswers] = []

    @mt.tool
    async def move(ctx: mt.ToolContext) -> str:
        """Move."""
        seen.append(await ctx.ask_form(mt.Form([PACK, WHERE, NOTE, TOKEN])))
        return "moved"

    answers = {"pack": True, "where": "Oslo", "note": None, "token": mt.SecretValue("s3cret")}
    asyncio.run(run_tool(move, {}, answers))

    (given,) = seen
    assert given.ids == ("pack", "where", "note", "token")
    assert given.to_json() == {"pack": True, "where": "Oslo", "note": None}
    assert [question.id for question in given] == ["pack", "where", "token"]
    assert all(question in given for question in given)
    assert NOTE not in given


def test_questions_that_were_not_asked_are_null() -> None:
    @mt.tool
    async def move(ctx: mt.ToolContext) -> str:
        """Move."""
        return json.dumps((await ctx.ask_form(MOVE)).to_json())

    done = asyncio.run(run_tool(move, {}, {"pack": False, "note": "Fragile."}))

    assert json.loads(done.content) == {"pack": False, "where": None, "note": "Fragile."}


def test_a_changed_copy_does_not_change_the_answers() -> None:
    parts = mt.Question.multi_select("parts", "Which?", ["a", "b"])
    form = mt.Form([parts, PACK])
    given: Given = {"parts": mt.Answer(["a"]), "pack": mt.Answer(True)}
    answers = mt.FormAnswers(given, form.questions)

    answers.to_json()["parts"].append("b")  # type: ignore[union-attr]  # a list

    assert answers.to_json() == {"parts": ["a"], "pack": True}


def test_answers_before_a_deadline_are_data() -> None:
    seen: list[object] = []
    late = mt.Question.text("late", "Late?", deadline=1)

    @mt.tool
    async def move(ctx: mt.ToolContext) -> str:
        """Move."""
        try:
            await ctx.ask_form(mt.Form([PACK, late]))
        except mt.NotAnswered as error:
            seen.append((error.answers.to_json(), error.answers.ids))
        return "went on"

    class Slow(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            if prompt.question.id == "late":
                await asyncio.sleep(30)
            return mt.Answered(value=True)

    mt.Agent(calling("move"), tools=[move], prompter=Slow()).run_sync("Move.").raise_if_failed()

    assert seen == [({"pack": True}, ("pack", "late"))]


# A reply to a form
# --------------------------------------------------------------------------------------------------


@mt.tool
async def plan(ctx: mt.ToolContext) -> str:
    """Plan the move."""
    match await ctx.try_ask_form(MOVE):
        case mt.Unanswered("reply", reply):
            sure = await ctx.ask(mt.Question.boolean("wait", f"Wait, because of {reply!r}?"))
            return f"waits: {sure}"
        case mt.Unanswered(reason):
            return f"no answers: {reason}"
        case answers:
            return json.dumps(answers.to_json())


@mt.tool
def plan_in_a_thread(ctx: mt.ToolContext) -> str:
    """Plan the move."""
    answers = ctx.try_ask_form_sync(MOVE)
    return repr(answers) if isinstance(answers, mt.Unanswered) else json.dumps(answers.to_json())


@mt.tool
async def plan_without_context() -> str:
    """Plan the move."""
    return repr(await mt.try_ask_form(MOVE))


@mt.tool
def plan_in_a_thread_without_context() -> str:
    """Plan the move."""
    return repr(mt.try_ask_form_sync(MOVE))


@pytest.mark.parametrize(
    "tool", [plan_in_a_thread, plan_without_context, plan_in_a_thread_without_context]
)
def test_reply_to_a_form_reaches_the_tool(tool: mt.Tool) -> None:
    said = {"pack": True, "where": mt.Replied("Ask Ann first.")}

    done = asyncio.run(run_tool(tool, {}, said))

    assert done.content == "Unanswered(reason='reply', reply='Ask Ann first.')"


def test_tool_gets_the_answers_of_the_form() -> None:
    done = asyncio.run(run_tool(plan_in_a_thread, {}, {"pack": False, "note": None}))

    assert json.loads(done.content) == {"pack": False, "where": None, "note": None}


def test_inbox_reply_to_a_form_reaches_the_tool_in_another_process(store: Store) -> None:
    conversation = (
        mt.Agent(calling("plan"), tools=[plan], store=store()).run_sync("Plan.").conversation
    )

    for answer in ({"value": True}, {"reply": "Ask Ann first."}, {"value": False}):
        (question,) = store().pending_sync()
        store().answer_sync(question.id, **answer)  # type: ignore[arg-type]
        result = mt.Agent(calling("plan"), tools=[plan], store=store()).resume_sync(conversation)

    assert result.status == "completed"
    assert tool_result(store(), conversation) == "waits: False"


def test_an_answered_form_is_not_asked_again_after_a_restart(store: Store) -> None:
    asked: list[object] = []

    @mt.tool
    async def twice(ctx: mt.ToolContext) -> str:
        """Ask a form, then a question."""
        answers = await ctx.try_ask_form(MOVE)
        assert isinstance(answers, mt.FormAnswers)
        asked.append(answers.to_json())
        return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))

    def agent() -> mt.Agent:
        return mt.Agent(calling("twice"), tools=[twice], store=store())

    conversation = agent().run_sync("Move.").conversation
    for value in ({"pack": True, "where": "Oslo", "note": None}, True):
        (question,) = store().pending_sync()
        store().answer_sync(question.id, value)
        result = agent().resume_sync(conversation)

    assert result.status == "completed"
    assert asked == [{"pack": True, "where": "Oslo", "note": None}] * 2
    assert tool_result(store(), conversation) == "True"


def test_deadline_of_a_form_reaches_the_tool() -> None:
    late = mt.Question.text("late", "Late?", deadline=1)

    @mt.tool
    async def tries(ctx: mt.ToolContext) -> str:
        """Try."""
        return repr(await ctx.try_ask_form(mt.Form([late, NOTE])))

    class Slow(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:  # noqa: ARG002
            await asyncio.sleep(30)
            return mt.Answered(value=None)

    agent = mt.Agent(calling("tries"), tools=[tries], prompter=Slow())
    result = agent.run_sync("Try.").raise_if_failed()

    assert tool_result(agent.store, result.conversation) == (
        "Unanswered(reason='deadline', reply=None)"
    )


def test_try_ask_form_refuses_a_single_question() -> None:
    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        return repr(await ctx.try_ask_form(PACK))  # type: ignore[arg-type]

    done = asyncio.run(run_tool(asks, {}, {}))

    assert "`try_ask_form` needs a form, not a `Question`" in done.content
