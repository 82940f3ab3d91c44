"""Ending turns from outside (waiting, running, partly for other people), the store owner's
rights, and answers by programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import midturn as mt
from midturn.errors import NotAllowed, NotOpen
from midturn.events.open_question import OpenQuestion
from midturn.events.types import AnsweredBy, Event, InquiryAnswered, TurnEnd
from midturn.stores.store import ConversationStore

OPS = mt.People(ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo"]})


@mt.tool(run=lambda _arguments, _context: OPS)
async def deploy(env: str) -> str:
    """Deploy."""
    return env


@mt.tool
async def hello(ctx: mt.ToolContext) -> str:
    """Say hello."""
    return str(await ctx.ask(mt.Question.boolean("x", "Say hello?")))


@mt.tool
async def secret(ctx: mt.ToolContext) -> str:
    """Ask an exclusive question."""
    return str(await ctx.ask(mt.Question.text("x", "Who are you?", exclusive=True)))


CALLS = {
    "hello": {"name": "hello"},
    "deploy": {"name": "deploy", "arguments": {"env": "production"}},
    "secret": {"name": "secret"},
}


def agent_on(store: ConversationStore, *names: str) -> mt.Agent:
    """Return an agent whose model calls these tools and then completes."""
    model = mt.ScriptedModel([{"calls": [CALLS[name] for name in names]}, {"text": "done"}])
    return mt.Agent(model, tools=[deploy, hello, secret], store=store)


def waiting(store: ConversationStore, *names: str) -> tuple[str, dict[str, OpenQuestion]]:
    """Suspend a turn in calls of these tools; return its conversation and its questions by
    tool.
    """
    result = agent_on(store, *names).run_sync("go")
    return result.conversation, {question.tool: question for question in result.pending}


def ended(store: ConversationStore, conversation: str) -> TurnEnd | None:
    last: Event = store.read_sync(conversation).events[-1]
    return last if isinstance(last, TurnEnd) else None


@pytest.mark.parametrize("user", ["mallory", None])
def test_turn_cannot_be_ended_through_another_question(
    store: ConversationStore, user: str | None
) -> None:
    conversation, questions = waiting(store, "hello", "deploy")
    ends: list[Callable[[], object]] = [
        lambda: store.answer_sync(questions["hello"].id, cancel=True, user=user),
        lambda: store.answer_sync(questions["deploy"].id, cancel=True, user=user),
        lambda: store.end_sync(conversation, user=user),
        lambda: store.end_sync(conversation, user=user, answered_by="agent"),
        lambda: store.remove_sync(conversation, user=user),
        lambda: store.remove_sync(conversation),
    ]
    for end in ends:
        with pytest.raises(NotAllowed):
            end()
    assert {question.tool for question in store.pending_sync()} == {"hello", "deploy"}
    store.answer_sync(questions["hello"].id, True, user=user)
    deploy = questions["deploy"]
    assert (
        store.answer_sync(deploy.id, approve=True, user="ana", digest=deploy.digest).votes
        == "1 of 2"
    )


def test_refusal_names_the_question_and_its_people(store: ConversationStore) -> None:
    _, questions = waiting(store, "hello", "deploy")
    with pytest.raises(
        NotAllowed,
        match=(
            r'waits for other people \("?Run deploy\?"?\).*mallory may not answer this: only ana and'
            r" bo may"
        ),
    ):
        store.answer_sync(questions["hello"].id, cancel=True, user="mallory")


def test_questions_of_others_protect_outer_and_inner_turns(store: ConversationStore) -> None:
    @mt.tool
    async def delegate() -> str:
        """Have another agent do it."""
        return str((await agent_on(store, "deploy").run("deploy")).status)

    calls = [{"name": "delegate"}, CALLS["hello"]]
    around = mt.Agent(
        mt.ScriptedModel([{"calls": calls}, {"text": "done"}]), tools=[delegate, hello], store=store
    )
    result = around.run_sync("go")
    questions = {question.tool: question for question in store.pending_sync()}
    inside = questions["deploy"].conversation
    assert inside != result.conversation
    ends: list[Callable[[], object]] = [
        lambda: store.answer_sync(questions["hello"].id, cancel=True, user="mallory"),
        lambda: store.end_sync(result.conversation, user="mallory"),
        lambda: store.end_sync(inside, user="mallory"),
        lambda: store.remove_sync(result.conversation, user="mallory"),
        lambda: store.remove_sync(inside, user="mallory"),
    ]
    for end in ends:
        with pytest.raises(NotAllowed, match="mallory may not answer this"):
            end()
    assert len(store.pending_sync()) == 2
    store.end_sync(inside, user="ana")
    assert ended(store, inside) is not None
    assert ended(store, result.conversation) is not None


def test_user_who_may_decide_all_questions_ends_the_turn(store: ConversationStore) -> None:
    conversation, questions = waiting(store, "hello", "deploy")
    store.answer_sync(questions["hello"].id, cancel=True, user="ana")
    end = ended(store, conversation)
    assert end is not None
    assert end.ended_by == AnsweredBy("user", via="api", user="ana")
    store.remove_sync(conversation, user="mallory")
    assert store.ids_sync() == []


def test_turn_is_ended_from_outside(store: ConversationStore) -> None:
    conversation, _ = waiting(store, "hello")
    assert store.end_sync(conversation, user="ana", via="web") is False
    end = ended(store, conversation)
    assert end is not None
    assert (end.status, end.ended_by) == (
        "ended_by_user",
        AnsweredBy("user", via="web", user="ana"),
    )
    with pytest.raises(NotOpen, match=r"has no open turn: it was ended by ana \(web\)"):
        store.end_sync(conversation)
    assert store.pending_sync() == []


def test_running_turn_is_ended_by_its_process(store: ConversationStore) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    @mt.tool
    async def work() -> str:
        """Work for long."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "done"

    async def scene() -> tuple[str, str]:
        agent = mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": "work"}]}, {"text": "done"}]),
            tools=[work],
            store=store,
        )
        running = asyncio.create_task(agent.run("go"))
        await began.wait()
        (conversation,) = await store.open_turns()
        assert await store.end(conversation, user="ana", answered_by="agent") is True
        result = await running
        return result.status, conversation

    status, conversation = asyncio.run(scene())
    assert (status, stopped.is_set()) == ("ended_by_user", True)
    end = ended(store, conversation)
    assert end is not None
    assert end.ended_by == AnsweredBy("agent", via="api", user="ana")


def test_queued_end_is_recorded_by_the_next_lock_holder(store: ConversationStore) -> None:
    conversation, _ = waiting(store, "hello")

    async def scene() -> None:
        async with await store.open(conversation):
            await asyncio.wait_for(asyncio.create_task(store.end(conversation, user="ana")), 120)

    asyncio.run(scene())
    assert ended(store, conversation) is not None


def test_running_turn_with_questions_for_others_cannot_be_ended(store: ConversationStore) -> None:
    conversation, _ = waiting(store, "hello", "deploy")

    async def scene() -> None:
        async with await store.open(conversation):
            with pytest.raises(NotAllowed):
                await store.end(conversation, user="mallory")

    asyncio.run(scene())
    assert ended(store, conversation) is None


def test_store_owner_ends_questions_of_others_on_record(store: ConversationStore) -> None:
    conversation, _ = waiting(store, "hello", "deploy")
    if not store.port.is_own:
        with pytest.raises(NotAllowed, match="does not belong to your user"):
            store.end_sync(conversation, user="root", as_owner=True)
        return
    store.end_sync(conversation, user="root", via="inbox", as_owner=True)
    end = ended(store, conversation)
    assert end is not None
    assert end.ended_by == AnsweredBy("owner", via="inbox", user="root")
    with pytest.raises(NotOpen, match="root, who owns the store, "):
        store.end_sync(conversation)


def test_program_answers_a_question_and_is_recorded(store: ConversationStore) -> None:
    conversation, questions = waiting(store, "hello")
    store.answer_sync(questions["hello"].id, True, user="planner", answered_by="agent")
    answer = next(
        event
        for event in store.read_sync(conversation).events
        if isinstance(event, InquiryAnswered)
    )
    assert answer.answered_by == AnsweredBy("agent", via="api", user="planner")
    assert store.ready_sync() == [conversation]
    assert agent_on(store, "hello").resume_sync(conversation).status == "completed"


@pytest.mark.parametrize(
    ("tool", "how"),
    [("secret", {"value": "me"}), ("deploy", {"approve": True}), ("deploy", {"approve": False})],
)
def test_program_cannot_answer_questions_for_people(
    store: ConversationStore, tool: str, how: dict[str, object]
) -> None:
    _, questions = waiting(store, tool)
    with pytest.raises(NotAllowed, match=r"[Pp](erson|eople)"):
        store.answer_sync(questions[tool].id, user="ana", answered_by="agent", **how)  # type: ignore[arg-type]  # one way each
    assert len(store.pending_sync()) == 1


def test_program_cannot_remember_an_answer(store: ConversationStore) -> None:
    _, questions = waiting(store, "hello")
    with pytest.raises(NotAllowed, match="not remembered"):
        store.answer_sync(questions["hello"].id, True, remember=True, answered_by="agent")


def test_owner_name_cannot_be_used_to_answer(store: ConversationStore) -> None:
    _, questions = waiting(store, "hello")
    with pytest.raises(ValueError, match="takes 'user' or 'agent'"):
        store.answer_sync(questions["hello"].id, cancel=True, answered_by="owner")  # type: ignore[arg-type]  # on purpose
