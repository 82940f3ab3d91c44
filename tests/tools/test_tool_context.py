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
from midturn.turn.step import Answer, FormWanted, Given, NoAnswer
from support.tool_running import Around, Responder, execute, tool_run


class Region(Enum):
    """Where a service runs."""

    EUROPE = "eu-1"
    AMERICA = "us-2"


CONFIRM = Question.boolean("confirm", "Deploy?")
REGION = Question.select("region", "Which region?", Region)
NOTE = Question.text("note", "A note?", optional=True)
PASSPHRASE = Question.secret("passphrase", "The passphrase?")


def test_an_ask_waits_and_returns_the_answer_as_its_type() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        region = await ctx.ask(REGION) if await ctx.ask(CONFIRM) else None
        return region.name if region else "no"

    responder = Responder({"confirm": True, "region": "us-2"})

    assert execute(deploy, {}, around=Around(ask=responder)) == Success("AMERICA")
    assert [asking.form.questions for asking in responder.asked] == [(CONFIRM,), (REGION,)]
    assert {(asking.source, asking.on_failure) for asking in responder.asked} == {(Source.tool("deploy"), "fail_call")}


def test_a_sync_function_asks_from_its_thread() -> None:
    @tool
    def deploy(ctx: ToolContext) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return "yes" if ctx.ask_sync(CONFIRM) else "no"

    assert execute(deploy, {}, around=Around(ask=Responder({"confirm": False}))) == Success("no")


def test_the_answers_to_a_form_are_indexed_by_question() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        answers = await ctx.ask_form(Form((REGION, NOTE)))
        assert REGION in answers
        assert NOTE not in answers
        return f"{answers[REGION].name} {answers[NOTE]} {answers!r}"

    assert execute(deploy, {}, around=Around(ask=Responder({"region": "eu-1", "note": None}))) == Success(
        "EUROPE None FormAnswers(region, note)"
    )


def test_try_ask_tells_who_answered_and_why() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        match await ctx.try_ask(CONFIRM):
            case Answer(value, reason, by):
                return f"{value} {reason} {by}"
            case Unanswered(reason):
                return f"unanswered: {reason}"

    given = Responder({"confirm": Answer(value=False, by="assistant", reason="Too risky.")})
    denied = Responder({"confirm": NoAnswer("detached_denied")})

    assert execute(deploy, {}, around=Around(ask=given)) == Success("False Too risky. assistant")
    assert execute(deploy, {}, around=Around(ask=denied)) == Success("unanswered: detached_denied")
    assert given.asked[0].on_failure == "report_all"


def test_what_was_asked_is_among_the_answers_and_a_secret_stays_wrapped() -> None:
    @tool
    async def login(ctx: ToolContext) -> str:
        secret = await ctx.ask(PASSPHRASE)
        return f"{len(secret.reveal())} {ctx.answers['passphrase']} {ctx.answers['earlier']}"

    around = Around(ask=Responder({"passphrase": SecretValue("correct horse")}))

    assert execute(login, {}, {"earlier": 1}, around) == Success("13 SecretValue(hidden) 1")


def test_a_secret_that_was_asked_for_is_not_in_the_result() -> None:
    @tool
    async def login(ctx: ToolContext) -> str:
        return f"logged in with {(await ctx.ask(PASSPHRASE)).reveal()}"

    around = Around(ask=Responder({"passphrase": SecretValue("correct horse")}))

    assert execute(login, {}, around=around) == Success("logged in with [redacted]")


def test_the_context_knows_its_call(tmp_path: Path) -> None:
    @tool
    async def look(n: int, ctx: ToolContext[list[str]]) -> str:
        ctx.deps.append("seen")
        assert ctx.root == tmp_path
        return f"{n} {ctx.arguments['n']} {ctx.idempotency_key} {ctx.cancelled}"

    deps: list[str] = []

    assert execute(look, {"n": 1}, around=Around(tmp_path, deps=deps)) == Success("1 1 c1.event_1 False")
    assert deps == ["seen"]


def test_questions_of_one_coroutine_may_be_asked_at_once() -> None:
    @tool
    async def both(ctx: ToolContext) -> list[object]:
        return list(await asyncio.gather(ctx.ask(CONFIRM), ctx.ask(NOTE)))

    assert execute(both, {}, around=Around(ask=Responder({"confirm": True, "note": "x"}))) == Success('[true,"x"]')


def cancelled_while_asking(asking: Tool) -> Responder:
    """Run a tool until it asks, and cancel it."""

    async def scene() -> Responder:
        responder = Responder()
        task = asyncio.create_task(asking.execute(tool_run(asking, {}, around=Around(ask=responder))))
        await responder.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return responder

    return asyncio.run(scene())


def test_cancelling_a_coroutine_runs_its_finally_blocks_and_refuses_their_questions() -> None:
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


def test_a_tool_that_swallows_its_cancellation_is_cancelled_all_the_same() -> None:
    @tool
    async def stubborn(ctx: ToolContext) -> str:
        try:
            await ctx.ask(CONFIRM)
        except asyncio.CancelledError:
            return "went on"
        return ""

    cancelled_while_asking(stubborn)


def test_cancelling_ends_the_wait_of_a_thread_and_refuses_its_next_question() -> None:
    """The thread must neither hang nor take the cancellation for an ordinary error."""
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

    assert ended.wait(5)
    assert seen == ["refused, cancelled: True"]


def test_a_thread_that_asks_after_its_loop_is_gone_is_cancelled() -> None:
    go_on, ended = threading.Event(), threading.Event()
    seen: list[type[BaseException]] = []

    @tool
    def late(ctx: ToolContext) -> None:
        go_on.wait(5)
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

    assert ended.wait(5)
    assert seen == [asyncio.CancelledError]


def test_asking_in_the_wrong_way_from_a_coroutine_is_an_error_and_no_deadlock() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> bool:
        return ctx.ask_sync(CONFIRM)

    outcome = execute(deploy, {})

    assert isinstance(outcome, ToolError)
    assert "await ctx.ask" in outcome.message


def test_a_task_that_a_tool_leaves_behind_can_ask_no_more() -> None:
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

    assert asyncio.run(scene()) == "This call is over: its function has returned. Ask before it does."


class Gate(Responder):
    """Answers yes, once so many questions are open."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.wanted = wanted

    async def __call__(self, asking: FormWanted) -> Given:
        """Wait for the others."""
        self.asked.append(asking)
        if len(self.asked) == self.wanted:
            self.waiting.set()
        await self.waiting.wait()
        return {"confirm": Answer(value=True)}


def test_many_blocked_threads_do_not_starve_each_other() -> None:
    """More functions wait for people than a pool has places."""

    @tool
    def deploy(ctx: ToolContext) -> str:
        return "yes" if ctx.ask_sync(CONFIRM) else "no"

    async def scene() -> list[Outcome]:
        gate = Gate(60)
        around = Around(ask=gate)
        return list(await asyncio.gather(*(deploy.execute(tool_run(deploy, {}, around=around)) for _ in range(60))))

    assert asyncio.run(scene()) == [Success("yes")] * 60
