"""`may_answer` decides last. A question whose answer it refuses stays open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import midturn as mt
from midturn.events.types import InquiryAnswered
from midturn.stores.queued_answer import QueuedAnswer, SubmittedAnswer
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.agents import calling, careful, tool_results
from support.processes import Forked, output
from support.stored import enqueue_answer
from support.waiting import until

ANSWER_FROM_OUTSIDE = """
import asyncio, sys
import midturn as mt
store = mt.open_store(sys.argv[1])
try:
    asyncio.run(store.answer(sys.argv[2], True, user=sys.argv[3]))
    print("taken")
except mt.AnswerError as error:
    print(error)
"""


def only_ada(question: mt.OpenQuestion, user: str | None) -> bool:
    assert question.tool == "careful"
    return user == "ada"


def agent_on(store: ConversationStore, prompter: mt.Prompter | None = None) -> mt.Agent:
    """Return an agent whose questions only Ada may answer."""
    return mt.Agent(
        calling("careful"),
        tools=[careful],
        store=store.with_authorizer(only_ada),
        prompter=prompter,
    )


def test_an_answer_may_be_refused_and_the_question_stays_open(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = agent_on(store)
        result = await agent.run("Ask")
        (question,) = result.pending
        for user, says in (
            ("bob", f"'bob' may not answer the question {question.id}; it stays open"),
            (None, "An unnamed user"),
        ):
            with pytest.raises(mt.NotAllowed, match=says) as refused:
                await agent.store.answer(question.id, "this would not fit either", user=user)
            assert refused.value.to_json() == {
                "error": "NotAllowed",
                "message": str(refused.value),
                "id": question.id,
                "user": user,
            }
        for how in ({"cancel": True}, {"reply": "no"}):
            with pytest.raises(mt.NotAllowed, match="may not answer"):
                await agent.store.answer(question.id, user="bob", **how)  # type: ignore[arg-type]  # either of the two
        assert [open_question.id for open_question in await agent.store.pending()] == [question.id]
        assert (await agent.resume(result.conversation)).status == "suspended"

        await agent.store.answer(question.id, True, user="ada")
        assert (await agent.resume(result.conversation)).status == "completed"
        (answered,) = [
            e
            for e in (await store.read(result.conversation)).events
            if isinstance(e, InquiryAnswered)
        ]
        assert answered.answered_by
        assert answered.answered_by.user == "ada"

    asyncio.run(scene())


def test_store_explains_unknown_and_closed_questions(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = agent_on(store)
        result = await agent.run("Ask")
        with pytest.raises(mt.NotOpen):
            await agent.store.answer("nothing", True, user="bob")
        await agent.store.answer(result.pending[0].id, True, user="ada")
        with pytest.raises(mt.AlreadyAnswered):
            await agent.store.answer(result.pending[0].id, True, user="ada")

    asyncio.run(scene())


def test_guarded_store_delegates_to_the_given_store(store: ConversationStore) -> None:
    agent = agent_on(store)
    result = agent.run_sync("Ask")
    assert agent.store.ids_sync() == store.ids_sync() == [result.conversation]
    assert agent.store.read_sync(result.conversation).pending()
    assert agent.store.ready_sync() == []
    # a fork does not include the open turn
    assert store.read_sync(agent.store.fork_sync(result.conversation)).events == ()
    agent.store.remove_sync(result.conversation)
    assert result.conversation not in store.ids_sync()
    assert mt.Agent(calling("careful"), store=store).store is store


def test_prompt_of_the_program_asks_for_no_user_name(store: ConversationStore) -> None:
    result = agent_on(store, mt.ScriptedPrompter({"careful.confirm": True})).run_sync("Ask")
    assert tool_results(store, result.conversation) == ["went ahead"]


def test_queued_answer_of_another_process_is_checked(tmp_path: Path) -> None:
    """Another process may answer while this one holds the lock.

    The responder learns whether the answer is accepted.
    """

    async def scene() -> None:
        agent = agent_on(mt.open_store(tmp_path), mt.InboxPrompter())
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: drive(agent.store.pending()))
        question = (await agent.store.pending())[0].id
        refused = await asyncio.to_thread(
            lambda: output(Forked(ANSWER_FROM_OUTSIDE, tmp_path, question, "bob"))
        )
        assert "did not accept the answer; the question is still open" in refused
        assert not run.done()
        assert (
            await asyncio.to_thread(
                lambda: output(Forked(ANSWER_FROM_OUTSIDE, tmp_path, question, "ada"))
            )
            == "taken\n"
        )
        assert (await run).status == "completed"

    asyncio.run(scene())


def test_failing_may_answer_refuses_only_the_queued_answer(
    store: ConversationStore, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(question: mt.OpenQuestion, user: str | None) -> bool:
        raise LookupError(f"nobody knows {user} ({question.tool})")

    async def scene() -> None:
        guarded = mt.Agent(
            calling("careful"),
            tools=[careful],
            store=store.with_authorizer(broken),
            prompter=mt.InboxPrompter(),
        )
        run = asyncio.create_task(guarded.run("Ask"))
        await until(lambda: drive(store.pending()))
        question = (await store.pending())[0].id
        with pytest.raises(LookupError, match="nobody knows ada"):
            await guarded.store.answer(question, True, user="ada")
        with pytest.raises(mt.AnswerError, match="still open"):
            await store.answer(question, True, user="ada")
        assert not run.done()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    asyncio.run(scene())
    assert "`may_answer` failed" in caplog.text


def test_queued_answer_of_a_dead_process_is_checked(tmp_path: Path) -> None:
    store = mt.open_store(tmp_path)
    result = mt.Agent(calling("careful"), tools=[careful], store=store).run_sync("Ask")
    (question,) = result.pending
    event_id = question.request.event_id
    answer = QueuedAnswer(
        event_id=event_id,
        at="2026-01-01T00:00:00Z",
        submission=SubmittedAnswer(value=True, user="bob"),
    )
    enqueue_answer(store, result.conversation, answer)

    resumed = asyncio.run(agent_on(store).resume(result.conversation))

    assert (resumed.status, [waiting.id for waiting in resumed.pending]) == (
        "suspended",
        [question.id],
    )


def test_a_may_answer_may_be_asynchronous(store: ConversationStore) -> None:
    async def only_boss(question: mt.OpenQuestion, user: str | None) -> bool:
        await asyncio.sleep(0)
        return question.tool == "careful" and user == "boss"

    async def scene() -> None:
        agent = mt.Agent(
            calling("careful"), tools=[careful], store=store.with_authorizer(only_boss)
        )
        (question,) = (await agent.run("Ask")).pending
        with pytest.raises(mt.NotAllowed, match="'bob' may not answer"):
            await agent.store.answer(question.id, True, user="bob")
        assert (await agent.store.answer(question.id, True, user="boss")).id == question.id

    asyncio.run(scene())


def test_queued_answer_is_checked_when_the_lock_is_released(store: ConversationStore) -> None:
    """The answers were not checked while the conversation was locked."""

    async def scene() -> None:
        guarded = agent_on(store).store
        result = await mt.Agent(calling("careful"), tools=[careful], store=store).run("Ask")
        (question,) = result.pending
        async with await guarded.open(result.conversation):
            receipt = await store.answer(question.id, True, user="mallory")
            assert receipt.held
        assert [waiting.id for waiting in await store.pending()] == [question.id]

        await guarded.answer(question.id, True, user="ada")
        assert await store.ready() == [result.conversation]

    asyncio.run(scene())


def test_store_is_guarded_for_every_program(tmp_path: Path) -> None:
    result = mt.Agent(calling("careful"), tools=[careful], store=mt.open_store(tmp_path)).run_sync(
        "Ask"
    )
    guarded = mt.open_store(tmp_path, may_answer=only_ada)

    with pytest.raises(mt.NotAllowed, match="'bob' may not answer"):
        guarded.answer_sync(result.pending[0].id, True, user="bob")
    guarded.answer_sync(result.pending[0].id, True, user="ada")


def test_queued_answer_is_checked_once(store: ConversationStore) -> None:
    """The check may be slow or may return another result later, and the responder was already
    told that the answer is accepted.
    """
    asked: list[str | None] = []

    def rule(_: mt.OpenQuestion, user: str | None) -> bool:
        asked.append(user)
        return len(asked) == 1

    async def scene() -> None:
        (question,) = (
            await mt.Agent(calling("careful"), tools=[careful], store=store).run("Ask")
        ).pending
        async with await mt.Agent(
            calling("careful"), tools=[careful], store=store.with_authorizer(rule)
        ).store.open(question.conversation) as held:
            await store.answer(question.id, True, user="ada")
            looks = [[answer.by.user for answer in await held.answers.collect()] for _ in range(3)]
        assert looks == [["ada"]] * 3
        assert asked == ["ada"]

    asyncio.run(scene())


def test_unguarded_store_next_to_may_answer_logs_a_warning(store: ConversationStore) -> None:
    with pytest.warns(
        UserWarning, match=r"Pass `store=store\.with_authorizer\(may_answer\)` instead of both"
    ):
        agent = mt.Agent(calling("careful"), tools=[careful], store=store, may_answer=only_ada)
    (question,) = agent.run_sync("Ask").pending

    with pytest.raises(mt.NotAllowed):
        agent.store.answer_sync(question, True, user="bob")
    store.answer_sync(question, True, user="bob")
