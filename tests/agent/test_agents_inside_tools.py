"""An agent inside a tool: its questions are asked once, in the outer turn, and no call runs
twice.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

import midturn as mt
from midturn.errors import StoreError
from midturn.events.types import Child, InquiryRequest, TurnEnd, TurnStart
from midturn.exchange import ToolCallPart
from midturn.stores.store import ConversationStore
from support.nested_agents import SURE, NestedAgents, RepeatingModel, wait_for_turn_end
from support.people import Chat
from support.waiting import until


async def turn_statuses(store: ConversationStore) -> list[str]:
    """Return how the last turn of each conversation ended, oldest conversation first."""
    found = [(await store.read(conversation)).events for conversation in await store.ids()]
    return [events[-1].status if isinstance(events[-1], TurnEnd) else "open" for events in found]


async def first_open_question(store: ConversationStore) -> mt.OpenQuestion:
    """Wait for the first open question and return it."""
    async with aclosing(store.watch()) as changes:
        return await anext(change.question async for change in changes if change.question)


async def requests(store: ConversationStore) -> list[str]:
    """Return every question recorded in any conversation."""
    found = [(await store.read(conversation)).events for conversation in await store.ids()]
    return [
        event.question_id
        for events in found
        for event in events
        if isinstance(event, InquiryRequest)
    ]


def test_inner_question_suspends_the_outer_turn_and_is_asked_once(store: ConversationStore) -> None:
    async def once() -> None:
        company = NestedAgents(store, "anna")

        waiting = await company.agent.run("Go.")

        assert waiting.status == "suspended"
        (question,) = waiting.pending
        assert [asked.id for asked in await store.pending()] == [question.id]
        assert [asked.id for asked in await store.pending(waiting.conversation)] == [question.id]
        assert question.conversation != waiting.conversation
        assert await store.ready() == []

        receipt = await store.answer(question.id, True)

        assert not receipt.held
        assert await store.ready() == [waiting.conversation]
        done = await company.agent.resume(waiting.conversation)
        assert (done.status, done.text) == ("completed", "anna worked")
        assert await requests(store) == ["sure"]
        assert (len(company.ran), company.worker.times, company.boss.times) == (1, 2, 2)
        assert await turn_statuses(store) == ["completed", "completed"]
        assert await store.pending() == []

    asyncio.run(once())


@pytest.mark.parametrize("name", ["add", "open", "look"])
def test_store_failure_in_the_inner_turn_keeps_the_outer_turn_open(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The failure is not recorded as the tool's result, so both turns continue when the store is
    back.
    """

    async def once() -> None:
        company = NestedAgents(store, "anna", "bert")
        works = getattr(store.port, name)
        times = 0

        async def away(*given: object, **named: object) -> object:
            nonlocal times
            times += 1
            if company.ran or company.boss.times:
                raise StoreError("The store is away.")
            return await works(*given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(store.port, name, away)
            with pytest.raises(StoreError, match=r"The store is away\."):
                await company.agent.run("Go.")
        assert times

        (around,) = await store.open_turns()
        waiting = await company.agent.resume(around)
        assert waiting.status == "suspended"
        for question in waiting.pending:
            await store.answer(question.id, True)
        done = await company.agent.resume(around)
        assert (done.status, done.text) == ("completed", "anna worked bert worked")
        assert await requests(store) == ["sure", "sure"]

    asyncio.run(once())


def test_outer_and_inner_turn_record_each_others_ids(store: ConversationStore) -> None:
    async def once() -> None:
        waiting = await NestedAgents(store, "anna").agent.run("Go.")
        around = (await store.read(waiting.conversation)).events
        inside = (await store.read(waiting.pending[0].conversation)).events
        (named, left) = (event for event in around if isinstance(event, Child))

        assert (named.state, left.state, left.of) == ("running", "waiting", named.event_id)
        assert named.timestamp < inside[0].timestamp
        start = inside[0]
        assert isinstance(start, TurnStart)
        assert start.parent is not None
        assert (start.parent.child, start.parent.call, start.parent.root) == (
            named.event_id,
            named.call,
            waiting.conversation,
        )

    asyncio.run(once())


@pytest.mark.parametrize("deep", [False, True])
def test_questions_of_several_inner_agents_are_asked_once_in_any_order(
    store: ConversationStore, *, deep: bool
) -> None:
    async def once() -> None:
        company = NestedAgents(store, "anna", "bert", "carl", deep=deep)
        result = await company.agent.run("Go.")
        asked = [question.id for question in result.pending]
        assert len(set(asked)) == 3

        for id in reversed(asked):
            assert await store.ready() == []
            await store.answer(id, True)
            assert await store.ready() == [result.conversation]
            result = await company.agent.resume(
                id.partition("-")[0]
            )  # resuming the inner turn resumes the outer one

        said = "anna worked bert worked carl worked"
        assert (result.status, result.text) == ("completed", f"foreman: {said}" if deep else said)
        assert await requests(store) == ["sure"] * 3
        assert len(set(company.ran)) == len(company.ran) == 3
        assert company.worker.times == 6
        assert set(await turn_statuses(store)) == {"completed"}

    asyncio.run(once())


def test_answer_reaches_one_inner_agent_while_another_works(store: ConversationStore) -> None:
    async def once() -> None:
        free = asyncio.Event()
        worker = RepeatingModel(ToolCallPart("call_1", "work", {}))
        seen = list[bool]()

        @mt.tool
        async def work(ctx: mt.ToolContext) -> str:
            """Ask."""
            seen.append(await ctx.ask(SURE))
            return "worked"

        @mt.tool
        async def manage() -> str:
            """Have one ask, while something else goes on."""
            await asyncio.gather(
                mt.Agent(worker.model, tools=[work]).run("anna"),
                mt.Agent(slow.model, tools=[wait]).run("bert"),
            )
            return "managed"

        @mt.tool
        async def wait() -> str:
            """Wait."""
            await free.wait()
            return "waited"

        slow = RepeatingModel(ToolCallPart("call_1", "wait", {}))
        agent = mt.Agent(
            RepeatingModel(ToolCallPart("call_1", "manage", {})).model, tools=[manage], store=store
        )
        running = asyncio.create_task(agent.run("Go."))
        assert (await store.answer((await first_open_question(store)).id, True)).held
        await until(lambda: bool(seen))
        free.set()
        assert (await running).status == "completed"

    asyncio.run(once())


def test_inner_agent_uses_the_outer_prompter_one_prompt_at_a_time(store: ConversationStore) -> None:
    async def once() -> None:
        company = NestedAgents(store, "anna", "bert", deep=True)
        open_now, most = 0, 0

        class Person(mt.Prompter):
            async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
                nonlocal open_now, most
                assert prompt.question.id == "sure"
                open_now += 1
                most = max(most, open_now)
                await asyncio.sleep(0)
                open_now -= 1
                return mt.Answered(True)

        result = await company.agent.run("Go.", prompter=Person())

        assert (result.status, result.text) == ("completed", "foreman: anna worked bert worked")
        assert most == 1

    asyncio.run(once())


def test_inner_agent_inherits_the_detached_policy(store: ConversationStore) -> None:
    async def once() -> None:
        @mt.tool
        async def work(ctx: mt.ToolContext) -> str:
            """Ask."""
            return f"got {await ctx.ask(mt.Question.boolean('sure', 'Sure?', default=True))}"

        @mt.tool
        async def manage(own: str) -> str:
            """Have somebody work."""
            policy: mt.DetachedPolicy | None = "deny" if own else None
            agent = mt.Agent(
                RepeatingModel(ToolCallPart("call_1", "work", {})).model,
                tools=[work],
                detached=policy,
            )
            return (await agent.run("Work.")).text

        for own, expected in (("", "got True"), ("deny", "no interactive terminal")):
            boss = RepeatingModel(ToolCallPart("call_1", "manage", {"own": own}))
            result = await mt.Agent(
                boss.model, tools=[manage], detached="defaults", store=store
            ).run("Go.")
            assert expected in result.text

    asyncio.run(once())


@pytest.mark.parametrize("deep", [False, True])
def test_ending_an_inner_turn_ends_all_turns_around_it(
    store: ConversationStore, *, deep: bool
) -> None:
    async def once() -> None:
        class Leaving(mt.Prompter):
            async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
                assert prompt.question.id == "sure"
                return mt.EndedTurn()

        there = await NestedAgents(store, "anna", "bert", deep=deep).agent.run(
            "Go.", prompter=Leaving()
        )
        assert there.status == "ended_by_user"

        away = await NestedAgents(store, "anna", "bert", deep=deep).agent.run("Go.")
        await store.answer(away.pending[1].id, cancel=True)

        assert set(await turn_statuses(store)) == {"ended_by_user"}
        assert await store.pending() == await store.ready() == []

    asyncio.run(once())


def test_tool_that_abandons_its_inner_agent_closes_its_questions(store: ConversationStore) -> None:
    async def once() -> None:
        worker, chat = RepeatingModel(ToolCallPart("call_1", "work", {})), Chat()

        @mt.tool
        async def work(ctx: mt.ToolContext) -> str:
            """Ask."""
            return str(await ctx.ask(SURE))

        @mt.tool
        async def manage() -> str:
            """Give up as soon as something was asked."""
            running = asyncio.create_task(mt.Agent(worker.model, tools=[work]).run("anna"))
            await until(lambda: bool(chat.prompts))
            running.cancel()
            return "gave up"

        agent = mt.Agent(
            RepeatingModel(ToolCallPart("call_1", "manage", {})).model,
            tools=[manage],
            store=store,
            prompter=chat,
        )
        result = await agent.run("Go.")

        assert (result.status, result.text) == ("completed", "gave up")
        assert await store.pending() == []
        assert await turn_statuses(store) == ["completed", "failed"]

    asyncio.run(once())


def test_inner_agent_with_its_own_store_cannot_wait(store: ConversationStore) -> None:
    async def once() -> None:
        elsewhere = mt.MemoryStore()

        @mt.tool
        async def work(ctx: mt.ToolContext) -> str:
            """Ask."""
            return str(await ctx.ask(SURE))

        @mt.tool
        async def manage() -> str:
            """Have somebody work."""
            return (
                await mt.Agent(
                    RepeatingModel(ToolCallPart("call_1", "work", {})).model,
                    tools=[work],
                    store=elsewhere,
                ).run("Work.")
            ).text

        result = await mt.Agent(
            RepeatingModel(ToolCallPart("call_1", "manage", {})).model, tools=[manage], store=store
        ).run("Go.")

        assert result.status == "completed"
        assert "waits for answers to 1 question(s) in a store of its own" in result.text

    asyncio.run(once())


def test_worker_resumes_outer_turns_only(store: ConversationStore) -> None:
    async def once() -> None:
        company = NestedAgents(store, "anna", "bert", deep=True)
        waiting = await company.agent.run("Go.")
        working = asyncio.create_task(company.agent.work())
        for question in waiting.pending:
            await store.answer(question.id, True)
        await wait_for_turn_end(store, waiting.conversation)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

        assert set(await turn_statuses(store)) == {"completed"}
        assert await requests(store) == ["sure"] * 2
        assert len(company.ran) == 2

    asyncio.run(once())


def test_removing_a_conversation_removes_related_conversations(store: ConversationStore) -> None:
    async def once() -> None:
        waiting = await NestedAgents(store, "anna", "bert", deep=True).agent.run("Go.")
        other = (
            await mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), store=store).run("Another one.")
        ).conversation

        await store.remove(waiting.pending[0].conversation)

        assert await store.ids() == [other]

    asyncio.run(once())


def test_inner_agents_nest_four_deep_at_most(store: ConversationStore) -> None:
    async def once() -> None:
        reached = list[int]()

        def agent(depth: int) -> mt.Agent:
            @mt.tool
            async def dig() -> str:
                """Dig."""
                reached.append(depth)
                return (await agent(depth + 1).run("Dig.")).text

            return mt.Agent(
                RepeatingModel(ToolCallPart("call_1", "dig", {})).model,
                tools=[dig],
                store=store if depth == 0 else None,
            )

        result = await agent(0).run("Dig.")

        assert reached == [0, 1, 2, 3, 4]
        assert "at most 4" in result.text

    asyncio.run(once())


def test_inner_agents_share_the_limits(store: ConversationStore) -> None:
    async def once() -> None:
        company = NestedAgents(store, "anna", deep=True)
        agent = mt.Agent(company.boss.model, tools=company.tools, store=store, limits={"cycles": 4})
        waiting = await agent.run("Go.")
        await store.answer(waiting.pending[0].id, True)
        result = await agent.resume(waiting.conversation)

        assert (result.status, result.error) == (
            "failed",
            "stopped after 4 model calls; raise limits.cycles to allow more",
        )
        assert company.worker.times + company.foreman.times + company.boss.times == 4

    asyncio.run(once())


def test_synchronous_tool_runs_an_inner_agent(store: ConversationStore) -> None:
    worker, ran = RepeatingModel(ToolCallPart("call_1", "work", {})), list[bool]()

    @mt.tool
    def work(ctx: mt.ToolContext) -> str:
        """Ask."""
        ran.append(ctx.ask_sync(SURE))
        return "worked"

    @mt.tool
    def manage() -> str:
        """Have somebody work."""
        return mt.Agent(worker.model, tools=[work]).run_sync("Work.").text

    agent = mt.Agent(
        RepeatingModel(ToolCallPart("call_1", "manage", {})).model, tools=[manage], store=store
    )
    waiting = agent.run_sync("Go.")
    store.answer_sync(waiting.pending[0].id, True)

    assert agent.resume_sync(waiting.conversation).text == "worked"
    assert (ran, worker.times) == ([True], 2)


def test_prompter_answers_the_inner_question(store: ConversationStore) -> None:
    async def once() -> None:
        chat = Chat()
        running = asyncio.create_task(NestedAgents(store, "anna").agent.run("Go.", prompter=chat))
        await until(lambda: bool(chat.prompts))
        (asked,) = await store.pending()
        await store.answer(asked.id, True)
        assert (await running).status == "completed"

    asyncio.run(once())
