"""`may_answer` has the last word; a question whose answer it refuses stays open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import midturn as mt
from midturn.events.types import InquiryAnswered
from midturn.stores.queued_answer import HandedOver, Submission
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.agents import calling, careful, told
from support.processes import Forked, output
from support.stored import hand_over
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
    """Let Ada answer what `careful` asks."""
    assert question.tool == "careful"
    return user == "ada"


def agent_on(store: ConversationStore, prompter: mt.Prompter | None = None) -> mt.Agent:
    """Return an agent whose questions only Ada may answer."""
    return mt.Agent(calling("careful"), tools=[careful], store=store.guarded(only_ada), prompter=prompter)


def test_an_answer_may_be_refused_and_the_question_stays_open(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = agent_on(store)
        result = await agent.run("Ask")
        (question,) = result.pending
        for user, says in (
            ("bob", f"'bob' may not answer the question {question.id}; it stays open"),
            (None, "An answerer without a name"),
        ):
            with pytest.raises(mt.NotAllowed, match=says) as refused:
                await agent.store.answer(question.id, "this would not fit either", user=user)
            assert refused.value.to_json() == {"error": "NotAllowed", "message": str(refused.value), "id": question.id, "user": user}
        for how in ({"cancel": True}, {"reply": "no"}):
            with pytest.raises(mt.NotAllowed, match="may not answer"):
                await agent.store.answer(question.id, user="bob", **how)  # type: ignore[arg-type]  # either of the two
        assert [open_question.id for open_question in await agent.store.pending()] == [question.id]
        assert (await agent.resume(result.conversation)).status == "suspended"

        await agent.store.answer(question.id, True, user="ada")
        assert (await agent.resume(result.conversation)).status == "completed"
        (answered,) = [e for e in (await store.read(result.conversation)).events if isinstance(e, InquiryAnswered)]
        assert answered.answered_by
        assert answered.answered_by.user == "ada"

    asyncio.run(scene())


def test_what_does_not_exist_or_is_closed_is_explained_by_the_store(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = agent_on(store)
        result = await agent.run("Ask")
        with pytest.raises(mt.NotOpen):
            await agent.store.answer("nothing", True, user="bob")
        await agent.store.answer(result.pending[0].id, True, user="ada")
        with pytest.raises(mt.AlreadyAnswered):
            await agent.store.answer(result.pending[0].id, True, user="ada")

    asyncio.run(scene())


def test_the_store_is_otherwise_the_one_that_was_given(store: ConversationStore) -> None:
    agent = agent_on(store)
    result = agent.run_sync("Ask")
    assert agent.store.ids_sync() == store.ids_sync() == [result.conversation]
    assert agent.store.read_sync(result.conversation).pending()
    assert agent.store.ready_sync() == []
    assert store.read_sync(agent.store.fork_sync(result.conversation)).events == ()  # an open turn stays behind
    agent.store.remove_sync(result.conversation)
    assert result.conversation not in store.ids_sync()
    assert mt.Agent(calling("careful"), store=store).store is store


def test_a_person_at_a_prompt_of_the_program_is_not_asked_for_a_name(store: ConversationStore) -> None:
    result = agent_on(store, mt.ScriptedPrompter({"careful.confirm": True})).run_sync("Ask")
    assert told(store, result.conversation) == ["went ahead"]


def test_what_another_program_hands_over_is_looked_at_too(tmp_path: Path) -> None:
    """Somebody else's process may answer while this one holds the conversation; it hears whether that counts."""

    async def scene() -> None:
        agent = agent_on(mt.open_store(tmp_path), mt.InboxPrompter())
        run = asyncio.create_task(agent.run("Ask"))
        await until(lambda: drive(agent.store.pending()))
        question = (await agent.store.pending())[0].id
        refused = await asyncio.to_thread(lambda: output(Forked(ANSWER_FROM_OUTSIDE, tmp_path, question, "bob")))
        assert "did not accept the answer; the question is still open" in refused
        assert not run.done()
        assert await asyncio.to_thread(lambda: output(Forked(ANSWER_FROM_OUTSIDE, tmp_path, question, "ada"))) == "taken\n"
        assert (await run).status == "completed"

    asyncio.run(scene())


def test_a_may_answer_that_fails_refuses_what_was_handed_over_and_harms_nobody_else(
    store: ConversationStore, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(question: mt.OpenQuestion, user: str | None) -> bool:
        raise LookupError(f"nobody knows {user} ({question.tool})")

    async def scene() -> None:
        guarded = mt.Agent(calling("careful"), tools=[careful], store=store.guarded(broken), prompter=mt.InboxPrompter())
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


def test_what_was_handed_over_to_a_process_that_died_counts_only_if_it_may(tmp_path: Path) -> None:
    store = mt.open_store(tmp_path)
    result = mt.Agent(calling("careful"), tools=[careful], store=store).run_sync("Ask")
    (question,) = result.pending
    event_id = question.request.event_id
    answer = HandedOver(event_id=event_id, at="2026-01-01T00:00:00Z", submission=Submission(value=True, user="bob"))
    hand_over(store, result.conversation, answer)

    resumed = asyncio.run(agent_on(store).resume(result.conversation))

    assert (resumed.status, [waiting.id for waiting in resumed.pending]) == ("suspended", [question.id])


def test_a_may_answer_may_be_asynchronous(store: ConversationStore) -> None:
    async def only_boss(question: mt.OpenQuestion, user: str | None) -> bool:
        await asyncio.sleep(0)
        return question.tool == "careful" and user == "boss"

    async def scene() -> None:
        agent = mt.Agent(calling("careful"), tools=[careful], store=store.guarded(only_boss))
        (question,) = (await agent.run("Ask")).pending
        with pytest.raises(mt.NotAllowed, match="'bob' may not answer"):
            await agent.store.answer(question.id, True, user="bob")
        assert (await agent.store.answer(question.id, True, user="boss")).id == question.id

    asyncio.run(scene())


def test_what_was_handed_over_counts_only_if_it_may_also_when_the_holder_lets_go(store: ConversationStore) -> None:
    """Nobody looked at it while the conversation was held."""

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


def test_a_store_may_be_guarded_for_every_program_that_opens_it(tmp_path: Path) -> None:
    result = mt.Agent(calling("careful"), tools=[careful], store=mt.open_store(tmp_path)).run_sync("Ask")
    guarded = mt.open_store(tmp_path, may_answer=only_ada)

    with pytest.raises(mt.NotAllowed, match="'bob' may not answer"):
        guarded.answer_sync(result.pending[0].id, True, user="bob")
    guarded.answer_sync(result.pending[0].id, True, user="ada")


def test_what_was_handed_over_is_judged_once_however_often_it_is_looked_at(store: ConversationStore) -> None:
    """Asking again may be slow, or have another answer by now; whoever answered was told that it counts."""
    asked: list[str | None] = []

    def rule(_: mt.OpenQuestion, user: str | None) -> bool:
        asked.append(user)
        return len(asked) == 1

    async def scene() -> None:
        (question,) = (await mt.Agent(calling("careful"), tools=[careful], store=store).run("Ask")).pending
        async with await mt.Agent(calling("careful"), tools=[careful], store=store.guarded(rule)).store.open(question.conversation) as held:
            await store.answer(question.id, True, user="ada")
            looks = [[answer.by.user for answer in await held.answers.collect()] for _ in range(3)]
        assert looks == [["ada"]] * 3
        assert asked == ["ada"]

    asyncio.run(scene())


def test_a_store_that_is_passed_beside_a_rule_is_not_guarded_by_it_and_that_is_said(store: ConversationStore) -> None:
    with pytest.warns(UserWarning, match=r"Pass `store=store\.guarded\(may_answer\)` instead of both"):
        agent = mt.Agent(calling("careful"), tools=[careful], store=store, may_answer=only_ada)
    (question,) = agent.run_sync("Ask").pending

    with pytest.raises(mt.NotAllowed):
        agent.store.answer_sync(question, True, user="bob")
    store.answer_sync(question, True, user="bob")
