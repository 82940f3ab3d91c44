"""A tool that uses `try_ask` continues without an answer and gets the reply: at once, from the
inbox, or after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import midturn as mt

WHEN = mt.Question.text("when", "When shall it go out?")


@mt.tool
async def plan(ctx: mt.ToolContext) -> str:
    """Plan the release."""
    match await ctx.try_ask(WHEN):
        case mt.Answer(value):
            return f"It goes out {value}."
        case mt.Unanswered("reply", reply):
            sure = await ctx.ask(mt.Question.boolean("wait", f"Wait, because of {reply!r}?"))
            return f"waits: {sure}"
        case mt.Unanswered(reason):
            return f"nobody said when: {reason}"


@mt.tool
def plan_in_a_thread(ctx: mt.ToolContext) -> str:
    """Plan the release."""
    return repr(ctx.try_ask_sync(WHEN))


class Person(mt.Prompter):
    """A user who replies with text when asked for a time."""

    def __init__(self, *replies: mt.Reply) -> None:
        self.replies = list(replies)

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        assert prompt.kind == "tool"
        return self.replies.pop(0)


def calling(name: str = "plan") -> mt.ScriptedModel:
    return mt.ScriptedModel([{"calls": [{"name": name}]}, {"text": "Done."}])


def tool_results(agent: mt.Agent, conversation: str) -> list[tuple[str, bool]]:
    return tool_results_in(agent.store.read_sync(conversation))


def tool_results_in(conversation: mt.Conversation) -> list[tuple[str, bool]]:
    return [
        (event.content, event.is_error)
        for event in conversation.events
        if isinstance(event, mt.events.ToolCallResponse)
    ]


def test_tool_gets_the_reply_and_asks_again() -> None:
    agent = mt.Agent(
        calling(),
        tools=[plan],
        prompter=Person(mt.Replied("Ask Ann first."), mt.Answered(value=True)),
    )
    result = agent.run_sync("Plan it.").raise_if_failed()

    assert tool_results(agent, result.conversation) == [("waits: True", False)]
    first, *_ = [
        e
        for e in agent.store.read_sync(result.conversation).events
        if isinstance(e, mt.events.InquiryCancelled)
    ]
    assert (first.reason, first.metadata) == ("reply", {"reply": "Ask Ann first."})


@pytest.mark.parametrize(("reply", "heard"), [("Later.", "'Later.'"), (None, "None")])
def test_reply_reaches_a_sync_tool_with_or_without_text(reply: str | None, heard: str) -> None:
    agent = mt.Agent(
        calling("plan_in_a_thread"), tools=[plan_in_a_thread], prompter=Person(mt.Replied(reply))
    )
    result = agent.run_sync("Plan it.")

    assert tool_results(agent, result.conversation) == [
        (f"Unanswered(reason='reply', reply={heard})", False)
    ]


def test_inbox_reply_reaches_the_tool_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "conversations"
    result = mt.Agent(calling(), tools=[plan], store=mt.open_store(path)).run_sync("Plan it.")
    conversation = result.conversation

    for answer in ({"reply": "Ask Ann first."}, {"value": False}):
        (question,) = mt.open_store(path).pending_sync()
        mt.open_store(path).answer_sync(question.id, **answer)  # type: ignore[arg-type]
        assert tool_results(mt.Agent(calling(), store=mt.open_store(path)), conversation) == []
        later = mt.Agent(calling(), tools=[plan], store=mt.open_store(path))
        result = later.resume_sync(conversation)
    assert result.status == "completed"
    assert tool_results(later, conversation) == [("waits: False", False)]


def test_a_reply_that_arrives_while_the_tool_runs_reaches_it() -> None:
    async def scene() -> None:
        inbox = mt.InboxPrompter()
        agent = mt.Agent(calling(), tools=[plan], prompter=inbox)
        async with agent.stream("Plan it.") as events:
            async for event in events:
                match event:
                    case mt.Asked(question) if question.question_id == "when":
                        await agent.store.answer(question.id, reply="Ask Ann first.")
                    case mt.Asked(question):
                        await agent.store.answer(question.id, True)
                    case _:
                        pass
        assert tool_results_in(await agent.store.read(events.conversation)) == [
            ("waits: True", False)
        ]

    asyncio.run(scene())


def test_concurrent_ask_still_ends_with_a_reply() -> None:
    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        return await ctx.ask(WHEN)

    agent = mt.Agent(calling("asks"), tools=[asks], prompter=Person(mt.Replied("Never.")))
    result = agent.run_sync("Ask.")

    assert tool_results(agent, result.conversation) == [
        ('{"cancelled": true, "answered": {}, "reply": "Never."}', False)
    ]


@pytest.mark.parametrize("at_once", [False, True])
def test_reply_keeps_earlier_answers(*, at_once: bool) -> None:
    """Tested at a prompt and in the inbox, where each answer resumes the turn in another
    process.
    """
    which = mt.Question.select("env", "Where?", ["staging", "production"])

    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        if at_once:
            return str(await asyncio.gather(ctx.ask(which), ctx.ask(WHEN)))
        return f"{await ctx.ask(which)} {await ctx.ask(WHEN)}"

    attached = mt.Agent(
        calling("asks"), tools=[asks], prompter=Person(mt.Answered("staging"), mt.Replied("Never."))
    )
    here = attached.run_sync("Ask.")
    store = mt.MemoryStore()
    result = mt.Agent(calling("asks"), tools=[asks], store=store).run_sync("Ask.")
    store.answer_sync(store.pending_sync()[0].id, "staging")
    if not at_once:
        mt.Agent(calling("asks"), tools=[asks], store=store).resume_sync(result.conversation)
    (question,) = store.pending_sync()
    store.answer_sync(question.id, reply="Never.")
    away = mt.Agent(calling("asks"), tools=[asks], store=store)
    away.resume_sync(result.conversation)

    marker = '{"cancelled": true, "answered": {"env": "staging"}, "reply": "Never."}'
    assert tool_results(attached, here.conversation) == [(marker, False)]
    assert tool_results(away, result.conversation) == [(marker, False)]


def test_inquirer_call_gets_the_reply(tmp_path: Path) -> None:
    async def planned(call: mt.InquirerCall) -> str:
        return repr(await call.try_ask(WHEN))

    async def scene(
        prompter: Callable[[], mt.Prompter] | None, store: mt.ConversationStore, conversation: str
    ) -> str:
        inquirer = mt.Inquirer(store, conversation, prompter=prompter() if prompter else None)
        async with inquirer.turn("Plan it."):
            return await inquirer.run("plan", "call_1", {}, planned)

    store = mt.open_store(tmp_path)
    said = asyncio.run(
        scene(lambda: Person(mt.Replied("Later.")), store, store.new_sync("At once"))
    )
    assert said == "Unanswered(reason='reply', reply='Later.')"

    conversation = store.new_sync("Over night")
    with pytest.raises(mt.Suspended):
        asyncio.run(scene(None, store, conversation))
    store.answer_sync(store.pending_sync()[0].id, reply="Tomorrow.")
    assert (
        asyncio.run(scene(None, store, conversation))
        == "Unanswered(reason='reply', reply='Tomorrow.')"
    )


def test_tool_that_continues_without_a_person_is_not_listed_as_refused() -> None:
    agent = mt.Agent(calling(), tools=[plan], detached="deny")
    result = agent.run_sync("Plan it.")

    assert (result.status, result.refused) == ("completed", ())
    assert tool_results(agent, result.conversation) == [
        ("nobody said when: detached_denied", False)
    ]


def test_tool_that_needs_a_person_is_listed_as_refused() -> None:
    @mt.tool
    async def strict(ctx: mt.ToolContext) -> str:
        """Plan only with somebody."""
        match await ctx.try_ask(WHEN):
            case mt.Answer(value):
                return value
            case mt.Unanswered(reason):
                raise mt.Rejected(f"Somebody has to say when ({reason}).")

    agent = mt.Agent(calling("strict"), tools=[strict], detached="deny")
    assert agent.run_sync("Plan it.").refused == ("strict",)
