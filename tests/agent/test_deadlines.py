"""Questions with a deadline: an expired question is cancelled, which is neither an answer nor a
no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.clock import SYSTEM, TrustedTime
from midturn.events.types import InquiryCancelled, InquiryRequest, ToolCall, ToolCallResponse
from midturn.testing import Clock
from midturn.tools.ask_user_call import asked_by_model
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer

SHORT, LONG = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def later(clock: Clock) -> Callable[[], None]:
    """Return a function that advances the clock by two hours."""
    return lambda: clock.pass_(hours=2)


def asking(deadline: timedelta | datetime) -> mt.Question[bool]:
    return mt.Question.boolean("confirm", "Deploy?", deadline=deadline)


@mt.tool
async def deploy(ctx: mt.ToolContext[Any]) -> str:
    """Deploy."""
    return f"deployed: {await ctx.ask(asking(deadline=ctx.deps))}"


@mt.tool
async def patient(ctx: mt.ToolContext[Any]) -> str:
    """Deploy, or say why not."""
    try:
        return f"deployed: {await ctx.ask(asking(deadline=ctx.deps))}"
    except mt.NotAnswered as late:
        return f"not deployed: {late.reason}"


@mt.tool
async def trying(ctx: mt.ToolContext[Any]) -> str:
    """Deploy, or say what came of it."""
    return str(await ctx.try_ask(asking(deadline=ctx.deps)))


@mt.tool
async def form(ctx: mt.ToolContext[Any]) -> str:
    """Ask two things."""
    first, second = mt.Question.text("why", "Why?"), asking(deadline=ctx.deps)
    try:
        answers = await ctx.ask_form(mt.Form([first, second]))
    except mt.NotAnswered as late:
        return f"only {late.answers[first]!r}, {late.answers[second]!r}"
    return f"{answers[first]}, {answers[second]}"


def agent_of(tool: Any, store: mt.ConversationStore | None = None, **more: Any) -> mt.Agent[Any]:
    model = mt.ScriptedModel([{"calls": [{"name": tool.name}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[tool], store=store or mt.MemoryStore(), **more)


def tool_result(agent: mt.Agent[Any], conversation: str) -> str:
    """Return the tool result that the model read."""
    events = agent.store.read_sync(conversation).events
    return "\n".join(event.content for event in events if isinstance(event, ToolCallResponse))


def reasons(agent: mt.Agent[Any], conversation: str) -> list[str]:
    """Return the reasons of cancelled questions."""
    return [
        event.reason
        for event in agent.store.read_sync(conversation).events
        if isinstance(event, InquiryCancelled)
    ]


LATE = 'deploy: nobody answered "Deploy?" before its deadline. This is not a no.'


def suspended_past_its_deadline(
    tool: Any, later: Callable[[], None], **more: Any
) -> tuple[mt.Agent[Any], str]:
    """Suspend a turn on a question and advance the clock past its deadline."""
    agent = agent_of(tool, **more)
    result = agent.run_sync("Go.", deps=SHORT)
    assert result.status == "suspended"
    later()
    return agent, result.conversation


@pytest.mark.parametrize(
    ("tool", "content"),
    [
        (deploy, LATE),
        (patient, "not deployed: deadline"),
        (trying, "Unanswered(reason='deadline', reply=None)"),
        (form, "only None, None"),
    ],
)
def test_expired_question_fails_its_tool_when_the_turn_resumes(
    tool: Any, content: str, later: Callable[[], None]
) -> None:
    agent, conversation = suspended_past_its_deadline(tool, later)
    assert agent.store.pending_sync() == []
    result = agent.resume_sync(conversation, deps=LONG)
    assert (result.status, tool_result(agent, conversation), reasons(agent, conversation)) == (
        "completed",
        content,
        ["deadline"],
    )


def test_answer_after_the_deadline_is_refused_and_the_expiry_is_recorded(
    later: Callable[[], None],
) -> None:
    agent, conversation = suspended_past_its_deadline(deploy, later)
    request = next(
        event
        for event in agent.store.read_sync(conversation).events
        if isinstance(event, InquiryRequest)
    )
    for _ in range(2):
        with pytest.raises(mt.DeadlinePassed, match="its deadline has passed, at 20") as refused:
            agent.store.answer_sync(f"{conversation}-{request.event_id}", True)
        assert refused.value.deadline == request.deadline
        assert reasons(agent, conversation) == ["deadline"]
    assert tool_result(agent, agent.resume_sync(conversation, deps=SHORT).conversation) == LATE


def test_turn_with_an_expired_question_is_ready(later: Callable[[], None]) -> None:
    agent, conversation = suspended_past_its_deadline(deploy, later)
    assert agent.store.ready_sync() == [conversation]
    assert reasons(agent, conversation) == ["deadline"]


async def _run_worker(agent: mt.Agent[Any], conversation: str, later: Callable[[], None]) -> None:
    """Run a worker until the turn completes.

    The deadline passes while the worker waits for the turn, and nothing else reads the question.
    """
    working = asyncio.create_task(agent.work(deps=SHORT))
    asyncio.get_running_loop().call_later(0.2, later)
    async with asyncio.timeout(120), aclosing(agent.store.watch(conversation)) as changes:
        async for change in changes:
            if change.kind == "turn_ended":
                break
    working.cancel()
    await asyncio.wait([working])


def _applied_by_a_worker(store: mt.ConversationStore, later: Callable[[], None]) -> None:
    waiting = agent_of(patient, store).run_sync("Go.", deps=SHORT)
    assert waiting.status == "suspended"
    agent = agent_of(patient, store)
    asyncio.run(_run_worker(agent, waiting.conversation, later))
    assert (tool_result(agent, waiting.conversation), reasons(agent, waiting.conversation)) == (
        "not deployed: deadline",
        ["deadline"],
    )


def test_worker_resumes_a_turn_with_an_expired_question(
    tmp_path: Path, later: Callable[[], None]
) -> None:
    _applied_by_a_worker(mt.open_store(tmp_path), later)
    _applied_by_a_worker(mt.MemoryStore(), later)


def test_worker_resumes_the_outer_turn_of_an_expired_inner_question(
    tmp_path: Path, later: Callable[[], None]
) -> None:
    store = mt.open_store(tmp_path)

    def around() -> mt.Agent[Any]:
        inner = agent_of(patient, store)

        @mt.tool
        async def delegate(ctx: mt.ToolContext[Any]) -> str:
            """Have another agent do it."""
            result = await inner.run("Go.", deps=ctx.deps)
            return f"inside: {result.text}"

        return agent_of(delegate, store)

    waiting = around().run_sync("Go.", deps=SHORT)
    assert waiting.status == "suspended"
    agent = around()
    asyncio.run(_run_worker(agent, waiting.conversation, later))
    (inside,) = set(store.ids_sync()) - {waiting.conversation}
    assert (tool_result(agent, waiting.conversation), tool_result(agent, inside)) == (
        "inside: Done.",
        "not deployed: deadline",
    )


def test_answer_before_the_deadline_counts_after_a_late_resume(later: Callable[[], None]) -> None:
    agent = agent_of(deploy)
    waiting = agent.run_sync("Go.", deps=SHORT)
    agent.store.answer_sync(waiting.pending[0].id, True)
    later()
    assert (
        tool_result(agent, agent.resume_sync(waiting.conversation, deps=SHORT).conversation)
        == "deployed: True"
    )


def test_a_prompt_closes_at_the_deadline() -> None:
    closed: list[str] = []

    class Never(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            try:
                await asyncio.Event().wait()
            finally:
                closed.append(prompt.question.id)
            raise AssertionError

    agent = agent_of(deploy, prompter=Never())
    result = agent.run_sync("Go.", deps=datetime.now(UTC) + timedelta(seconds=0.2))
    assert (result.status, tool_result(agent, result.conversation), closed) == (
        "completed",
        LATE,
        ["confirm"],
    )


def test_deadline_is_listed_and_is_that_of_the_first_request() -> None:
    agent = agent_of(deploy)
    before = datetime.now(UTC)
    waiting = agent.run_sync("Go.", deps=SHORT)
    (question,) = waiting.pending
    assert question.deadline is not None
    assert before + SHORT <= datetime.fromisoformat(question.deadline) <= datetime.now(UTC) + SHORT
    assert "deadline" not in question.to_json()["question"]  # type: ignore[operator]
    assert question.to_json()["deadline"] == question.deadline
    again = agent.resume_sync(waiting.conversation, deps=timedelta(days=1))
    assert [one.deadline for one in again.pending] == [question.deadline]


def test_a_question_that_is_asked_again_has_a_deadline_of_its_own(
    later: Callable[[], None],
) -> None:
    @mt.tool
    async def stubborn(ctx: mt.ToolContext[Any]) -> str:
        """Ask until there is an answer."""
        try:
            return f"first {await ctx.ask(asking(deadline=ctx.deps))}"
        except mt.NotAnswered:
            return f"second {await ctx.ask(asking(deadline=timedelta(hours=1)))}"

    agent, conversation = suspended_past_its_deadline(stubborn, later)
    again = agent.resume_sync(conversation, deps=LONG)
    agent.store.answer_sync(again.pending[0].id, False)
    assert (
        tool_result(agent, agent.resume_sync(conversation, deps=LONG).conversation)
        == "second False"
    )


@pytest.mark.parametrize("wrong", [timedelta(0), timedelta(days=400), datetime(2030, 1, 1)])  # noqa: DTZ001  it has no zone
def test_a_wrong_deadline_is_refused(wrong: Any) -> None:
    with pytest.raises(mt.QuestionError, match="deadline"):
        asking(deadline=wrong)


class Returns(mt.Tool):
    """A tool that returns its question and runs again with the answer."""

    @property
    def definition(self) -> mt.ToolDefinition:
        return mt.ToolDefinition("deploy", "Deploy.", {"type": "object"})

    async def execute(self, run: Any) -> Any:
        return (
            mt.Success(f"deployed: {run.answers['confirm']}")
            if run.answers
            else mt.NeedsInput(mt.Form([asking(deadline=SHORT)]))
        )


def test_expired_question_returned_by_a_tool_ends_the_call_with_text(
    later: Callable[[], None],
) -> None:
    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}])
    agent: mt.Agent[Any] = mt.Agent(model, tools=[Returns()])
    waiting = agent.run_sync("Go.")
    later()
    result = agent.resume_sync(waiting.conversation)
    assert (
        result.status,
        tool_result(agent, waiting.conversation),
        reasons(agent, waiting.conversation),
    ) == (
        "completed",
        LATE,
        ["deadline"],
    )


def test_question_with_a_past_deadline_expires_at_once() -> None:
    agent = agent_of(patient)
    result = agent.run_sync("Go.", deps=datetime(2020, 1, 1, tzinfo=UTC))
    assert (result.status, tool_result(agent, result.conversation)) == (
        "completed",
        "not deployed: deadline",
    )


class SettableClock:
    """A clock whose time of day is set independently of its monotonic time."""

    at = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait for nothing."""


def test_changed_wall_clock_does_not_expire_a_question() -> None:
    clock = SettableClock()
    time = TrustedTime(clock)
    assert time.now([]) == "2030-01-01T00:00:00.000000Z"
    assert (
        time.now([InquiryCancelled(id="a", reason="user", timestamp="2031-01-01T00:00:00.000000Z")])
        is None
    )
    clock.at += timedelta(hours=1)
    assert time.now([]) is None


def test_expired_form_returns_its_partial_answers() -> None:
    async def past_its_deadline(_: FormWanted) -> Given:
        return {"one": Answer(value=True), "two": NoAnswer("deadline")}

    questions = [{"id": key, "text": f"{key}?", "answer_type": "boolean"} for key in ("one", "two")]
    run = mt.ToolRun(
        call=ToolCall("e1", "call_1", "ask_user", {"questions": questions}),
        answers={},
        ask=past_its_deadline,
    )
    outcome = asyncio.run(asked_by_model(run))
    assert outcome == mt.Success(
        '{"cancelled": true, "answered": {"one": true}, "reason": "deadline"}'
    )


def test_the_permission_of_a_programs_tool_has_its_deadline(later: Callable[[], None]) -> None:
    @mt.tool(run="ask", deadline=SHORT)
    def ship() -> str:
        """Ship it."""
        return "shipped"

    agent = agent_of(ship)
    waiting = agent.run_sync("Go.")
    assert waiting.pending[0].deadline is not None
    later()
    result = agent.resume_sync(waiting.conversation)
    assert (
        tool_result(agent, result.conversation)
        == "ship: nobody allowed it before its deadline. This is not a no."
    )


@pytest.mark.parametrize("wrong", [timedelta(0), timedelta(days=400), "soon"])
def test_a_wrong_deadline_of_a_permission_is_refused(wrong: Any) -> None:
    with pytest.raises(mt.ConfigError, match=r"deadline=.* must be from 1 second to 365 days"):
        mt.tool(name="ship", run="ask", deadline=wrong)(lambda: "")


def shift_wall_clock(hours: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the machine's wall clock without advancing monotonic time."""
    at = datetime.now(UTC) + timedelta(hours=hours)
    monkeypatch.setattr(SYSTEM, "now", lambda: at, raising=False)


@pytest.mark.parametrize("hours", [-2, 2])
def test_changed_machine_clock_expires_and_refuses_nothing(
    hours: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_of(deploy)
    waiting = agent.run_sync("Go.", deps=SHORT)
    shift_wall_clock(hours, monkeypatch)
    assert [one.id for one in agent.store.pending_sync()] == [waiting.pending[0].id]
    assert agent.store.ready_sync() == []
    assert agent.resume_sync(waiting.conversation, deps=SHORT).status == "suspended"
    agent.store.answer_sync(waiting.pending[0].id, True)
    assert (
        tool_result(agent, agent.resume_sync(waiting.conversation, deps=SHORT).conversation)
        == "deployed: True"
    )


def test_question_asked_with_a_fast_clock_does_not_expire_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shift_wall_clock(500 * 365 * 24, monkeypatch)
    agent = agent_of(patient)
    assert agent.run_sync("Go.", deps=datetime.now(UTC) + SHORT).status == "suspended"


def test_inquirer_uses_the_same_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = mt.MemoryStore()
    conversation = store.new_sync("Deploys")

    def called() -> str:
        async def work() -> str:
            inquirer = mt.Inquirer(store, conversation)
            async with inquirer.turn("Ship it."):
                return str(
                    await inquirer.run(
                        "deploy", "call_1", {}, lambda call: call.ask_sync(asking(SHORT))
                    )
                )

        try:
            return asyncio.run(work())
        except mt.Suspended:
            return "waits"

    assert called() == "waits"
    with monkeypatch.context() as patched:
        shift_wall_clock(2, patched)
        assert called() == "waits"
    clock.pass_(hours=2)
    assert called() == LATE


@pytest.mark.parametrize("years", [-500, 500])
def test_deadline_centuries_away_is_accepted(years: int) -> None:
    agent = agent_of(patient)
    result = agent.run_sync("Go.", deps=datetime(2026 + years, 1, 1, tzinfo=UTC))
    assert result.status == ("suspended" if years > 0 else "completed")


def test_open_prompt_closes_when_the_fake_clock_advances(clock: Clock) -> None:
    class ClockAdvancing(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            assert prompt.time_left() in ("1 h left", "59 min 59 s left")
            clock.pass_(minutes=50)
            assert prompt.time_left().startswith("only ")
            clock.pass_(minutes=10)
            await asyncio.Event().wait()
            raise AssertionError

    agent = agent_of(deploy, prompter=ClockAdvancing())
    result = agent.run_sync("Go.", deps=SHORT)
    assert (result.status, tool_result(agent, result.conversation)) == ("completed", LATE)


def test_fake_clock_cannot_go_back(clock: Clock) -> None:
    with pytest.raises(ValueError, match="cannot go back in time"):
        clock.pass_(hours=-1)
