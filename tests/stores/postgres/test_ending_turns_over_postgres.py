"""Turns ended from outside, and changes of the configured people, over PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.errors import NotAllowed
from midturn.events.types import AnsweredBy, TurnEnd
from midturn.question.people import Directory, Person
from midturn.stores.opening import open_store

pytestmark = pytest.mark.real("PostgreSQL")
OPS = mt.People(
    ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo"]}, logins={"ana": ["a.smith"]}
)


@mt.tool(run=lambda _arguments, _context: OPS)
async def deploy(env: str) -> str:
    """Deploy."""
    return env


@mt.tool
async def hello(ctx: mt.ToolContext) -> str:
    """Say hello."""
    return str(await ctx.ask(mt.Question.boolean("x", "Say hello?")))


def test_turn_without_questions_for_others_ends_from_outside(url: str) -> None:
    async def scene() -> None:
        store = open_store(url)
        both = [{"name": "hello"}, {"name": "deploy", "arguments": {"env": "production"}}]
        model = mt.ScriptedModel([{"calls": both}, {"text": "done"}])
        result = await mt.Agent(model, tools=[deploy, hello], store=store).run("go")
        asked = {question.tool: question for question in result.pending}
        for refused in (
            store.answer(asked["hello"].id, cancel=True, user="mallory"),
            store.end(result.conversation, user="mallory"),
            store.remove(result.conversation, user="mallory"),
        ):
            with pytest.raises(NotAllowed, match="mallory may not answer this"):
                await refused
        with pytest.raises(NotAllowed, match="does not belong to your user"):
            await store.end(result.conversation, as_owner=True)
        async with await store.open(result.conversation):
            assert (
                await asyncio.create_task(store.end(result.conversation, user="a.smith", via="web"))
                is True
            )
        end = (await store.read(result.conversation)).events[-1]
        assert isinstance(end, TurnEnd)
        assert end.ended_by is not None
        assert end.ended_by.user == "a.smith"
        await store.remove(result.conversation)
        assert await store.ids() == []

    asyncio.run(scene())


def test_running_process_ends_its_turn(url: str) -> None:
    async def scene() -> None:
        store, began = open_store(url), asyncio.Event()

        @mt.tool
        async def work() -> str:
            """Work for long."""
            began.set()
            await asyncio.sleep(60)
            return "done"

        agent = mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": "work"}]}, {"text": "done"}]),
            tools=[work],
            store=store,
        )
        running = asyncio.create_task(agent.run("go"))
        await began.wait()
        (conversation,) = await store.open_turns()
        assert await open_store(url).end(conversation, user="planner", answered_by="agent") is True
        assert (await running).status == "ended_by_user"
        end = (await store.read(conversation)).events[-1]
        assert isinstance(end, TurnEnd)
        assert end.ended_by == AnsweredBy("agent", via="api", user="planner")

    asyncio.run(scene())


def test_one_person_is_one_voter_while_configured(url: str) -> None:
    now = [Directory({"ana": Person(logins=("a.smith",)), "bo": Person()}, {"ops": ("ana", "bo")})]

    async def scene() -> None:
        store = open_store(url)
        model = mt.ScriptedModel(
            [{"calls": [{"name": "deploy", "arguments": {"env": "production"}}]}, {"text": "done"}]
        )
        (question,) = (await mt.Agent(model, tools=[deploy], store=store).run("go")).pending
        served = store.with_people(lambda: now[0])
        first = await served.answer(
            question.id, approve=True, user="A.Smith", via="web", digest=question.digest
        )
        assert first.votes == "1 of 2"
        for user in ("ana", "ANA", "a.smith"):
            with pytest.raises(NotAllowed, match="ana has said yes already"):
                await served.answer(question.id, approve=True, user=user, digest=question.digest)
        await served.answer(question.id, approve=True, user="bo", digest=question.digest)
        assert await store.pending() == []

    asyncio.run(scene())
