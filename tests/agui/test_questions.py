"""Questions as interrupts, and their answers by resume."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import midturn as mt
from midturn.stores.store import ConversationStore
from midturn.testing import Clock
from support.agui import (
    FrontEnd,
    Run,
    call,
    cancelled,
    resolved,
    scripted,
    serving,
)


def asking(*questions: mt.Question[Any], review: bool = False) -> Any:
    """Return a tool that asks a question or a form."""

    @mt.tool(name="ask")
    async def ask(ctx: mt.ToolContext) -> str:
        """Ask."""
        if len(questions) == 1:
            return repr(await ctx.ask(questions[0]))
        answers = await ctx.ask_form(mt.Form(questions, review=review))
        return repr(answers.to_json())

    return ask


@mt.tool(run="ask")
async def pay(amount: int, to: str = "shop") -> str:
    """Pay."""
    return f"paid {amount} to {to}"


Scene = Callable[[FrontEnd, Run], Awaitable[None]]


def play(
    store: ConversationStore, tool: Any, scene: Scene, version: str = "1.0", **options: Any
) -> None:
    """Let a model call a tool, and play a scene from the first interrupt on."""

    async def play_scene() -> None:
        arguments = {"amount": 5} if tool is pay else {}
        agent = scripted(
            {"text": "Let me ask.", **call(tool.name, **arguments)},
            {"text": "Done."},
            tools=[tool],
            store=store,
        )
        async with serving(agent, **options) as client:
            front_end = FrontEnd(client, version=version)
            await scene(front_end, await front_end.say("Go."))

    asyncio.run(play_scene())


def ends(payload: Any, result: str) -> Scene:
    """Answer the only interrupt. The turn ends with a result."""

    async def scene(front_end: FrontEnd, asked: Run) -> None:
        interrupt = asked.interrupt
        assert jsonschema_rs.is_valid(interrupt["responseSchema"], payload)
        ended = await front_end.answer(interrupt, payload)
        assert ended.not_taken == []
        assert ended.results == [result]
        assert (ended.text, ended.outcome) == ("Done.", "success")

    return scene


def test_question_is_an_interrupt_and_its_answer_ends_the_turn(store: ConversationStore) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        assert asked.types == [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "MESSAGES_SNAPSHOT",
            "RUN_FINISHED",
        ]
        interrupt = asked.interrupt
        assert interrupt["reason"] == "input_required"
        assert interrupt["message"] == "Where to?"
        assert interrupt["toolCallId"] == asked.events[4]["toolCallId"]
        details = interrupt["metadata"]["midturn"]
        assert details["answerable"] is True
        assert details["address"] == interrupt["id"]
        ended = await front_end.answer(interrupt, {"answer": "prod", "reason": "It is late."})
        assert ended.results == ["'prod'"]
        assert ended.text == "Done."
        assert ended.outcome == "success"
        roles = [message["role"] for message in ended.messages]
        assert roles == ["user", "assistant", "assistant", "tool", "assistant"]
        again = await front_end.run()
        assert again.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]

    play(store, asking(mt.Question.text("where", "Where to?")), scene)


ANSWERS: dict[str, tuple[mt.Question[Any], str, Any, str]] = {
    "boolean": (mt.Question.boolean("q", "Sure?"), "confirmation", True, "True"),
    "select": (mt.Question.select("q", "Which?", ["a", "b"]), "input_required", "b", "'b'"),
    "other": (
        mt.Question.select("q", "Which?", ["a", "b"], allow_other=True),
        "input_required",
        {"other": "c"},
        "Other(other='c')",
    ),
    "multi_select": (
        mt.Question.multi_select("q", "Which?", ["a", "b", "c"]),
        "input_required",
        ["a", "c"],
        "['a', 'c']",
    ),
    "number": (mt.Question.schema("q", "How many?", {"type": "integer"}), "input_required", 7, "7"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_type_of_answer_is_taken(kind: str) -> None:
    question, reason, answer, result = ANSWERS[kind]

    async def scene(front_end: FrontEnd, asked: Run) -> None:
        assert asked.interrupt["reason"] == reason
        if kind == "other":
            ended = await front_end.answer(asked.interrupt, {"answer": answer})
            assert ended.outcome == "success", ended.events
            return
        await ends({"answer": answer}, result)(front_end, asked)

    play(mt.MemoryStore(), asking(question), scene)


def test_answer_without_envelope_is_taken() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        ended = await front_end.answer(asked.interrupt, "prod")
        assert ended.results == ["'prod'"]

    play(mt.MemoryStore(), asking(mt.Question.text("where", "Where to?")), scene)


SHIP = mt.Question.boolean("ship", "Ship it?")
ENV = mt.Question.select("env", "Where?", ["staging", "prod"], when=mt.When("ship", equals=True))
NOTE = mt.Question.text("note", "A note?", optional=True)


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        (
            {"ship": True, "env": "prod", "note": "n"},
            "{'ship': True, 'env': 'prod', 'note': 'n'}",
        ),
        ({"ship": False}, "{'ship': False, 'env': None, 'note': None}"),
    ],
)
def test_form_is_one_interrupt(store: ConversationStore, payload: Any, result: str) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        schema = asked.interrupt["responseSchema"]
        assert [*schema["properties"]] == ["ship", "env", "note"]
        assert not jsonschema_rs.is_valid(schema, {"ship": True})
        ended = await front_end.answer(asked.interrupt, payload)
        assert ended.not_taken == []
        assert ended.results == [result]

    play(store, asking(SHIP, ENV, NOTE), scene)


def test_valid_answers_of_a_form_are_kept_and_the_rest_is_asked_again() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        again = await front_end.answer(asked.interrupt, {"ship": True, "env": "mars"})
        (refused,) = again.not_taken
        assert refused["why"] == "invalid"
        assert refused["problems"][0]["pointer"] == "/env"
        interrupt = again.interrupt
        assert [*interrupt["responseSchema"]["properties"]] == ["env", "note"]
        assert "env:" in interrupt["metadata"]["midturn"].get("problem", "env:")
        ended = await front_end.answer(interrupt, {"env": "prod"})
        assert "'env': 'prod'" in ended.results[0]
        assert "'ship': True" in ended.results[0]

    play(mt.MemoryStore(), asking(SHIP, ENV, NOTE), scene)


def test_review_of_a_form_is_skipped() -> None:
    play(
        mt.MemoryStore(),
        asking(SHIP, NOTE, review=True),
        ends({"ship": True, "note": "n"}, "{'ship': True, 'note': 'n'}"),
    )


# Approvals
# --------------------------------------------------------------------------------------------------


def test_call_is_approved() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        interrupt = asked.interrupt
        assert interrupt["reason"] == "tool_call"
        assert interrupt["toolCallId"]
        assert interrupt["metadata"]["midturn"]["arguments"] == {"amount": 5}
        await ends({"approved": True}, "paid 5 to shop")(front_end, asked)

    play(mt.MemoryStore(), pay, scene)


def test_call_is_approved_with_edited_arguments(store: ConversationStore) -> None:
    edited = {"amount": 3, "to": "bob"}
    result = (
        "The user edited the arguments of this call. It ran with:"
        ' {"amount": 3, "to": "bob"}\npaid 3 to bob'
    )
    play(store, pay, ends({"approved": True, "editedArgs": edited}, result))


def test_edited_arguments_that_do_not_fit_are_asked_again() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        payload = {"approved": True, "editedArgs": {"amount": "much"}}
        again = await front_end.answer(asked.interrupt, payload)
        assert again.not_taken[0]["why"] == "invalid"
        assert again.not_taken[0]["problems"][0]["pointer"].startswith("/editedArgs")
        await ends({"approved": True}, "paid 5 to shop")(front_end, again)

    play(mt.MemoryStore(), pay, scene)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_refused_call_does_not_run(*, is_cancelled: bool) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        entry = (
            cancelled(asked.interrupt, reply="Too much.")
            if is_cancelled
            else resolved(asked.interrupt, {"approved": False, "reason": "Too much."})
        )
        ended = await front_end.resume(entry)
        assert ended.outcome == "success"
        assert "paid" not in ended.results[0]
        assert "Too much." in ended.results[0]

    play(mt.MemoryStore(), pay, scene)


# Entries that are not answers
# --------------------------------------------------------------------------------------------------


WHERE = mt.Question.text("where", "Where to?", pattern="^[a-z]+$")


def test_value_that_does_not_fit_is_asked_again_with_the_problem(store: ConversationStore) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        again = await front_end.answer(asked.interrupt, {"answer": "PROD 1"})
        assert again.end["type"] == "RUN_FINISHED"
        assert again.not_taken[0]["why"] == "invalid"
        assert again.interrupt["id"] == asked.interrupt["id"]
        problem = again.interrupt["metadata"]["midturn"]["problem"]
        assert again.interrupt["message"] == f"Where to? ({problem})"
        await ends({"answer": "prod"}, "'prod'")(front_end, again)

    play(store, asking(WHERE), scene)


def test_missing_payload_is_asked_again() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        entry = {"interruptId": asked.interrupt["id"], "status": "resolved"}
        again = await front_end.resume(entry)
        assert again.not_taken[0]["why"] == "invalid"
        assert again.outcome == "interrupt"

    play(mt.MemoryStore(), asking(WHERE), scene)


@mt.tool
async def other(ctx: mt.ToolContext) -> str:
    """Ask."""
    return f"other {await ctx.ask(mt.Question.text('other', 'What else?'))}"


def two_questions(store: ConversationStore) -> mt.Agent:
    """Return an agent that asks two questions at once."""
    calls: list[dict[str, Any]] = [
        {"name": "ask", "arguments": {}},
        {"name": "other", "arguments": {}},
    ]
    return scripted({"calls": calls}, {"text": "Done."}, tools=[asking(WHERE), other], store=store)


def test_one_of_two_answers_leaves_the_other_question_open(store: ConversationStore) -> None:
    """`cancelled` is sent for coverage. It is not a refusal."""

    async def scene() -> None:
        async with serving(two_questions(store)) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            first, second = asked.interrupts
            again = await front_end.resume(resolved(first, {"answer": "prod"}), cancelled(second))
            assert again.not_taken == []
            assert again.interrupt["id"] == second["id"]
            ended = await front_end.answer(again.interrupt, {"answer": "tea"})
            assert ended.outcome == "success"
            assert "other tea" in ended.results

    asyncio.run(scene())


def test_cancelled_is_no_refusal_if_the_other_question_was_answered_meanwhile(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        async with serving(two_questions(store)) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            first, second = asked.interrupts
            await store.answer(first["id"], "prod", user="bob", via="telegram")
            again = await front_end.resume(resolved(first, {"answer": "dev"}), cancelled(second))
            assert [each["why"] for each in again.not_taken] == ["already_answered"]
            assert again.interrupt["id"] == second["id"]

    asyncio.run(scene())


def test_only_question_is_declined_by_cancelled() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        ended = await front_end.resume(cancelled(asked.interrupt))
        assert ended.outcome == "success"
        assert ended.text == "Done."

    play(mt.MemoryStore(), asking(WHERE), scene)


def test_one_of_two_questions_is_declined_if_the_entry_says_so() -> None:
    async def scene() -> None:
        store = mt.MemoryStore()
        async with serving(two_questions(store)) as client:
            front_end = FrontEnd(client)
            first, second = (await front_end.say("Go.")).interrupts
            again = await front_end.resume(
                cancelled(first, decline=True, reply="Ask Bob."), cancelled(second)
            )
            assert again.interrupt["id"] == second["id"]
            assert any("Ask Bob." in text for text in again.results)

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["end_turn", "endTurn"])
@pytest.mark.parametrize("version", ["1.0", ""])
def test_turn_is_ended(name: str, version: str) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        ended = await front_end.resume(cancelled(asked.interrupt, **{name: True}))
        if version:
            assert ended.outcome == "cancelled"
        else:  # front ends before 1.0 do not know this outcome
            assert "outcome" not in ended.end
            assert ended.custom("ended") == [{"status": "ended_by_user"}]

    play(mt.MemoryStore(), asking(WHERE), scene, version)


def test_refresh_decides_nothing(store: ConversationStore) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        entry = cancelled(asked.interrupt, refresh=True)
        again = await front_end.resume(entry)
        assert again.interrupt == asked.interrupt
        props = {"midturn": {"refresh": True}}
        once_more = await front_end.resume(
            resolved(asked.interrupt, {"answer": "prod"}), forwardedProps=props
        )
        assert once_more.interrupt == asked.interrupt
        assert once_more.not_taken == []

    play(store, asking(WHERE), scene)


# Secrets
# --------------------------------------------------------------------------------------------------


TOKEN = mt.Question.secret("token", "The token?")
NEEDLE = "needle-in-no-file"


def login() -> Any:
    @mt.tool(name="login")
    async def login(ctx: mt.ToolContext) -> str:
        """Log in."""
        secret = await ctx.ask(TOKEN)
        return f"logged in with {len(secret.reveal())} characters"

    return login


def test_secret_is_refused_unread(store: ConversationStore) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        interrupt = asked.interrupt
        assert interrupt["reason"] == "midturn:secret"
        assert "responseSchema" not in interrupt
        assert interrupt["metadata"]["midturn"]["answerable"] is False
        assert "inbox" in interrupt["metadata"]["midturn"]["where"]
        again = await front_end.answer(interrupt, {"answer": NEEDLE})
        assert again.not_taken[0]["why"] == "invalid"
        assert NEEDLE not in str(again.events)
        assert again.outcome == "interrupt"

    play(store, login(), scene)


def test_secret_is_given_to_the_turn_and_recorded_nowhere(
    store: ConversationStore, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        schema = asked.interrupt["responseSchema"]["properties"]["answer"]
        assert schema.get("writeOnly") is True
        ended = await front_end.answer(asked.interrupt, {"answer": NEEDLE})
        assert ended.not_taken == []
        assert ended.results == [f"logged in with {len(NEEDLE)} characters"]
        assert NEEDLE not in str(ended.events)
        (conversation,) = await store.ids()
        events = (await store.read(conversation)).events
        assert NEEDLE not in str([event.to_json() for event in events])

    caplog.set_level("DEBUG")
    play(store, login(), scene, secrets=True)
    assert NEEDLE not in caplog.text
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if NEEDLE.encode() in file.read_bytes()]


def test_secret_is_refused_while_another_program_runs_the_turn() -> None:
    """Only the process that runs the turn can take a secret."""

    async def scene() -> None:
        agent = scripted(call("login"), {"text": "Done."}, tools=[login()])
        async with serving(agent, secrets=True) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            (question,) = await agent.store.pending()
            async with await agent.store.open(question.conversation):
                again = await front_end.answer(asked.interrupt, {"answer": NEEDLE})
            assert [each["why"] for each in again.not_taken] == ["busy"]
            ended = await front_end.answer(again.interrupt, {"answer": NEEDLE})
            assert ended.not_taken == []
            assert ended.outcome == "success"

    asyncio.run(scene())


def test_secret_of_a_form_is_given_with_the_other_answers() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        payload = {"ship": True, "token": NEEDLE}
        ended = await front_end.answer(asked.interrupt, payload)
        assert ended.not_taken == []
        assert ended.outcome == "success"
        assert NEEDLE not in str(ended.events)
        assert "'ship': True" in ended.results[0]

    play(mt.MemoryStore(), asking(SHIP, TOKEN), scene, secrets=True)


# Deadlines and people
# --------------------------------------------------------------------------------------------------


LATE = mt.Question.text("where", "Where to?", deadline=timedelta(hours=1))


@pytest.mark.parametrize("version", ["1.0", ""])
def test_deadline_blocks_no_old_front_end(version: str) -> None:
    """A front end before 1.0 sends nothing more after `expiresAt`."""

    async def scene(_: FrontEnd, asked: Run) -> None:
        interrupt = asked.interrupt
        deadline = interrupt["metadata"]["midturn"]["deadline"]
        assert interrupt.get("expiresAt") == (deadline if version else None)

    play(mt.MemoryStore(), asking(LATE), scene, version)


def test_answer_after_the_deadline_is_reported(store: ConversationStore, clock: Clock) -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        clock.pass_(hours=2)
        ended = await front_end.answer(asked.interrupt, {"answer": "prod"})
        assert ended.not_taken[0]["why"] == "expired"
        assert ended.outcome == "success"
        assert ended.text == "Done."

    play(store, asking(LATE), scene)


OPS = mt.People(ask=("ada", "bob"), only=True, approvals=2)


def test_two_people_approve(store: ConversationStore) -> None:
    """Each has a thread of their own; the second one answers in the inbox."""

    async def scene(front_end: FrontEnd, asked: Run) -> None:
        voted = await front_end.answer(asked.interrupt, {"answer": True})
        assert voted.not_taken == []
        people = voted.interrupt["metadata"]["midturn"]["people"]
        assert people["voted"] == ["ada"]
        twice = await front_end.answer(voted.interrupt, {"answer": True})
        assert twice.not_taken[0]["why"] == "not_allowed"
        (question,) = await store.pending()
        await store.answer(question, value=True, user="bob", digest=question.digest)
        ended = await front_end.resume(cancelled(voted.interrupt, refresh=True))
        assert ended.outcome == "success"
        assert ended.results == ["True"]

    play(store, asking(mt.Question.boolean("sure", "Sure?", people=OPS)), scene)


@mt.tool(name="pay", run=lambda _arguments, _context: OPS)
async def pay_together(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_approval_of_an_older_version_is_refused(store: ConversationStore) -> None:
    """Somebody has edited the call since the front end showed it."""

    async def scene() -> None:
        agent = scripted(
            call("pay", amount=5), {"text": "Done."}, tools=[pay_together], store=store
        )
        async with serving(agent) as client:
            front_end = FrontEnd(client)
            shown = (await front_end.say("Pay.")).interrupt
            (question,) = await store.pending()
            await store.answer(question, arguments={"amount": 900}, user="bob")
            await front_end.resume(cancelled(shown, refresh=True))  # the turn checks the edit
            again = await front_end.answer(shown, {"approved": True})
            assert again.not_taken[0]["why"] == "changed"
            assert again.interrupt["id"] != shown["id"]
            assert again.interrupt["metadata"]["midturn"]["arguments"] == {"amount": 900}
            ended = await front_end.answer(again.interrupt, {"approved": True})
            assert ended.not_taken == []
            assert "paid 900" in ended.results[0]

    asyncio.run(scene())


def only_bob(_: object, user: str | None) -> bool:
    return user == "bob"


def test_user_who_may_not_answer_is_told_so() -> None:
    async def scene(front_end: FrontEnd, asked: Run) -> None:
        assert asked.interrupt["metadata"]["midturn"]["answerable"] is False
        again = await front_end.answer(asked.interrupt, {"answer": "prod"})
        assert again.not_taken[0]["why"] == "not_allowed"
        assert again.outcome == "interrupt"
        left = await front_end.resume(cancelled(asked.interrupt))  # no refusal of this user's
        assert left.outcome == "interrupt"
        assert left.not_taken == []

    play(
        mt.MemoryStore(),
        asking(WHERE),
        scene,
        may_answer=only_bob,
    )
