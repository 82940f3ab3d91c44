"""Questions with a deadline: past it they are over, which is no answer, and no no."""

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
from midturn.turn.step import Answer, FormWanted, Given, NoAnswer

SHORT, LONG = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def later(clock: Clock) -> Callable[[], None]:
    """Return what lets two hours pass."""
    return lambda: clock.pass_(hours=2)


def asking(deadline: timedelta | datetime) -> mt.Question[bool]:
    """Return what is asked."""
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
    """Return an agent that calls a tool once."""
    model = mt.ScriptedModel([{"calls": [{"name": tool.name}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[tool], store=store or mt.MemoryStore(), **more)


def told(agent: mt.Agent[Any], conversation: str) -> str:
    """Return what the model read."""
    events = agent.store.read_sync(conversation).events
    return "\n".join(event.content for event in events if isinstance(event, ToolCallResponse))


def reasons(agent: mt.Agent[Any], conversation: str) -> list[str]:
    """Return why questions were cancelled."""
    return [event.reason for event in agent.store.read_sync(conversation).events if isinstance(event, InquiryCancelled)]


LATE = 'deploy: nobody answered "Deploy?" before its deadline. This is not a no.'


def waits_past_its_deadline(tool: Any, later: Callable[[], None], **more: Any) -> tuple[mt.Agent[Any], str]:
    """Have a tool ask, with nobody there, until its deadline has passed."""
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
def test_past_its_deadline_a_question_is_over_and_its_tool_hears_so_when_the_turn_goes_on(
    tool: Any, content: str, later: Callable[[], None]
) -> None:
    agent, conversation = waits_past_its_deadline(tool, later)
    assert agent.store.pending_sync() == []
    result = agent.resume_sync(conversation, deps=LONG)
    assert (result.status, told(agent, conversation), reasons(agent, conversation)) == ("completed", content, ["deadline"])


def test_an_answer_after_the_deadline_is_refused_and_the_end_is_on_record(later: Callable[[], None]) -> None:
    agent, conversation = waits_past_its_deadline(deploy, later)
    request = next(event for event in agent.store.read_sync(conversation).events if isinstance(event, InquiryRequest))
    for _ in range(2):
        with pytest.raises(mt.DeadlinePassed, match="its deadline has passed, at 20") as refused:
            agent.store.answer_sync(f"{conversation}-{request.event_id}", True)
        assert refused.value.deadline == request.deadline
        assert reasons(agent, conversation) == ["deadline"]
    assert told(agent, agent.resume_sync(conversation, deps=SHORT).conversation) == LATE


def test_a_turn_whose_deadline_has_passed_is_ready(later: Callable[[], None]) -> None:
    agent, conversation = waits_past_its_deadline(deploy, later)
    assert agent.store.ready_sync() == [conversation]
    assert reasons(agent, conversation) == ["deadline"]


async def _worked_off(agent: mt.Agent[Any], conversation: str, later: Callable[[], None]) -> None:
    """Work until a turn is over, whose deadline passes when the worker waits for it; no one looks at its question meanwhile."""
    working = asyncio.create_task(agent.work(deps=SHORT))
    asyncio.get_running_loop().call_later(0.2, later)
    async with asyncio.timeout(60), aclosing(agent.store.watch(conversation)) as changes:
        async for change in changes:
            if change.kind == "turn_ended":
                break
    working.cancel()
    await asyncio.wait([working])


def _applied_by_a_worker(store: mt.ConversationStore, later: Callable[[], None]) -> None:
    waiting = agent_of(patient, store).run_sync("Go.", deps=SHORT)
    assert waiting.status == "suspended"
    agent = agent_of(patient, store)
    asyncio.run(_worked_off(agent, waiting.conversation, later))
    assert (told(agent, waiting.conversation), reasons(agent, waiting.conversation)) == ("not deployed: deadline", ["deadline"])


def test_a_worker_goes_on_with_a_turn_whose_deadline_has_passed_while_no_one_looks(tmp_path: Path, later: Callable[[], None]) -> None:
    _applied_by_a_worker(mt.open_store(tmp_path), later)
    _applied_by_a_worker(mt.MemoryStore(), later)


def test_a_worker_goes_on_around_a_turn_inside_a_tool_whose_deadline_has_passed(tmp_path: Path, later: Callable[[], None]) -> None:
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
    asyncio.run(_worked_off(agent, waiting.conversation, later))
    (inside,) = set(store.ids_sync()) - {waiting.conversation}
    assert (told(agent, waiting.conversation), told(agent, inside)) == ("inside: Done.", "not deployed: deadline")


def test_an_answer_before_the_deadline_counts_whenever_the_turn_goes_on(later: Callable[[], None]) -> None:
    agent = agent_of(deploy)
    waiting = agent.run_sync("Go.", deps=SHORT)
    agent.store.answer_sync(waiting.pending[0].id, True)
    later()
    assert told(agent, agent.resume_sync(waiting.conversation, deps=SHORT).conversation) == "deployed: True"


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
    assert (result.status, told(agent, result.conversation), closed) == ("completed", LATE, ["confirm"])


def test_the_deadline_stands_beside_the_question_and_is_that_of_the_first_request() -> None:
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


def test_a_question_that_is_asked_again_has_a_deadline_of_its_own(later: Callable[[], None]) -> None:
    @mt.tool
    async def stubborn(ctx: mt.ToolContext[Any]) -> str:
        """Ask until there is an answer."""
        try:
            return f"first {await ctx.ask(asking(deadline=ctx.deps))}"
        except mt.NotAnswered:
            return f"second {await ctx.ask(asking(deadline=timedelta(hours=1)))}"

    agent, conversation = waits_past_its_deadline(stubborn, later)
    again = agent.resume_sync(conversation, deps=LONG)
    agent.store.answer_sync(again.pending[0].id, False)
    assert told(agent, agent.resume_sync(conversation, deps=LONG).conversation) == "second False"


@pytest.mark.parametrize("wrong", [timedelta(0), timedelta(days=400), datetime(2030, 1, 1)])  # noqa: DTZ001  it has no zone
def test_a_wrong_deadline_is_refused(wrong: Any) -> None:
    with pytest.raises(mt.QuestionError, match="deadline"):
        asking(deadline=wrong)


class Returns(mt.Tool):
    """A tool that returns its question, and runs again with the answer."""

    @property
    def definition(self) -> mt.ToolDefinition:
        """Return what a model is told."""
        return mt.ToolDefinition("deploy", "Deploy.", {"type": "object"})

    async def execute(self, run: Any) -> Any:
        """Run once."""
        return mt.Success(f"deployed: {run.answers['confirm']}") if run.answers else mt.NeedsInput(mt.Form([asking(deadline=SHORT)]))


def test_a_call_of_a_tool_that_returns_its_question_ends_with_words_for_the_model(later: Callable[[], None]) -> None:
    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}])
    agent: mt.Agent[Any] = mt.Agent(model, tools=[Returns()])
    waiting = agent.run_sync("Go.")
    later()
    result = agent.resume_sync(waiting.conversation)
    assert (result.status, told(agent, waiting.conversation), reasons(agent, waiting.conversation)) == ("completed", LATE, ["deadline"])


def test_a_question_whose_deadline_has_passed_before_it_is_asked_is_over_at_once() -> None:
    agent = agent_of(patient)
    result = agent.run_sync("Go.", deps=datetime(2020, 1, 1, tzinfo=UTC))
    assert (result.status, told(agent, result.conversation)) == ("completed", "not deployed: deadline")


class Set:
    """A clock whose time of day is set while it counts on."""

    at = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time of day."""
        return self.at

    def monotonic(self) -> float:
        """Count nothing."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait for nothing."""


def test_a_clock_that_was_set_meanwhile_ends_nothing() -> None:
    clock = Set()
    time = TrustedTime(clock)
    assert time.now([]) == "2030-01-01T00:00:00.000000Z"
    assert time.now([InquiryCancelled(id="a", reason="user", timestamp="2031-01-01T00:00:00.000000Z")]) is None
    clock.at += timedelta(hours=1)
    assert time.now([]) is None


def test_the_model_reads_what_was_answered_of_its_own_form_by_then() -> None:
    async def past_its_deadline(_: FormWanted) -> Given:
        return {"one": Answer(value=True), "two": NoAnswer("deadline")}

    questions = [{"id": key, "text": f"{key}?", "answer_type": "boolean"} for key in ("one", "two")]
    run = mt.ToolRun(call=ToolCall("e1", "call_1", "ask_user", {"questions": questions}), answers={}, ask=past_its_deadline)
    outcome = asyncio.run(asked_by_model(run))
    assert outcome == mt.Success('{"cancelled": true, "answered": {"one": true}, "reason": "deadline"}')


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
    assert told(agent, result.conversation) == "ship: nobody allowed it before its deadline. This is not a no."


@pytest.mark.parametrize("wrong", [timedelta(0), timedelta(days=400), "soon"])
def test_a_wrong_deadline_of_a_permission_is_refused(wrong: Any) -> None:
    with pytest.raises(mt.ConfigError, match=r"deadline=.* is not from a second to 365 days"):
        mt.tool(name="ship", run="ask", deadline=wrong)(lambda: "")


def set_by(hours: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the machine's clock, with no time gone by."""
    at = datetime.now(UTC) + timedelta(hours=hours)
    monkeypatch.setattr(SYSTEM, "now", lambda: at, raising=False)


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_machine_whose_clock_was_set_ends_nothing_and_refuses_nothing(hours: float, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of(deploy)
    waiting = agent.run_sync("Go.", deps=SHORT)
    set_by(hours, monkeypatch)
    assert [one.id for one in agent.store.pending_sync()] == [waiting.pending[0].id]
    assert agent.store.ready_sync() == []
    assert agent.resume_sync(waiting.conversation, deps=SHORT).status == "suspended"
    agent.store.answer_sync(waiting.pending[0].id, True)
    assert told(agent, agent.resume_sync(waiting.conversation, deps=SHORT).conversation) == "deployed: True"


def test_what_is_asked_by_a_clock_that_was_set_ahead_is_not_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    set_by(500 * 365 * 24, monkeypatch)
    agent = agent_of(patient)
    assert agent.run_sync("Go.", deps=datetime.now(UTC) + SHORT).status == "suspended"


def test_a_call_of_another_loop_goes_by_the_same_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = mt.MemoryStore()
    conversation = store.new_sync("Deploys")

    def called() -> str:
        async def work() -> str:
            inquirer = mt.Inquirer(store, conversation)
            async with inquirer.turn("Ship it."):
                return str(await inquirer.run("deploy", "call_1", {}, lambda call: call.ask_sync(asking(SHORT))))

        try:
            return asyncio.run(work())
        except mt.Suspended:
            return "waits"

    assert called() == "waits"
    with monkeypatch.context() as patched:
        set_by(2, patched)
        assert called() == "waits"
    clock.pass_(hours=2)
    assert called() == LATE


@pytest.mark.parametrize("years", [-500, 500])
def test_a_deadline_centuries_away_is_a_moment_like_any_other(years: int) -> None:
    agent = agent_of(patient)
    result = agent.run_sync("Go.", deps=datetime(2026 + years, 1, 1, tzinfo=UTC))
    assert result.status == ("suspended" if years > 0 else "completed")


def test_a_prompt_that_waits_closes_when_the_test_lets_its_time_pass(clock: Clock) -> None:
    class Passing(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            assert prompt.time_left() in ("1 h left", "59 min 59 s left")
            clock.pass_(minutes=50)
            assert prompt.time_left().startswith("only ")
            clock.pass_(minutes=10)
            await asyncio.Event().wait()
            raise AssertionError

    agent = agent_of(deploy, prompter=Passing())
    result = agent.run_sync("Go.", deps=SHORT)
    assert (result.status, told(agent, result.conversation)) == ("completed", LATE)


def test_time_does_not_go_back(clock: Clock) -> None:
    with pytest.raises(ValueError, match="Time only passes"):
        clock.pass_(hours=-1)
