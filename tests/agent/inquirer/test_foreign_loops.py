"""The inquirer in loops of other frameworks, which restart, swallow exceptions and make calls at
once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

import midturn as mt
from midturn.events.types import ToolCallRequest, ToolCallResponse, TurnEnd
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import in_a_loop

CONFIRM = mt.Question.boolean("confirm", "Sure?")

T = TypeVar("T")


def _elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Run in a thread with its own event loop: a test may call this inside a running loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(in_a_loop, work).result()


class Loop:
    """A loop that starts over with every entry, as frameworks do after a restart.

    It counts tool effects.
    """

    def __init__(
        self,
        store: ConversationStore,
        prompter: mt.Prompter | None = None,
        *,
        swallows: bool = False,
    ) -> None:
        self.store = store
        self.conversation = _elsewhere(store.new("Ship it."))
        self.effects: Counter[str] = Counter()
        self.keys: dict[str, set[str]] = {}
        self.prompter = prompter
        self._swallows = swallows

    async def enter(self, *ids: str) -> list[mt.CallContent | str]:
        """Hold the turn and make these calls of one tool at once."""
        inquirer = mt.Inquirer(self.store, self.conversation, self.prompter)
        async with inquirer.turn("Ship it."):
            return list(await asyncio.gather(*(self.call(inquirer, id) for id in ids)))

    async def call(self, inquirer: mt.Inquirer, id: str) -> mt.CallContent | str:

        async def function(call: mt.InquirerCall) -> str:
            if not await call.ask(CONFIRM):
                raise mt.Rejected("Not deployed.")
            self.effects[id] += 1
            self.keys.setdefault(id, set()).add(call.idempotency_key)
            return f"{id} deployed."

        try:
            return await inquirer.run("deploy", id, {"env": id}, function)
        except mt.Suspended as suspended:
            if not self._swallows:
                raise
            return f"An error occurred: {suspended}"

    async def fail(self, id: str, error: BaseException) -> None:
        """Make a call and leave the turn with an error."""
        async with (inquirer := mt.Inquirer(self.store, self.conversation, self.prompter)).turn(
            "Ship it."
        ):
            await self.call(inquirer, id)
            raise error

    async def until_done(self, *ids: str) -> tuple[list[mt.CallContent | str], int]:
        """Answer one open question after the other with yes, starting over each time."""
        for entries in range(1, 20):
            try:
                return await self.enter(*ids), entries
            except mt.Suspended as suspended:
                await self.store.answer(suspended.pending[0].id, value=True)
        raise AssertionError("it never ends")

    def statuses(self) -> list[str]:
        return [
            event.status
            for event in _elsewhere(self.store.read(self.conversation)).events
            if isinstance(event, TurnEnd)
        ]

    def recorded(self) -> list[tuple[str, bool]]:
        events = _elsewhere(self.store.read(self.conversation)).events
        return [
            (event.content, event.is_error)
            for event in events
            if isinstance(event, ToolCallResponse)
        ]


@pytest.mark.parametrize("swallows", [False, True])
def test_concurrent_calls_answered_one_by_one_run_once_each(
    store: ConversationStore, *, swallows: bool
) -> None:
    async def scene() -> None:
        loop = Loop(store, swallows=swallows)
        contents, entries = await loop.until_done("a", "b", "c")
        assert contents == ["a deployed.", "b deployed.", "c deployed."]
        assert entries == 4
        assert loop.effects == {"a": 1, "b": 1, "c": 1}
        events = (await store.read(loop.conversation)).events
        assert sum(isinstance(event, ToolCallRequest) for event in events) == 3
        assert len((await store.read(loop.conversation)).pairs()) == 3

    asyncio.run(scene())


def test_swallowed_suspension_is_raised_when_the_turn_block_exits(store: ConversationStore) -> None:
    async def scene() -> None:
        loop = Loop(store, swallows=True)
        with pytest.raises(mt.Suspended) as raised:
            await loop.enter("a")
        assert [question.tool for question in raised.value.pending] == ["deploy"]
        assert "midturn answer" not in str(raised.value)

    asyncio.run(scene())


def test_wrapped_suspension_is_raised_and_other_errors_are_not_hidden(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        loop = Loop(store)
        inquirer = mt.Inquirer(store, loop.conversation)

        async def asks(call: mt.InquirerCall) -> bool:
            return await call.ask(CONFIRM)

        async def framework() -> None:
            async with inquirer.turn("Ship it."):
                try:
                    await inquirer.run("deploy", "a", {}, asks)
                except mt.Suspended as suspended:
                    raise RuntimeError("tool failed") from suspended

        with pytest.raises(mt.Suspended):
            await framework()
        with pytest.raises(ZeroDivisionError):
            async with inquirer.turn("Ship it."):
                raise ZeroDivisionError

    asyncio.run(scene())


@pytest.mark.parametrize(
    "error", [ConnectionError("503"), asyncio.CancelledError(), KeyboardInterrupt()]
)
def test_error_leaves_the_turn_open_and_a_retry_repeats_no_call(
    store: ConversationStore, error: BaseException
) -> None:
    async def scene() -> None:
        loop = Loop(store, mt.ScriptedPrompter({"deploy.confirm": [mt.Answered(True)]}))
        with pytest.raises(type(error)):
            await loop.fail("a", error)
        assert await store.open_turns(loop.conversation) == {loop.conversation}
        assert await loop.enter("a") == ["a deployed."]
        assert loop.effects == {"a": 1}
        assert loop.statuses() == ["completed"]

    asyncio.run(scene())


def test_turn_left_open_by_an_error_is_failed_by_the_next_message(store: ConversationStore) -> None:
    async def scene() -> None:
        loop = Loop(store, mt.ScriptedPrompter({"deploy.confirm": [mt.Answered(True)]}))
        with pytest.raises(ConnectionError):
            await loop.fail("a", ConnectionError("503"))
        async with mt.Inquirer(store, loop.conversation).turn("Something else."):
            pass
        assert loop.statuses() == ["failed", "completed"]

    asyncio.run(scene())


def test_equal_calls_of_two_agents_are_recorded_separately(store: ConversationStore) -> None:
    """Two agents of one run may have tools of the same name, and a model may reuse a call ID."""

    async def scene() -> None:
        loop = Loop(store)
        ran: list[str] = []

        def as_agent(name: str) -> Callable[[mt.InquirerCall], str]:
            def work(_: mt.InquirerCall) -> str:
                ran.append(name)
                return name

            return work

        async def entered() -> list[str]:
            async with (inquirer := mt.Inquirer(store, loop.conversation)).turn(
                "Ship it.", key="job"
            ):
                return [
                    await inquirer.run("delete", "c1", {}, as_agent(name), agent=name)
                    for name in ("planner", "cleaner")
                ]

        assert await entered() == ["planner", "cleaner"]
        assert await entered() == ["planner", "cleaner"]
        assert ran == ["planner", "cleaner"]

    asyncio.run(scene())


def test_another_message_during_an_open_turn_is_refused(store: ConversationStore) -> None:
    async def scene() -> None:
        loop = Loop(store)
        with pytest.raises(mt.Suspended):
            await loop.enter("a")
        with pytest.raises(mt.TurnOpen) as raised:
            async with mt.Inquirer(store, loop.conversation).turn("Something else."):
                pass
        assert (raised.value.conversation, raised.value.text) == (loop.conversation, "Ship it.")
        assert raised.value.to_json()["error"] == "TurnOpen"
        assert [question.tool for question in raised.value.pending] == ["deploy"]

    asyncio.run(scene())


def test_crash_between_two_results_repeats_no_call(store: ConversationStore) -> None:
    """The process dies after the first result. A cancelled task also leaves the turn open."""

    async def scene() -> None:
        loop = Loop(store, mt.ScriptedPrompter({"deploy.confirm": [True, True]}))
        inquirer = mt.Inquirer(store, loop.conversation, loop.prompter)
        reached = asyncio.Event()

        async def dies() -> None:
            async with inquirer.turn("Ship it."):
                await loop.call(inquirer, "a")
                async with inquirer.call("deploy", "b", {"env": "b"}):
                    reached.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(dies())
        await reached.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await loop.enter("a", "b") == ["a deployed.", "b deployed."]
        assert loop.effects == {"a": 1, "b": 1}

    asyncio.run(scene())


def test_equal_calls_are_distinguished_by_their_order(store: ConversationStore) -> None:
    async def scene() -> None:
        loop = Loop(store)
        contents, entries = await loop.until_done("a", "a")
        assert (contents, entries, loop.effects) == (["a deployed.", "a deployed."], 3, {"a": 2})
        assert len(loop.keys["a"]) == 2

    asyncio.run(scene())


def test_model_reads_the_recorded_result(
    store: ConversationStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(call: mt.InquirerCall) -> str:
        return {"a": call.idempotency_key}["nope"]

    async def forgets(call: mt.InquirerCall) -> str:
        call.ask(CONFIRM)  # pyright: ignore[reportUnusedCoroutine]  # the mistake
        return "done"

    def blocks(call: mt.InquirerCall) -> object:
        return {
            "said": mt.ask_sync(mt.Question.text("name", "Name?")),
            "key": bool(call.idempotency_key),
        }

    async def scene() -> None:
        person = mt.ScriptedPrompter(
            {"deploy.confirm": [False, mt.Replied("Wait for Ada.")], "blocks.name": "x"}
        )
        loop = Loop(store, person)
        inquirer = mt.Inquirer(store, loop.conversation, person)
        async with inquirer.turn("Ship it."):
            contents = [
                await loop.call(inquirer, "a"),
                await loop.call(inquirer, "b"),
                await inquirer.run("broken", "c", {}, broken),
                await inquirer.run("blocks", "d", {}, blocks),
                await inquirer.run("forgets", "e", {}, forgets),
            ]
        found = [
            (str(content), isinstance(content, mt.CallContent) and content.is_error)
            for content in contents
        ]
        assert found == loop.recorded()
        assert [is_error for _, is_error in found] == [True, False, True, False, True]
        assert found[0][0].endswith("Not deployed.")
        assert "Wait for Ada." in found[1][0]
        assert found[2][0] == "KeyError: 'nope'"
        assert found[3][0] == '{"said":"x","key":true}'
        assert "never asked" in found[4][0]

    asyncio.run(scene())
    assert {record.levelno for record in caplog.records if record.name == "midturn.tools"} == {
        logging.ERROR
    }


def test_finish_returns_the_recorded_result(store: ConversationStore) -> None:
    async def scene() -> None:
        loop = Loop(store)
        async with mt.Inquirer(
            store, loop.conversation, mt.ScriptedPrompter({"deploy.confirm": False})
        ).call("deploy", "a") as call:
            await call.ask(CONFIRM)
            content = call.finish(mt.ToolError("Not deployed."))
        assert loop.recorded() == [(content, True)]

    asyncio.run(scene())


def test_loop_is_told_who_ended_the_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        loop = Loop(store, mt.ScriptedPrompter({"deploy.confirm": mt.EndedTurn()}))
        (content,) = await loop.enter("a")
        assert isinstance(content, mt.CallContent)
        assert (content.is_error, content.turn_ended) == (True, True)

    asyncio.run(scene())


def test_calls_without_an_event_loop(store: ConversationStore) -> None:
    loop = Loop(store)
    inquirer = mt.Inquirer(store, loop.conversation, mt.ScriptedPrompter({"deploy.confirm": True}))

    content = inquirer.run_sync("deploy", "a", {}, lambda call: f"{call.ask_sync(CONFIRM)}")

    assert content == "True"


@pytest.mark.parametrize("raises", [False, True])
def test_tool_that_ignores_a_suspension_has_no_result(
    store: ConversationStore, *, raises: bool
) -> None:
    """Frameworks turn exceptions of tools into text or into other exceptions."""

    async def swallows(call: mt.InquirerCall) -> str:
        try:
            return f"Sure: {await call.ask(CONFIRM)}"
        except Exception as error:  # noqa: BLE001  as frameworks do
            if raises:
                raise RuntimeError("tool failed") from None
            return f"An error occurred: {error}"

    async def scene() -> None:
        conversation = await store.new("Ship it.")

        async def enter() -> mt.CallContent:
            return await mt.Inquirer(store, conversation).run("deploy", "a", {}, swallows)

        with pytest.raises(mt.Suspended) as raised:
            await enter()
        await store.answer(raised.value.pending[0].id, value=True)
        assert await enter() == "Sure: True"

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("decision", "reads", "runs_with"),
    [
        ({"approve": True}, "paid 1", [1]),
        (
            {"arguments": {"n": 2}},
            'The user edited the arguments of this call. It ran with: {"n": 2}\npaid 2',
            [2],
        ),
        (
            {"approve": False, "reason": "No money."},
            'pay was skipped by the user. Reason: "No money."',
            [],
        ),
    ],
)
def test_call_that_needs_permission_follows_the_decision(
    store: ConversationStore, decision: dict[str, Any], reads: str, runs_with: list[int]
) -> None:
    async def scene() -> None:
        conversation, paid = await store.new(), list[object]()

        def pay(call: mt.InquirerCall) -> str:
            paid.append(call.context.arguments["n"])
            return f"paid {paid[-1]}"

        async def entered() -> list[mt.CallContent]:
            async with (inquirer := mt.Inquirer(store, conversation)).turn("Pay.", key="job"):
                return [
                    await inquirer.run("pay", "c1", {"n": 1}, pay, permission=True),
                    await inquirer.run("pay", "c2", {"n": 7}, pay),
                ]

        with pytest.raises(mt.Suspended) as raised:
            await entered()
        (question,) = raised.value.pending
        assert (question.kind, question.tool, question.arguments) == ("run", "pay", {"n": 1})
        await store.answer(question.id, user="ana", **decision)
        for _ in range(2):
            assert await entered() == [reads, "paid 7"]
        assert paid == [*runs_with, 7]

    asyncio.run(scene())


def test_calls_and_questions_of_a_loop_are_streamed(store: ConversationStore) -> None:
    async def scene() -> None:
        seen, inside = list[object](), list[str]()
        inquirer = mt.Inquirer(store, await store.new(), mt.ScriptedPrompter({"pay.sure": True}))

        async def pay(call: mt.InquirerCall) -> str:
            inside.extend(type(event).__name__ for event in seen)
            return str(await call.ask(mt.Question.boolean("sure", "Sure?")))

        with inquirer.watch(seen.append):
            async with inquirer.turn("Pay."):
                await inquirer.run("pay", "c1", {"n": 1}, pay)
        async with inquirer.turn("Pay again."):
            await inquirer.run("pay", "c2", {"n": 2}, pay)
        assert inside[:1] == ["ToolStarted"]
        assert [type(event).__name__ for event in seen] == [
            "ToolStarted",
            "Asked",
            "QuestionAnswered",
            "ToolFinished",
        ]
        started, asked, answered, finished = seen
        assert isinstance(started, mt.ToolStarted)
        assert (started.call.name, started.call.arguments) == ("pay", {"n": 1})
        assert isinstance(asked, mt.Asked)
        assert isinstance(answered, mt.QuestionAnswered)
        assert answered.id == asked.question.id
        assert isinstance(finished, mt.ToolFinished)
        assert finished.content == "True"

    asyncio.run(scene())
