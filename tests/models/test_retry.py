from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from midturn.errors import ModelError, ScriptError
from midturn.exchange import BrokeOff, Finished, InquiryAsked, ModelEvent, ModelRequest, StructuredPart, TextDelta, TextPart
from midturn.models.scripted import FunctionModel, ScriptedModel
from midturn.models.wrapper import Retrying, RetryingModel, RetryPolicy, is_transient
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion
from support.clocks import FakeClock
from support.exchanges import ask, finish

POLICY = RetryPolicy()
DOWN = ModelError("down", status=503, transient=True)


@given(failures=st.integers(1, 4), chance=st.floats(0, 1))
def test_waits_double_and_stay_near_their_value(failures: int, chance: float) -> None:
    wait = POLICY.wait(failures, DOWN, chance)

    assert wait is not None
    assert 0.75 <= wait / (0.5 * 2 ** (failures - 1)) <= 1.25


def test_waits_are_capped() -> None:
    assert RetryPolicy(max_retries=20).wait(15, DOWN, 0.5) == 30


def test_what_the_server_asks_for_is_honoured_up_to_two_minutes() -> None:
    assert POLICY.wait(1, ModelError("busy", retry_after=7, transient=True), 0.9) == 7
    assert POLICY.wait(1, ModelError("busy", retry_after=121, transient=True), 0.9) is None


def test_some_failures_are_final() -> None:
    assert POLICY.wait(5, DOWN, 0.5) is None
    assert POLICY.wait(1, ModelError("wrong key", status=401), 0.5) is None
    assert RetryPolicy(max_retries=0).wait(1, DOWN, 0.5) is None


def retrying(model: ScriptedModel | FunctionModel, clock: FakeClock, reports: list[Retrying] | None = None) -> RetryingModel:
    return RetryingModel(model, clock, report=(reports if reports is not None else []).append, chance=lambda: 0.5)


def test_a_failing_model_is_asked_again_and_each_wait_is_reported() -> None:
    clock, reports = FakeClock(), list[Retrying]()
    model = ScriptedModel(
        [{"error": {"status": 529, "message": "overloaded", "retry_after": 0.05}}, {"error": {"message": "reset"}}, {"text": "back"}]
    )

    assert finish(retrying(model, clock, reports)).parts == (TextPart("back", {"scripted": {"next": 3}}),)
    assert clock.slept == [0.05, 1.0]
    assert reports == [Retrying("scripted", "overloaded.", 0.05, 1, 4), Retrying("scripted", "reset.", 1.0, 2, 4)]


def test_a_model_that_stays_down_fails_after_its_retries() -> None:
    clock = FakeClock()

    with pytest.raises(ModelError, match="down"):
        ask(retrying(ScriptedModel([{"error": {"status": 500, "message": "down"}}] * 5), clock))

    assert clock.slept == [0.5, 1, 2, 4]


def test_the_retries_that_were_configured_are_made_and_no_more() -> None:
    clock = FakeClock()
    model = RetryingModel(
        ScriptedModel([{"error": {"status": 500, "message": "down"}}, {"error": {"status": 500, "message": "down"}}]),
        clock,
        policy=RetryPolicy(max_retries=1, base=3),
        chance=lambda: 0.5,
    )

    with pytest.raises(ModelError, match="down"):
        ask(model)

    assert clock.slept == [3]


@pytest.mark.parametrize(
    ("status", "may_pass"),
    [
        (400, False),
        (401, False),
        (407, False),
        (408, True),
        (409, True),
        (410, False),
        (429, True),
        (499, False),
        (500, True),
        (None, True),
    ],
)
def test_which_statuses_may_pass(status: int | None, may_pass: bool) -> None:  # noqa: FBT001 (the expected value)
    assert is_transient(status) is may_pass


def test_a_server_that_asks_for_too_much_patience_is_not_waited_for() -> None:
    clock = FakeClock()
    busy = ScriptedModel([{"error": {"status": 429, "message": "busy", "retry_after": 600}}])

    with pytest.raises(ModelError, match=r"^busy\. It asks to wait 600 seconds: try again then\.$"):
        ask(retrying(busy, clock))

    assert clock.slept == []


def test_a_script_that_is_at_its_end_is_not_asked_again() -> None:
    clock = FakeClock()

    with pytest.raises(ScriptError):
        ask(retrying(ScriptedModel(), clock))

    assert clock.slept == []


def test_nothing_is_repeated_after_text_was_shown() -> None:
    clock = FakeClock()
    model = ScriptedModel(
        [{"text": "I will patch the plan", "error": {"status": 500, "message": "reset"}}, {"text": "again"}], sleep=clock.sleep
    )

    with pytest.raises(ModelError, match=r"^reset\. The answer was cut after “I will patch the plan”\.$") as caught:
        ask(retrying(model, clock))

    assert not caught.value.transient
    assert clock.slept == [0]


def anew(model: ScriptedModel | FunctionModel, clock: FakeClock, reports: list[Retrying], retries: int = 4) -> RetryingModel:
    policy = RetryPolicy(max_retries=retries, begins_anew=True)
    return RetryingModel(model, clock, policy=policy, report=reports.append, chance=lambda: 0.5)


def test_an_answer_that_broke_off_begins_anew_where_that_can_be_seen() -> None:
    clock, reports = FakeClock(), list[Retrying]()
    model = ScriptedModel(
        [{"text": "I will pa", "error": {"status": 529, "message": "overloaded"}}, {"text": "I will patch it."}], sleep=clock.sleep
    )

    async def events() -> list[ModelEvent]:
        return [event async for event in anew(model, clock, reports).stream(ModelRequest())]

    seen = asyncio.run(events())
    assert [type(event) for event in seen] == [TextDelta, BrokeOff, TextDelta, Finished]
    assert reports == [Retrying("scripted", "overloaded.", 0.5, 1, 4, was_cut=True)]
    assert reports[0].sentences().endswith("The answer broke off, and begins anew. Trying again in 0.5 s (retry 1 of 4).")


def test_an_answer_that_breaks_off_every_time_says_where_the_last_was_cut() -> None:
    cut = {"text": "I will pa", "error": {"message": "reset"}}
    clock, reports = FakeClock(), list[Retrying]()

    with pytest.raises(ModelError, match=r"^reset\. The answer was cut after “I will pa”\.$"):
        ask(anew(ScriptedModel([cut, cut], sleep=clock.sleep), clock, reports, retries=1))

    assert len(reports) == 1


def test_a_side_request_is_repeated_even_after_text() -> None:
    question = PersistedQuestion(text="Deploy?", answer_type=BooleanType())
    answers: list[list[ModelEvent | ModelError]] = [[TextDelta("{"), DOWN], [Finished((StructuredPart({"answer": True}),))]]

    async def stream(_: ModelRequest):  # noqa: ANN202 (an async generator of model events)
        for event in answers.pop(0):
            if isinstance(event, ModelError):
                raise event
            yield event

    request = ModelRequest(inquiry=InquiryAsked("deploy", "confirm", question))
    assert finish(retrying(FunctionModel(stream), FakeClock()), request).parts == (StructuredPart({"answer": True}),)


def test_an_answer_without_an_end_is_an_error() -> None:
    async def stream(_: ModelRequest):  # noqa: ANN202
        yield TextDelta("half")

    with pytest.raises(ModelError, match=r"stopped before its answer was complete\. The answer was cut after “half”"):
        ask(retrying(FunctionModel(stream), FakeClock()))


def test_leaving_early_closes_the_request() -> None:
    closed: list[bool] = []

    async def stream(_: ModelRequest):  # noqa: ANN202
        try:
            yield TextDelta("a")
            yield TextDelta("b")
        finally:
            closed.append(True)

    async def leave() -> None:
        events = retrying(FunctionModel(stream), FakeClock()).stream(ModelRequest())
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator

    asyncio.run(leave())
    assert closed == [True]


def test_a_wait_is_said_with_the_models_name_once() -> None:
    named = Retrying("local/llama", "local/llama is busy.", 0.5, 1, 4)
    unnamed = Retrying("local/llama", "Cannot reach 127.0.0.1.", 12.4, 2, 4)

    assert named.sentences() == "local/llama is busy. Trying again in 0.5 s (retry 1 of 4)."
    assert unnamed.sentences() == "local/llama: Cannot reach 127.0.0.1. Trying again in 12 s (retry 2 of 4)."
