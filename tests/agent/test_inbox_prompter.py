"""A program that waits while somebody answers through the inbox."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.agents import CONFIRM, calling, careful, tool_results
from support.waiting import until


def test_run_waits_for_an_inbox_answer_and_continues_at_once(store: ConversationStore) -> None:
    async def scene() -> None:
        announced: list[mt.Prompt] = []
        heard: list[tuple[str, str]] = []

        def withdrawn(id: str, by: str) -> None:
            heard.append((id, by))

        prompter = mt.InboxPrompter(announced.append, withdrawn)
        agent = mt.Agent(calling("careful"), tools=[careful], prompter=prompter, store=store)
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: announced)
        await agent.store.answer(announced[0].id, True, user="ada")
        assert (await run).status == "completed"
        assert tool_results(store, (await store.ids())[0]) == ["went ahead"]
        assert heard == [(announced[0].id, "ada")]

    asyncio.run(scene())


def test_slow_or_failing_announcement_does_not_harm_the_run(store: ConversationStore) -> None:
    async def post(prompt: mt.Prompt) -> None:
        await asyncio.sleep(0.01)
        raise ConnectionError(f"no chat for {prompt.tool}")

    agent = mt.Agent(
        calling("careful"), tools=[careful], prompter=mt.InboxPrompter(post), store=store
    )
    result = agent.run_sync("Ask")
    assert tool_results(store, result.conversation) == [
        'careful: the prompt for "Sure?" failed: no chat for careful.'
    ]


def test_question_that_an_inbox_cannot_answer_is_suspended() -> None:
    """A secret or a permission waits for a terminal, so the turn is suspended."""

    @mt.tool
    async def login(ctx: mt.ToolContext) -> str:
        """Log in."""
        return (await ctx.ask(mt.Question.secret("token", "The token?"))).reveal()

    @mt.tool(run="ask")
    async def format_disk() -> str:
        """Format it."""
        return "formatted"

    for tool, kind in ((login, "tool"), (format_disk, "run")):
        result = mt.Agent(calling(tool.name), tools=[tool], prompter=mt.InboxPrompter()).run_sync(
            "Do it"
        )
        assert (result.status, [question.kind for question in result.pending]) == (
            "suspended",
            [kind],
        )


def test_second_answer_is_told_who_was_first(store: ConversationStore) -> None:
    @mt.tool
    async def slow(ctx: mt.ToolContext) -> str:
        """Ask, and take a while."""
        await ctx.ask(CONFIRM)
        await ctx.ask(mt.Question.text("next", "And then?"))
        return "done"

    async def scene() -> None:
        agent = mt.Agent(calling("slow"), tools=[slow], prompter=mt.InboxPrompter(), store=store)
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: drive(agent.store.pending()))
        first = (await agent.store.pending())[0].id
        await agent.store.answer(first, True, user="ada")
        with pytest.raises(mt.AlreadyAnswered) as raised:
            await agent.store.answer(first, False, user="bob")
        assert "ada" in raised.value.by
        await until(lambda: drive(agent.store.pending()))
        await agent.store.answer((await agent.store.pending())[0].id, cancel=True)
        assert (await run).status == "ended_by_user"

    asyncio.run(scene())


def test_form_is_answered_partly_and_the_rest_stays_open(store: ConversationStore) -> None:
    first, second, third = (mt.Question.text(id, f"{id}?") for id in ("first", "second", "third"))

    @mt.tool
    async def form(ctx: mt.ToolContext) -> str:
        """Ask three questions."""
        answers = await ctx.ask_form(mt.Form([first, second, third], review=True))
        return " ".join(answers[question] for question in (first, second, third))

    async def scene() -> None:
        announced: list[mt.Prompt] = []
        agent = mt.Agent(
            calling("form"), tools=[form], prompter=mt.InboxPrompter(announced.append), store=store
        )
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: len(announced) == 1)
        with pytest.raises(mt.AnswerError) as raised:
            await agent.store.answer(announced[0].id, {"first": 1, "fourth": "?"})
        assert [problem.pointer for problem in raised.value.problems] == ["/fourth", "/first"]
        await agent.store.answer(announced[0].id, {"first": "1", "second": "2"})
        await until(lambda: len(announced) == 2)
        assert announced[1].question.id == "third"
        await agent.store.answer(announced[1].id, {"third": "3"})
        result = await run
        assert (result.status, tool_results(store, result.conversation)) == ("completed", ["1 2 3"])

    asyncio.run(scene())
