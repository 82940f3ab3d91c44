from __future__ import annotations

import asyncio
import threading
from enum import Enum
from pathlib import Path

import pytest

from midturn.events.outcome import Outcome, Success, ToolError
from midturn.events.types import Source
from midturn.ports import Tool
from midturn.question.form import Form
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.tools.asking import ToolContext, Unanswered
from midturn.tools.function import tool
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer
from support.tool_running import Responder, ToolEnvironment, execute, tool_run


class Region(Enum):
    """Where a service runs."""

    EUROPE = "eu-1"
    AMERICA = "us-2"


CONFIRM = Question.boolean("confirm", "Deploy?")
REGION = Question.select("region", "Which region?", Region)
NOTE = Question.text("note", "A note?", optional=True)
PASSPHRASE = Question.secret("passphrase", "The passphrase?")


def test_an_ask_waits_and_returns_the_typed_answer() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        region = await ctx.ask(REGION) if await ctx.ask(CONFIRM) else None
        return region.name if region else "no"

    responder = Responder({"confirm": True, "region": "us-2"})

    assert execute(deploy, {}, around=ToolEnvironment(ask=responder)) == Success("AMERICA")
    assert [asking.form.questions for asking in responder.asked] == [(CONFIRM,), (REGION,)]
    assert {(asking.source, asking.on_failure) for asking in responder.asked} == {
        (Source.tool("deploy"), "fail_call")
    }


def test_a_sync_function_asks_from_its_thread() -> None:
    @tool
    def deploy(ctx: ToolContext) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return "yes" if ctx.ask_sync(CONFIRM) else "no"

    assert execute(
        deploy, {}, around=ToolEnvironment(ask=Responder({"confirm": False}))
    ) == Success("no")


def test_the_answers_to_a_form_are_indexed_by_question() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        answers = await ctx.ask_form(Form((REGION, NOTE)))
        assert REGION in answers
        assert NOTE not in answers
        return f"{answers[REGION].name} {answers[NOTE]} {answers!r}"

    assert execute(
        deploy, {}, around=ToolEnvironment(ask=Responder({"region": "eu-1", "note": None}))
    ) == Success("EUROPE None FormAnswers(region, note)")


def test_try_ask_returns_responder_and_reason() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        match await ctx.try_ask(CONFIRM):
            case Answer(value, reason, by):
                return f"{value} {reason} {by}"
            case Unanswered(reason):
                return f"unanswered: {reason}"

    given = Responder({"confirm": Answer(value=False, by="assistant", reason="Too risky.")})
    denied = Responder({"confirm": NoAnswer("detached_denied")})

    assert execute(deploy, {}, around=ToolEnvironment(ask=given)) == Success(
        "False Too risky. assistant"
    )
    assert execute(deploy, {}, around=ToolEnvironment(ask=denied)) == Success(
        "unanswered: detached_denied"
    )
    assert given.asked[0].on_failure == "report_all"


def test_asked_questions_are_in_the_answers_and_a_secret_stays_wrapped() -> None:
    @tool
    async def login(ctx: ToolContext) -> str:
        secret = await ctx.ask(PASSPHRASE)
        return f"{len(secret.reveal())} {ctx.answers['passphrase']} {ctx.answers['earlier']}"

    around = ToolEnvironment(ask=Responder({"passphrase": SecretValue("correct horse")}))

    assert execute(login, {}, {"earlier": 1}, around) == Success("13 SecretValue(hidden) 1")


def test_a_requested_secret_is_removed_from_the_result() -> None:
    @tool
    async def login(ctx: ToolContext) -> str:
        return f"logged in with {(await ctx.ask(PASSPHRASE)).reveal()}"

    around = ToolEnvironment(ask=Responder({"passphrase": SecretValue("correct horse")}))

    assert execute(login, {}, around=around) == Success("logged in with [redacted]")


def test_the_context_knows_its_call(tmp_path: Path) -> None:
    @tool
    async def look(n: int, ctx: ToolContext[list[str]]) -> str:
        ctx.deps.append("seen")
        assert ctx.root == tmp_path
        return f"{n} {ctx.arguments['n']} {ctx.idempotency_key} {ctx.cancelled}"

    deps: list[str] = []

    assert execute(look, {"n": 1}, around=ToolEnvironment(tmp_path, deps=deps)) == Success(
        "1 1 c1.event_1 False"
    )
    assert deps == ["seen"]


def test_one_coroutine_can_ask_questions_concurrently() -> None:
    @tool
    async def both(ctx: ToolContext) -> list[object]:
        return list(await asyncio.gather(ctx.ask(CONFIRM), ctx.ask(NOTE)))

    assert execute(
        both, {}, around=ToolEnvironment(ask=Responder({"confirm": True, "note": "x"}))
    ) == Success('[true,"x"]')


def cancelled_while_asking(asking: Tool) -> Responder:
    """Run a tool until it asks, and cancel it."""

    async def scene() -> Responder:
        responder = Responder()
        task = asyncio.create_task(
            asking.execute(tool_run(asking, {}, around=ToolEnvironment(ask=responder)))
        )
        await responder.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return responder

    return asyncio.run(scene())


def test_cancelling_a_coroutine_runs_finally_blocks_and_refuses_their_questions() -> None:
    seen: list[str] = []

    @tool
    async def deploy(ctx: ToolContext) -> None:
        try:
            await ctx.ask(CONFIRM)
        finally:
            await asyncio.sleep(0)
            seen.append(f"cleaned up, cancelled: {ctx.cancelled}")
            try:
                await ctx.ask(NOTE)
            except asyncio.CancelledError:
                seen.append("refused")

    responder = cancelled_while_asking(deploy)

    assert seen == ["cleaned up, cancelled: True", "refused"]
    assert len(responder.asked) == 1


def test_a_tool_that_suppresses_its_cancellation_is_still_cancelled() -> None:
    @tool
    async def stubborn(ctx: ToolContext) -> str:
        try:
            await ctx.ask(CONFIRM)
        except asyncio.CancelledError:
            return "went on"
        return ""

    cancelled_while_asking(stubborn)


def test_cancelling_ends_a_waiting_thread_and_refuses_its_next_question() -> None:
    """The thread must not hang, and must not receive the cancellation as an ordinary error."""
    seen: list[str] = []
    ended = threading.Event()

    @tool
    def deploy(ctx: ToolContext) -> None:
        try:
            ctx.ask_sync(CONFIRM)
        except Exception:  # noqa: BLE001 (this is what must not happen)
            seen.append("an ordinary error")
        finally:
            try:
                ctx.ask_sync(NOTE)
            except asyncio.CancelledError:
                seen.append(f"refused, cancelled: {ctx.cancelled}")
            ended.set()

    cancelled_while_asking(deploy)

    assert ended.wait(120)
    assert seen == ["refused, cancelled: True"]


def test_a_thread_that_asks_after_its_loop_ended_is_cancelled() -> None:
    go_on, ended = threading.Event(), threading.Event()
    seen: list[type[BaseException]] = []

    @tool
    def late(ctx: ToolContext) -> None:
        go_on.wait(120)
        try:
            ctx.ask_sync(CONFIRM)
        except BaseException as error:
            seen.append(type(error))
            raise
        finally:
            ended.set()

    async def scene() -> None:
        task = asyncio.create_task(late.execute(tool_run(late, {})))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(scene())
    go_on.set()

    assert ended.wait(120)
    assert seen == [asyncio.CancelledError]


def test_blocking_asks_in_a_coroutine_are_an_error_without_deadlock() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> bool:
        return ctx.ask_sync(CONFIRM)

    outcome = execute(deploy, {})

    assert isinstance(outcome, ToolError)
    assert "await ctx.ask" in outcome.message


def test_a_leftover_task_of_a_tool_cannot_ask() -> None:
    async def scene() -> str:
        returned = asyncio.Event()

        @tool
        async def deploy(ctx: ToolContext) -> str:
            async def later() -> str:
                await returned.wait()
                with pytest.raises(RuntimeError) as raised:
                    await ctx.ask(CONFIRM)
                return str(raised.value)

            left.append(asyncio.create_task(later()))
            return "done"

        left: list[asyncio.Task[str]] = []
        assert await deploy.execute(tool_run(deploy, {})) == Success("done")
        returned.set()
        return await left[0]

    assert (
        asyncio.run(scene())
        == "This call is over, because its function has returned. Ask before it returns."
    )


class Gate(Responder):
    """Answers yes once a number of questions are open."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.wanted = wanted

    async def __call__(self, asking: FormWanted) -> Given:
        """Wait for the other questions."""
        self.asked.append(asking)
        if len(self.asked) == self.wanted:
            self.waiting.set()
        await self.waiting.wait()
        return {"confirm": Answer(value=True)}


def test_many_blocked_threads_do_not_block_each_other() -> None:
    """More functions wait for an answer than the thread pool has threads."""

    @tool
    def deploy(ctx: ToolContext) -> str:
        return "yes" if ctx.ask_sync(CONFIRM) else "no"

    async def scene() -> list[Outcome]:
        gate = Gate(60)
        around = ToolEnvironment(ask=gate)
        return list(
            await asyncio.gather(
                *(deploy.execute(tool_run(deploy, {}, around=around)) for _ in range(60))
            )
        )

    assert asyncio.run(scene()) == [Success("yes")] * 60
