"""Edits of calls through the library.

The rules, including those of the program, are applied to the edited call.
"""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.events.types import AnsweredBy
from midturn.inbox.answering_session import StoredVisit
from midturn.stores.memory_conversations import MemoryStore

OPS = mt.People(ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo"]})


def agent_that_calls(env: str, ran: list[str], store: MemoryStore) -> mt.Agent:
    """Return an agent whose rule requires two of `ops` for production and anyone for everything
    else.
    """

    def rule(arguments: dict[str, object], context: object) -> object:
        del context
        return OPS if arguments.get("env") == "production" else "ask"

    @mt.tool(run=rule)  # type: ignore[arg-type, call-overload]
    async def deploy(env: str) -> str:
        """Deploy."""
        ran.append(env)
        return f"deployed {env}"

    model = mt.ScriptedModel(
        [{"calls": [{"name": "deploy", "arguments": {"env": env}}]}, {"text": "done"}]
    )
    return mt.Agent(model, tools=[deploy], store=store)


def test_edit_is_checked_by_the_rules_for_the_edited_call() -> None:
    async def play() -> None:
        ran: list[str] = []
        store = MemoryStore()
        agent = agent_that_calls("staging", ran, store)
        (asked,) = (await agent.run("go")).pending
        receipt = await store.answer(asked.id, arguments={"env": "production"}, user="dora")
        assert receipt.proposed
        assert receipt.to_json()["proposed"] is True
        result = await agent.resume(asked.conversation)
        assert (result.status, ran) == ("suspended", [])
        (proposed,) = result.pending
        assert proposed.arguments == {"env": "production"}
        assert proposed.whose is not None
        assert proposed.whose.ask == ("ops",)
        with pytest.raises(mt.NotAllowed):
            await store.answer(proposed.id, approve=True, user="dora", digest=proposed.digest)
        with pytest.raises(mt.DigestMismatch):
            await store.answer(proposed.id, approve=True, user="ana", digest=asked.digest)
        with pytest.raises(mt.DigestMismatch):
            await store.answer(proposed.id, approve=True, user="ana")
        for user in ("ana", "bo"):
            await store.answer(proposed.id, approve=True, user=user, digest=proposed.digest)
        assert (await agent.resume(asked.conversation)).status == "completed"
        assert ran == ["production"]

    asyncio.run(play())


def test_permitted_edit_runs_when_the_turn_resumes() -> None:
    async def play() -> None:
        ran: list[str] = []
        store = MemoryStore()
        agent = agent_that_calls("staging", ran, store)
        (asked,) = (await agent.run("go")).pending
        await store.answer(asked.id, arguments={"env": "test"}, user="dora")
        assert (await agent.resume(asked.conversation)).status == "completed"
        assert ran == ["test"]

    asyncio.run(play())


def test_may_answer_gets_the_edited_call() -> None:
    async def play() -> None:
        seen: list[object] = []

        def may_answer(question: mt.OpenQuestion, user: str | None) -> bool:
            seen.append(question.arguments)
            return question.arguments != {"env": "production"} or user == "ana"

        ran: list[str] = []
        store = MemoryStore()
        (asked,) = (await agent_that_calls("staging", ran, store).run("go")).pending
        with pytest.raises(mt.NotAllowed):
            await store.with_authorizer(may_answer).answer(
                asked.id, arguments={"env": "production"}, user="dora"
            )
        assert seen == [{"env": "production"}]

    asyncio.run(play())


def test_decision_on_an_edited_call_is_refused_as_outdated() -> None:
    async def play() -> None:
        store = MemoryStore()
        (asked,) = (await agent_that_calls("production", [], store).run("go")).pending
        turn = (await store.read(asked.conversation)).events
        visit = StoredVisit(store, asked, turn, AnsweredBy("user", via="web", user="bo"))
        shown = visit.prompt()
        await store.answer(asked.id, arguments={"env": "production-eu"}, user="ana")
        with pytest.raises((mt.DigestMismatch, mt.AnswerError)) as refused:
            await visit.take(mt.Answered(True))
        assert "is closed" not in str(refused.value)
        assert shown is not None

    asyncio.run(play())
