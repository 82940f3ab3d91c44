"""Prompters that programs write themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import midturn as mt
from midturn.events.types import InquiryAnswered, InquiryCancelled
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.agents import CONFIRM, calling, careful, tool_results
from support.people import Chat
from support.waiting import until


@mt.tool
async def region(ctx: mt.ToolContext) -> str:
    """Ask where."""
    return await ctx.ask(mt.Question.text("where", "Where?"))


def test_a_concurrent_prompter_has_all_prompts_at_once_and_answers_in_any_order(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        chat = Chat()
        agent = mt.Agent(
            calling("careful", "region"), tools=[careful, region], prompter=chat, store=store
        )
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: len(chat.waiting) == 2)
        chat.says("where", mt.Answered("here"))
        await until(lambda: len(tool_results(store, drive(store.ids())[0])) == 1)
        assert set(chat.waiting) == {"confirm"}
        chat.says("confirm", mt.Answered(value=True))
        result = await run
        assert sorted(tool_results(store, result.conversation)) == ["here", "went ahead"]
        answers = [
            e
            for e in (await store.read(result.conversation)).events
            if isinstance(e, InquiryAnswered)
        ]
        assert [(e.answered_by.by, e.answered_by.via) for e in answers if e.answered_by] == [
            ("user", "web")
        ] * 2

    asyncio.run(scene())


def test_concurrent_prompter_gets_all_questions_of_one_coroutine(store: ConversationStore) -> None:
    @mt.tool
    async def both(ctx: mt.ToolContext) -> str:
        """Ask twice at once."""
        async with asyncio.TaskGroup() as group:
            first, second = (
                group.create_task(ctx.ask(mt.Question.text(id, f"{id}?"))) for id in ("a", "b")
            )
        return first.result() + second.result()

    async def scene() -> None:
        chat = Chat()
        run = asyncio.create_task(
            mt.Agent(calling("both"), tools=[both], prompter=chat, store=store).run("Ask")
        )
        await until(lambda: len(chat.waiting) == 2)
        chat.says("b", mt.Answered("y"))
        chat.says("a", mt.Answered("x"))
        assert tool_results(store, (await run).conversation) == ["xy"]

    asyncio.run(scene())


def test_a_prompter_that_is_not_concurrent_has_one_prompt_at_a_time(
    store: ConversationStore,
) -> None:
    class OneByOne(Chat):
        concurrent = False

    async def scene() -> None:
        chat = OneByOne()
        run = asyncio.create_task(
            mt.Agent(
                calling("careful", "region"), tools=[careful, region], prompter=chat, store=store
            ).run("Ask")
        )
        await until(lambda: chat.waiting)
        await asyncio.sleep(0.02)
        assert [prompt.question.id for prompt in chat.prompts] == ["confirm"]
        chat.says("confirm", mt.Answered(value=True))
        await until(lambda: "where" in chat.waiting)
        chat.says("where", mt.Answered("here"))
        assert (await run).status == "completed"

    asyncio.run(scene())


def test_a_prompt_says_who_asks_what_in_which_call(store: ConversationStore) -> None:
    async def scene() -> None:
        chat = Chat()
        agent = mt.Agent(calling("careful"), tools=[careful], prompter=chat, store=store)
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: chat.waiting)
        (prompt,) = chat.prompts
        (waiting,) = await agent.store.pending()
        assert (prompt.id, prompt.conversation, prompt.tool, prompt.arguments) == (
            waiting.id,
            waiting.conversation,
            "careful",
            {},
        )
        assert (prompt.kind, prompt.asked_by, prompt.may_remember) == ("tool", "careful", True)
        chat.says("confirm", mt.Answered(value=False))
        await run

    asyncio.run(scene())


def test_answer_from_elsewhere_closes_the_prompt_and_names_the_responder(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        chat = Chat()
        agent = mt.Agent(calling("careful"), tools=[careful], prompter=chat, store=store)
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: chat.waiting)
        (waiting,) = await agent.store.pending()
        await agent.store.answer(waiting.id, True, user="ada")
        result = await run
        assert (chat.taken_away, chat.heard) == (["confirm"], [(waiting.id, "ada")])
        assert tool_results(store, result.conversation) == ["went ahead"]

    asyncio.run(scene())


def test_withdrawn_may_be_a_coroutine_which_the_run_waits_for() -> None:
    class Slow(Chat):
        async def withdrawn(self, id: str, by: str) -> None:  # type: ignore[override]  # a prompter may have either
            await asyncio.sleep(0.05)
            self.heard.append((id, by))

    async def scene() -> None:
        chat = Slow()
        agent = mt.Agent(calling("careful"), tools=[careful], prompter=chat)
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: chat.waiting)
        (waiting,) = await agent.store.pending()
        await agent.store.answer(waiting.id, True, user="ada")
        assert (await run).status == "completed"
        assert chat.heard == [(waiting.id, "ada")]

    asyncio.run(scene())


def test_withdrawn_is_not_called_without_another_answer() -> None:
    """When a turn is over, a prompt that closes is only cancelled."""

    async def scene() -> None:
        chat = Chat()
        run = asyncio.create_task(
            mt.Agent(calling("careful", "region"), tools=[careful, region], prompter=chat).run(
                "Ask"
            )
        )
        await until(lambda: len(chat.waiting) == 2)
        chat.says("where", mt.EndedTurn())
        assert (await run).status == "ended_by_user"
        assert (chat.taken_away, chat.heard) == (["confirm"], [])

    asyncio.run(scene())


def test_failing_withdrawn_does_not_harm_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    class FailingWithdrawn(Chat):
        def withdrawn(self, id: str, by: str) -> None:
            raise OSError(f"the line is dead: {id} {by}")

    async def scene() -> None:
        chat = FailingWithdrawn()
        agent = mt.Agent(calling("careful"), tools=[careful], prompter=chat)
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: chat.waiting)
        await agent.store.answer((await agent.store.pending())[0].id, True, user="ada")
        assert (await run).status == "completed"

    asyncio.run(scene())
    assert "the line is dead" in caplog.text


class Raises(mt.Prompter):
    """A prompter that raises."""

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        raise OSError(f"no line to {prompt.asked_by}")


class CancelsItself(mt.Prompter):
    """A prompter that cancels itself, for example after its own timeout."""

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        raise asyncio.CancelledError(prompt.id)


class ReturnsAValue(mt.Prompter):
    """A prompter that returns a value instead of an `Answered`."""

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        return bool(prompt.id)  # type: ignore[return-value]  # that is the point


class IsNotAsync:
    """A prompter whose method is not async."""

    def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        return mt.Answered(bool(prompt.id))


class NeverFits(mt.Prompter):
    """A prompter whose answers never have the right type."""

    def __init__(self) -> None:
        self.errors: list[str | None] = []

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        self.errors.append(prompt.error)
        return mt.Answered("perhaps")


@pytest.mark.parametrize(
    ("prompter", "says"),
    [
        (Raises, "no line to careful"),
        (CancelsItself, "it cancelled itself"),
        (
            ReturnsAValue,
            (
                "`prompt` returned a `bool`; return a reply, such as `Answered(value)` or"
                " `EndedTurn()`"
            ),
        ),
        (
            IsNotAsync,
            "`prompt` returned a `Answered` at once; write it as `async def prompt(self, prompt)`",
        ),
    ],
)
def test_failing_prompter_fails_the_call_only(
    prompter: Callable[[], mt.Prompter], says: str
) -> None:
    agent = mt.Agent(calling("careful"), tools=[careful], prompter=prompter())
    result = agent.run_sync("Ask")
    assert (result.status, result.text) == ("completed", "Done.")
    assert tool_results(agent.store, result.conversation) == [
        f'careful: the prompt for "Sure?" failed: {says}.'
    ]
    cancelled = [
        e.reason
        for e in agent.store.read_sync(result.conversation).events
        if isinstance(e, InquiryCancelled)
    ]
    assert cancelled == ["backend_error"]


def test_a_reply_that_does_not_fit_is_asked_for_three_times() -> None:
    prompter = NeverFits()
    agent = mt.Agent(calling("careful"), tools=[careful], prompter=prompter)
    result = agent.run_sync("Ask")
    assert result.status == "completed"
    assert prompter.errors[0] is None
    assert len(prompter.errors) == 3
    assert prompter.errors[1:] == ['the answer must be true or false, not "perhaps".'] * 2
    assert tool_results(agent.store, result.conversation)[0].startswith(
        'careful: the prompt for "Sure?" failed:'
    )


def test_unavailable_prompter_counts_as_detached(store: ConversationStore) -> None:
    gone = mt.ScriptedPrompter(unscripted="unavailable")
    result = mt.Agent(calling("careful"), tools=[careful], prompter=gone, store=store).run_sync(
        "Ask"
    )
    assert (result.status, len(result.pending)) == ("suspended", 1)

    denied = mt.Agent(calling("careful"), tools=[careful], prompter=gone, detached="deny").run_sync(
        "Ask"
    )
    assert (denied.status, denied.refused) == ("completed", ("careful",))


def test_a_person_may_reply_or_end_the_turn() -> None:
    for reply, status, content in [
        (
            mt.Replied("Ask Bob."),
            "completed",
            '{"cancelled": true, "answered": {}, "reply": "Ask Bob."}',
        ),
        (mt.EndedTurn(), "ended_by_user", "Tool input cancelled by user."),
    ]:
        agent = mt.Agent(
            calling("careful"),
            tools=[careful],
            prompter=mt.ScriptedPrompter({"careful.confirm": reply}),
        )
        result = agent.run_sync("Ask")
        assert result.status == status
        assert tool_results(agent.store, result.conversation) == [content]


def test_remembered_answer_is_used_for_the_next_call() -> None:
    again = mt.ScriptedModel([{"calls": [{"name": "careful"}]}] * 3 + [{"text": "Done."}])
    person = mt.ScriptedPrompter({"careful.confirm": mt.Answered(value=True, remember=True)})
    agent = mt.Agent(again, tools=[careful], prompter=person)
    result = agent.run_sync("Ask")
    assert tool_results(agent.store, result.conversation) == ["went ahead"] * 3
    assert len(person.prompts) == 1


def test_routes_select_the_responder(store: ConversationStore) -> None:
    """A route is a name, a `Target` or a table. `*` matches every question of a tool."""
    inquiries = [
        {"tool": "*", "question": "*", "answers": [{"reason": "It is late.", "answer": False}]}
    ]
    replies = [{"calls": [{"name": "careful"}]}, {"text": "Done."}]
    routes: list[mt.Target | dict[str, object] | str] = [
        "assistant",
        mt.Target("assistant"),
        {"model": {"id": "inherit"}},
        {},
    ]
    for to in routes:
        agent = mt.Agent(
            mt.ScriptedModel(replies, inquiries),
            tools=[careful],
            routes={"careful.*": to},  # type: ignore[dict-item]  # a list of all forms
            store=store,
        )
        result = agent.run_sync("Ask")
        response = next(
            e for e in store.read_sync(result.conversation).events if isinstance(e, InquiryAnswered)
        )
        assert (response.answer, response.reason) == (False, "It is late.")

    for escalates in (
        "assistant_with_escalation",
        {"escalation": True},
        mt.Target("assistant_with_escalation"),
    ):
        person = mt.ScriptedPrompter({"careful.confirm": True})
        routed = {"careful.confirm": escalates}
        agent = mt.Agent(
            mt.ScriptedModel(replies, inquiries),
            tools=[careful],
            routes=routed,  # type: ignore[arg-type]  # as above
            store=store,
            prompter=person,
        )
        assert tool_results(store, agent.run_sync("Ask").conversation) == ["went ahead"]
        assert "It is late." in (person.prompts[0].question.context or "")
    assert CONFIRM.context is None


class _RepliesInOrder(mt.Prompter):
    """Returns these replies in order."""

    def __init__(self, *replies: mt.Reply) -> None:
        self._replies = iter(replies)

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        del prompt
        return next(self._replies)


@mt.tool
async def two_things(ctx: mt.ToolContext[None]) -> str:
    """Ask two things."""
    return repr(
        await ctx.ask_form(
            mt.Form(
                [mt.Question.boolean("yes", "Yes?"), mt.Question.text("why", "Why?")], review=True
            )
        )
    )


def test_answer_kept_after_back_keeps_its_reason() -> None:
    model = mt.ScriptedModel([{"calls": [{"name": "two_things"}]}, {"text": "Done."}])
    goes = _RepliesInOrder(
        mt.Answered(False, reason="Not today."),
        mt.Answered("x"),
        mt.WentBack(),
        mt.WentBack(),
        mt.Replied("Stop."),
    )
    agent = mt.Agent(model, tools=[two_things], prompter=goes)

    conversation = agent.run_sync("Go.").conversation

    (read,) = (
        e.content
        for e in agent.store.read_sync(conversation).events
        if isinstance(e, mt.events.ToolCallResponse)
    )
    assert read.splitlines() == [
        '{"cancelled": true, "answered": {"yes": false, "why": "x"}, "reply": "Stop."}',
        'The user added: "Not today."',
    ]
