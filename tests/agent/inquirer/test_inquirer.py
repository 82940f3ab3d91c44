"""The inquirer in a program's own loop: the same routing, recording and replay as in an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

import midturn as mt
from midturn.events.types import ChatRequest, ToolCallRequest, ToolCallResponse, TurnEnd
from midturn.question.json_value import JsonObject
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import in_a_loop
from midturn.testing.tool_run import RecordedPair, recorded_pairs
from support.agents import tool_results
from support.people import Chat
from support.waiting import until

CONFIRM = mt.Question.boolean("confirm", "Deploy?")
REGION = mt.Question.select("region", "Where?", ["eu-1", "us-2"])
ARGUMENTS = {"env": "staging"}

T = TypeVar("T")


async def deploy(inquirer: mt.Inquirer, call_id: str = "call_1") -> str:
    """Act like a framework's tool: ask, and return the text for the model."""
    async with inquirer.call("deploy", call_id, ARGUMENTS) as call:
        if not await call.ask(CONFIRM):
            raise mt.Rejected("Not deployed.")
        return call.finish(f"Deployed in {await call.ask(REGION)}.")


def begun(store: ConversationStore) -> str:
    return _elsewhere(store.new("their loop"))


def recorded(store: ConversationStore, conversation: str) -> mt.Conversation:
    return _elsewhere(store.read(conversation))


def _elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Run in a thread with its own event loop: a test may call this inside a running loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(in_a_loop, work).result()


def kinds(store: ConversationStore, conversation: str) -> list[str]:
    return [event.type for event in recorded(store, conversation).events]


def test_call_outside_a_turn_creates_its_own_turn(store: ConversationStore) -> None:
    conversation = begun(store)
    person = mt.ScriptedPrompter({"deploy.confirm": True, "deploy.region": "us-2"})

    assert asyncio.run(deploy(mt.Inquirer(store, conversation, person))) == "Deployed in us-2."

    assert kinds(store, conversation) == [
        "turn_start",
        "tool_call_request",
        *["inquiry_request", "inquiry_response"] * 2,
        "tool_call_response",
        "turn_end",
    ]
    request = next(
        e for e in recorded(store, conversation).events if isinstance(e, ToolCallRequest)
    )
    assert (request.id, request.name, request.arguments) == ("call_1", "deploy", ARGUMENTS)
    assert recorded_pairs(recorded(store, conversation)) == [
        RecordedPair("deploy.confirm", "answered", True, "user"),
        RecordedPair("deploy.region", "answered", "us-2", "user"),
    ]
    assert [prompt.asked_by for prompt in person.prompts] == ["deploy", "deploy"]


def test_detached_call_is_suspended_and_made_again(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        for value in (True, "us-2"):
            with pytest.raises(mt.Suspended) as raised:
                await deploy(mt.Inquirer(store, conversation))
            (question,) = raised.value.pending
            assert question.id in str(raised.value)
            assert question == (await store.pending())[0]
            await store.answer(question.id, value, user="u42")
        assert await deploy(mt.Inquirer(store, conversation)) == "Deployed in us-2."
        assert kinds(store, conversation).count("tool_call_request") == 1
        assert kinds(store, conversation).count("inquiry_request") == 2
        assert (await store.read(conversation)).turns[-1].open is False

    asyncio.run(scene())


def test_different_call_does_not_continue_the_suspended_one(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        with pytest.raises(mt.Suspended):
            await deploy(mt.Inquirer(store, conversation))
        with pytest.raises(mt.Suspended) as raised:
            await deploy(mt.Inquirer(store, conversation), "call_2")
        assert [question.request.id for question in raised.value.pending] == [
            "call_1.confirm.1",
            "call_2.confirm.1",
        ]

    asyncio.run(scene())


def test_turn_with_several_calls_remembers_answers(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        person = mt.ScriptedPrompter(
            {
                "deploy.confirm": mt.Answered(value=True, remember=True),
                "deploy.region": ["eu-1", "us-2"],
            }
        )
        inquirer = mt.Inquirer(store, conversation, person)
        async with inquirer.turn("Ship it", author="ada"):
            assert await deploy(inquirer, "call_1") == "Deployed in eu-1."
            assert await deploy(inquirer, "call_2") == "Deployed in us-2."
        assert [prompt.question.id for prompt in person.prompts] == ["confirm", "region", "region"]
        asked = [
            (e.content, e.author)
            for e in recorded(store, conversation).events
            if isinstance(e, ChatRequest)
        ]
        assert asked == [("Ship it", "ada")]
        assert kinds(store, conversation).count("turn_end") == 1

    asyncio.run(scene())


def test_concurrent_calls_ask_concurrently(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation, chat = begun(store), Chat()
        inquirer = mt.Inquirer(store, conversation, chat)

        async def asks(tool: str) -> bool:
            async with inquirer.call(tool, "call_1") as call:
                return await call.ask(mt.Question.boolean(tool, "Sure?"))

        both = asyncio.gather(asks("left"), asks("right"))
        await until(lambda: len(chat.waiting) == 2)
        chat.says("right", mt.Answered(value=False))
        chat.says("left", mt.Answered(value=True))
        assert await both == [True, False]
        assert kinds(store, conversation).count("turn_start") == 1

    asyncio.run(scene())


def test_turn_is_suspended_when_no_concurrent_call_can_progress(store: ConversationStore) -> None:
    """Under `defer` the turn is suspended once no call can make progress."""

    async def scene() -> None:
        conversation = begun(store)
        inquirer = mt.Inquirer(store, conversation)
        worked: list[str] = []

        async def works() -> None:
            async with inquirer.call("works", "call_2") as call:
                await asyncio.sleep(0.05)
                worked.append(call.finish("worked"))

        asked: list[object] = []
        with pytest.raises(mt.Suspended):
            async with inquirer.turn():
                asked += await asyncio.gather(deploy(inquirer), works(), return_exceptions=True)
        assert isinstance(asked[0], mt.Suspended)
        done = asked[1]
        assert (done, worked, tool_results(store, conversation)) == (None, ["worked"], ["worked"])
        assert (await store.read(conversation)).turns[-1].open

    asyncio.run(scene())


def test_exception_in_the_block_is_the_tools_error(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        with pytest.raises(mt.CallEnded) as ended:
            await deploy(
                mt.Inquirer(store, conversation, mt.ScriptedPrompter({"deploy.confirm": False}))
            )
        with pytest.raises(ZeroDivisionError):
            async with mt.Inquirer(store, conversation).call("divides", "call_2"):
                raise ZeroDivisionError("by nothing")
        rejected, failed = [
            e for e in recorded(store, conversation).events if isinstance(e, ToolCallResponse)
        ]
        assert rejected.is_error
        assert (ended.value.content, ended.value.is_error) == (rejected.content, True)
        assert isinstance(ended.value.__cause__, mt.Rejected)
        assert failed.is_error
        assert rejected.content.startswith("The user reviewed the `deploy` call and rejected it.")
        assert rejected.content.endswith("Not deployed.")
        assert failed.content == "ZeroDivisionError: by nothing"

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("reply", "ended"),
    [
        (
            mt.Replied("Ask Bob."),
            mt.CallEnded(
                '{"cancelled": true, "answered": {}, "reply": "Ask Bob."}', is_error=False
            ),
        ),
        (mt.EndedTurn(), mt.CallEnded("Tool input cancelled by user.", turn_ended=True)),
    ],
)
def test_call_without_an_answer_has_a_text_for_the_model(
    store: ConversationStore, reply: mt.Reply, ended: mt.CallEnded
) -> None:
    async def scene() -> None:
        conversation = begun(store)
        inquirer = mt.Inquirer(store, conversation, mt.ScriptedPrompter({"deploy.confirm": reply}))
        async with inquirer.turn():
            with pytest.raises(mt.CallEnded) as raised:
                await deploy(inquirer)
            assert (str(raised.value), vars(raised.value)) == (str(ended), vars(ended))
            if ended.turn_ended:
                with pytest.raises(mt.CallEnded, match="the user ended the turn") as raised:
                    await deploy(inquirer, "call_2")
                assert raised.value.turn_ended
        assert tool_results(store, conversation) == [ended.content]
        end = recorded(store, conversation).events[-1]
        assert isinstance(end, TurnEnd)
        assert end.status == ("ended_by_user" if ended.turn_ended else "completed")

    asyncio.run(scene())


def test_detached_policies_apply_to_an_inquirer(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        with pytest.raises(mt.CallEnded, match="no interactive terminal is available"):
            await deploy(mt.Inquirer(store, conversation, None, "deny"))
        async with mt.Inquirer(store, conversation, detached="defaults").call(
            "deploy", "call_2"
        ) as call:
            assert await call.ask(mt.Question.boolean("sure", "Sure?", default=True)) is True
            assert await call.try_ask(CONFIRM) == mt.Unanswered("no_default")

    asyncio.run(scene())


def test_route_lets_a_model_answer(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        model = mt.ScriptedModel(
            [],
            [{"tool": "*", "question": "*", "answers": [{"reason": "It fits.", "answer": True}]}],
        )
        inquirer = mt.Inquirer(store, conversation, routes={"deploy.*": "assistant"}, model=model)
        async with inquirer.turn("Ship it"), inquirer.call("deploy", "call_1") as call:
            assert await call.try_ask(CONFIRM) == mt.Answer(
                value=True, reason="It fits.", by="assistant"
            )
        with pytest.raises(mt.ConfigError, match="there is no model to answer: pass `model=`"):
            mt.Inquirer(store, conversation, routes={"deploy.*": "assistant"})

    asyncio.run(scene())


def test_whole_form_is_asked(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        person = mt.ScriptedPrompter(
            {"deploy.confirm": [True, True], "deploy.region": [mt.WentBack(), "eu-1"]}
        )
        async with mt.Inquirer(store, conversation, person).call("deploy", "call_1") as call:
            answers = await call.ask_form(mt.Form([CONFIRM, REGION], review=True))
            assert (answers[CONFIRM], answers[REGION]) == (True, "eu-1")
        person.assert_exhausted()

    asyncio.run(scene())


def test_secret_is_removed_from_the_models_text(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        async with mt.Inquirer(
            store, conversation, mt.ScriptedPrompter({"login.token": "hunter2"})
        ).call("login", "call_1") as call:
            token = await call.ask(mt.Question.secret("token", "The token?"))
            assert call.finish(f"with {token.reveal()}") == "with [redacted]"
        assert "hunter2" not in repr(recorded(store, conversation).events)

    asyncio.run(scene())


def test_cancelled_call_stays_open_and_cancelled_question_does_not(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        conversation, chat = begun(store), Chat()
        inquirer = mt.Inquirer(store, conversation, chat)
        task = asyncio.create_task(deploy(inquirer))
        await until(lambda: chat.waiting)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert chat.taken_away == ["confirm"]
        assert [pair.outcome for pair in recorded_pairs(recorded(store, conversation))] == ["open"]

        async with inquirer.call("deploy", "call_1", ARGUMENTS) as call:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await call.ask(CONFIRM)
            asking = asyncio.create_task(call.ask(REGION))
            await until(lambda: "region" in chat.waiting)
            chat.says("region", mt.Answered("eu-1"))
            assert await asking == "eu-1"
        assert [
            (pair.question, pair.outcome) for pair in recorded_pairs(recorded(store, conversation))
        ] == [
            ("deploy.confirm", "cancelled"),
            ("deploy.region", "answered"),
        ]
        assert (await store.read(conversation)).turns[-1].open is False

    asyncio.run(scene())


def test_answer_from_another_process_while_waiting(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        task = asyncio.create_task(deploy(mt.Inquirer(store, conversation, mt.InboxPrompter())))
        for value in (True, "eu-1"):
            await until(lambda: _elsewhere(store.pending()))
            await store.answer((await store.pending())[0].id, value)
        assert await task == "Deployed in eu-1."

    asyncio.run(scene())


def test_turn_holds_the_lock_of_its_conversation(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        person = mt.ScriptedPrompter(
            {"deploy.confirm": lambda _: True, "deploy.region": lambda _: "eu-1"}
        )
        async with await store.open(conversation):
            with pytest.raises(mt.StoreLocked):
                await deploy(mt.Inquirer(store, conversation, person))
        for number in range(3):
            inquirer = mt.Inquirer(store, conversation, person)
            await asyncio.gather(*(deploy(inquirer, f"call_{number}_{n}") for n in range(3)))
            async with inquirer.turn():
                with pytest.raises(mt.StoreLocked):
                    await store.open(conversation)
            async with await store.open(conversation):
                pass
        assert len(tool_results(store, conversation)) == 9

    asyncio.run(scene())


def test_invalid_call_is_an_error_at_once(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = begun(store)
        inquirer = mt.Inquirer(store, conversation)
        for tool, call_id, arguments, says in [
            ("de.ploy", "call_1", {}, "`de.ploy` is not a valid tool name"),
            ("deploy", "", {}, "has no id"),
            ("deploy", "call_1", [1], "must be a JSON object"),
            ("deploy", "call_1", {"when": object()}, "/when"),
        ]:
            with pytest.raises(mt.ConfigError, match=says):
                async with inquirer.call(tool, call_id, arguments):  # type: ignore[arg-type]  # that is the point
                    pass
        async with inquirer.call("deploy", "call_1") as call:
            with pytest.raises(TypeError, match="A result is not a question"):
                call.finish(CONFIRM)
        with pytest.raises(RuntimeError, match="This call is over"):
            await call.ask(CONFIRM)

    asyncio.run(scene())


def test_crashed_call_starts_again_with_recorded_answers(tmp_path: Path) -> None:
    """A call that was interrupted by a crash starts again with the recorded answers."""

    async def first() -> None:
        store = mt.open_store(tmp_path)
        conversation = begun(store)
        chat = Chat()
        task = asyncio.create_task(deploy(mt.Inquirer(store, conversation, chat)))
        await until(lambda: chat.waiting)
        chat.says("confirm", mt.Answered(value=True))
        await until(lambda: "region" in chat.waiting)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def second() -> None:
        store = mt.open_store(tmp_path)
        person = mt.ScriptedPrompter({"deploy.region": "eu-1"})
        assert (
            await deploy(mt.Inquirer(store, (await store.ids())[0], person)) == "Deployed in eu-1."
        )
        person.assert_exhausted()

    asyncio.run(first())
    asyncio.run(second())


def test_turn_with_all_results_is_ended_before_the_next_begins(store: ConversationStore) -> None:
    """A process may die between the last result and the end of the turn."""

    async def scene() -> None:
        person = mt.ScriptedPrompter(
            {"deploy.confirm": lambda _: True, "deploy.region": lambda _: "eu-1"}
        )
        complete = begun(memory := mt.MemoryStore())
        await deploy(mt.Inquirer(memory, complete, person))
        conversation = begun(store)
        async with await store.open(conversation) as journal:
            await journal.append(recorded(memory, complete).events[:-1])
        async with (inquirer := mt.Inquirer(store, conversation, person)).turn("Next"):
            await deploy(inquirer)
        assert kinds(store, conversation).count("turn_start") == 2
        assert not any(window.open for window in (await store.read(conversation)).turns)

    asyncio.run(scene())


def test_midturn_tool_runs_in_a_foreign_call(store: ConversationStore) -> None:
    """An adapter for a framework runs midturn tools this way."""
    cleaned: list[str] = []

    @mt.tool
    async def asks(ctx: mt.ToolContext[list[str]]) -> str:
        """Ask and wait."""
        try:
            return f"{await ctx.ask(CONFIRM)} {ctx.deps}"
        finally:
            cleaned.append("cleaned")

    @mt.tool
    def returns(ctx: mt.ToolContext) -> mt.NeedsInput | str:
        """Return what must be known, and run again."""
        return (
            f"{ctx.answers['region']}"
            if "region" in ctx.answers
            else mt.NeedsInput(mt.Form([REGION]))
        )

    @mt.tool
    async def gives_up() -> str:
        """Cancel itself."""
        raise asyncio.CancelledError

    async def scene() -> None:
        conversation = begun(store)
        person = mt.ScriptedPrompter(
            {"asks.confirm": True, "returns.region": "us-2", "ask_user.answer": "well"}
        )
        expected: list[tuple[mt.Tool, JsonObject, str]] = [
            (asks, {}, "True ['x']"),
            (returns, {}, "us-2"),
            (mt.ask_user, {"question": "How?"}, '{"answer_type": "text", "answer": "well"}'),
        ]
        for number, (tool, arguments, content) in enumerate(expected):
            async with mt.Inquirer(store, conversation, person).call(
                tool, f"call_{number}", arguments
            ) as call:
                outcome = await call.execute(tool, deps=["x"])
            assert outcome == mt.Success(content)
        assert [pair.question for pair in recorded_pairs(recorded(store, conversation))] == [
            "asks.confirm",
            "returns.region",
            "ask_user.answer",
        ]
        assert person.prompts[-1].asked_by == "Assistant"
        async with mt.Inquirer(store, conversation).call("gives_up", "call_3") as call:
            assert isinstance(await call.execute(gives_up), mt.ToolError)

        cleaned.clear()
        with pytest.raises(mt.Suspended):
            async with mt.Inquirer(store, conversation).call("asks", "call_4") as call:
                await call.execute(asks)
        assert cleaned == ["cleaned"]
        with pytest.raises(mt.CallEnded):
            async with mt.Inquirer(store, conversation, detached="deny").call(
                "asks", "call_5"
            ) as call:
                await call.execute(asks)
        assert cleaned == ["cleaned"] * 2

    asyncio.run(scene())


def test_cancelling_one_of_two_questions_keeps_the_other(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation, chat = begun(store), Chat()
        async with mt.Inquirer(store, conversation, chat).call("deploy", "call_1") as call:
            first, second = (
                asyncio.create_task(call.ask(CONFIRM)),
                asyncio.create_task(call.ask(REGION)),
            )
            await until(lambda: "confirm" in chat.waiting)
            first.cancel()
            await until(lambda: "region" in chat.waiting)
            chat.says("region", mt.Answered("eu-1"))
            assert await second == "eu-1"
        assert [
            (pair.question, pair.outcome, pair.reason)
            for pair in recorded_pairs(recorded(store, conversation))
        ] == [
            ("deploy.confirm", "cancelled", "superseded"),
            ("deploy.region", "answered", None),
        ]

    asyncio.run(scene())


async def charge(
    inquirer: mt.Inquirer, key: str | None, ran: list[str], call_id: str = "call_1"
) -> mt.CallContent:
    """Charge once in one turn."""

    async def function(call: mt.InquirerCall) -> str:
        ran.append(call.idempotency_key)
        return f"Charged in {await call.ask(REGION)}."

    async with inquirer.turn("Charge it.", key=key):
        return await inquirer.run("charge", call_id, {}, function)


def test_same_key_returns_the_ended_turn_without_running_calls(store: ConversationStore) -> None:
    conversation, ran = begun(store), list[str]()
    person = mt.ScriptedPrompter({"charge.region": "eu-1"})

    first = asyncio.run(charge(mt.Inquirer(store, conversation, person), "job-1", ran))
    again = asyncio.run(charge(mt.Inquirer(store, conversation), "job-1", ran))

    assert first == again == "Charged in eu-1."
    assert not again.turn_ended
    assert len(ran) == 1
    assert kinds(store, conversation).count("turn_start") == 1


def test_another_key_or_no_key_begins_another_turn(store: ConversationStore) -> None:
    conversation, ran = begun(store), list[str]()
    for key in ("job-1", "job-2", None):
        asyncio.run(
            charge(
                mt.Inquirer(store, conversation, mt.ScriptedPrompter({"charge.region": "eu-1"})),
                key,
                ran,
            )
        )

    # later turns have followed
    again = asyncio.run(charge(mt.Inquirer(store, conversation), "job-1", ran))

    assert again == "Charged in eu-1."
    assert len(set(ran)) == len(ran) == 3


def test_key_with_another_message_is_refused(store: ConversationStore) -> None:
    async def scene() -> None:
        inquirer = mt.Inquirer(store, await store.new("Chat"))
        async with inquirer.turn("Charge it.", key="job-1"):
            await inquirer.run("charge", "call_1", {}, lambda _: "done")
        with pytest.raises(
            mt.ConfigError, match=r"'job-1' belongs to the turn that began with 'Charge it\.'"
        ):
            async with inquirer.turn("Delete it.", key="job-1"):
                pass
        async with inquirer.turn(key="job-1"):
            assert inquirer.resumes

    asyncio.run(scene())


def test_same_key_continues_the_open_turn_and_another_key_does_not(
    store: ConversationStore,
) -> None:
    conversation, ran = begun(store), list[str]()
    with pytest.raises(mt.Suspended) as suspended:
        asyncio.run(charge(mt.Inquirer(store, conversation), "job-1", ran))
    with pytest.raises(mt.TurnOpen, match="no other key"):
        asyncio.run(charge(mt.Inquirer(store, conversation), "job-2", ran))

    _elsewhere(store.answer(suspended.value.pending[0].id, "us-2"))

    assert asyncio.run(charge(mt.Inquirer(store, conversation), "job-1", ran)) == "Charged in us-2."
    assert len(set(ran)) == 1


def test_new_call_in_a_finished_turn_is_not_run(store: ConversationStore) -> None:
    conversation, ran = begun(store), list[str]()
    asyncio.run(
        charge(
            mt.Inquirer(store, conversation, mt.ScriptedPrompter({"charge.region": "eu-1"})),
            "job-1",
            ran,
        )
    )

    late = asyncio.run(charge(mt.Inquirer(store, conversation), "job-1", ran, "call_2"))

    assert (late, late.is_error, late.turn_ended) == (
        "Tool call not run: its turn is over, and this call was not a part of it.",
        True,
        True,
    )
    assert len(ran) == 1
    assert kinds(store, conversation).count("tool_call_request") == 1
