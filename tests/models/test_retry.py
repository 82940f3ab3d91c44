from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from midturn.errors import ModelError, ScriptError
from midturn.exchange import (
    BrokeOff,
    Finished,
    InquiryAsked,
    ModelEvent,
    ModelRequest,
    StructuredPart,
    TextDelta,
    TextPart,
)
from midturn.models.scripted import FunctionModel, ScriptedModel
from midturn.models.wrapper import Retrying, RetryingModel, RetryPolicy, is_transient
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion
from support.clocks import FakeClock
from support.exchanges import ask, finish

POLICY = RetryPolicy()
DOWN = ModelError("down", status=503, transient=True)


@given(failures=st.integers(1, 4), chance=st.floats(0, 1))
def test_waits_double_with_jitter(failures: int, chance: float) -> None:
    wait = POLICY.wait(failures, DOWN, chance)

    assert wait is not None
    assert 0.75 <= wait / (0.5 * 2 ** (failures - 1)) <= 1.25


def test_waits_are_capped() -> None:
    assert RetryPolicy(max_retries=20).wait(15, DOWN, 0.5) == 30


def test_retry_after_is_honoured_up_to_two_minutes() -> None:
    assert POLICY.wait(1, ModelError("busy", retry_after=7, transient=True), 0.9) == 7
    assert POLICY.wait(1, ModelError("busy", retry_after=121, transient=True), 0.9) is None


def test_permanent_failures_are_not_retried() -> None:
    assert POLICY.wait(5, DOWN, 0.5) is None
    assert POLICY.wait(1, ModelError("wrong key", status=401), 0.5) is None
    assert RetryPolicy(max_retries=0).wait(1, DOWN, 0.5) is None


def retrying(
    model: ScriptedModel | FunctionModel, clock: FakeClock, reports: list[Retrying] | None = None
) -> RetryingModel:
    return RetryingModel(
        model, clock, report=(reports if reports is not None else []).append, chance=lambda: 0.5
    )


def test_a_failing_model_is_retried_and_each_wait_is_reported() -> None:
    clock, reports = FakeClock(), list[Retrying]()
    model = ScriptedModel(
        [
            {"error": {"status": 529, "message": "overloaded", "retry_after": 0.05}},
            {"error": {"message": "reset"}},
            {"text": "back"},
        ]
    )

    assert finish(retrying(model, clock, reports)).parts == (
        TextPart("back", {"scripted": {"next": 3}}),
    )
    assert clock.slept == [0.05, 1.0]
    assert reports == [
        Retrying("scripted", "overloaded.", 0.05, 1, 4),
        Retrying("scripted", "reset.", 1.0, 2, 4),
    ]


def test_a_model_that_stays_down_fails_after_its_retries() -> None:
    clock = FakeClock()

    with pytest.raises(ModelError, match="down"):
        ask(retrying(ScriptedModel([{"error": {"status": 500, "message": "down"}}] * 5), clock))

    assert clock.slept == [0.5, 1, 2, 4]


def test_the_configured_number_of_retries_is_made() -> None:
    clock = FakeClock()
    model = RetryingModel(
        ScriptedModel(
            [
                {"error": {"status": 500, "message": "down"}},
                {"error": {"status": 500, "message": "down"}},
            ]
        ),
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
def test_retryable_statuses(status: int | None, may_pass: bool) -> None:  # noqa: FBT001 (the expected value)
    assert is_transient(status) is may_pass


def test_a_too_long_retry_after_is_not_waited_for() -> None:
    clock = FakeClock()
    busy = ScriptedModel([{"error": {"status": 429, "message": "busy", "retry_after": 600}}])

    with pytest.raises(
        ModelError, match=r"^busy\. The server asks to wait 600 seconds\. Try again after that\.$"
    ):
        ask(retrying(busy, clock))

    assert clock.slept == []


def test_a_finished_script_is_not_retried() -> None:
    clock = FakeClock()

    with pytest.raises(ScriptError):
        ask(retrying(ScriptedModel(), clock))

    assert clock.slept == []


def test_no_retry_after_text_was_shown() -> None:
    clock = FakeClock()
    model = ScriptedModel(
        [
            {"text": "I will patch the plan", "error": {"status": 500, "message": "reset"}},
            {"text": "again"},
        ],
        sleep=clock.sleep,
    )

    with pytest.raises(
        ModelError, match=r"^reset\. The response broke off after “I will patch the plan”\.$"
    ) as caught:
        ask(retrying(model, clock))

    assert not caught.value.transient
    assert clock.slept == [0]


def retrying_with_display(
    model: ScriptedModel | FunctionModel,
    clock: FakeClock,
    reports: list[Retrying],
    retries: int = 4,
) -> RetryingModel:
    policy = RetryPolicy(max_retries=retries, restarts_cut_responses=True)
    return RetryingModel(model, clock, policy=policy, report=reports.append, chance=lambda: 0.5)


def test_a_broken_response_is_restarted_if_the_display_supports_it() -> None:
    clock, reports = FakeClock(), list[Retrying]()
    model = ScriptedModel(
        [
            {"text": "I will pa", "error": {"status": 529, "message": "overloaded"}},
            {"text": "I will patch it."},
        ],
        sleep=clock.sleep,
    )

    async def events() -> list[ModelEvent]:
        return [
            event
            async for event in retrying_with_display(model, clock, reports).stream(ModelRequest())
        ]

    seen = asyncio.run(events())
    assert [type(event) for event in seen] == [TextDelta, BrokeOff, TextDelta, Finished]
    assert reports == [Retrying("scripted", "overloaded.", 0.5, 1, 4, was_cut=True)]
    assert (
        reports[0]
        .sentences()
        .endswith("The response broke off and starts again. Retrying in 0.5 s (retry 1 of 4).")
    )


def test_a_response_broken_every_time_reports_the_last_cut() -> None:
    cut = {"text": "I will pa", "error": {"message": "reset"}}
    clock, reports = FakeClock(), list[Retrying]()

    with pytest.raises(ModelError, match=r"^reset\. The response broke off after “I will pa”\.$"):
        ask(
            retrying_with_display(
                ScriptedModel([cut, cut], sleep=clock.sleep), clock, reports, retries=1
            )
        )

    assert len(reports) == 1


def test_a_side_request_is_retried_even_after_text() -> None:
    question = PersistedQuestion(text="Deploy?", answer_type=BooleanType())
    answers: list[list[ModelEvent | ModelError]] = [
        [TextDelta("{"), DOWN],
        [Finished((StructuredPart({"answer": True}),))],
    ]

    async def stream(_: ModelRequest):  # noqa: ANN202 (an async generator of model events)
        for event in answers.pop(0):
            if isinstance(event, ModelError):
                raise event
            yield event

    request = ModelRequest(inquiry=InquiryAsked("deploy", "confirm", question))
    assert finish(retrying(FunctionModel(stream), FakeClock()), request).parts == (
        StructuredPart({"answer": True}),
    )


def test_a_response_without_an_end_is_an_error() -> None:
    async def stream(_: ModelRequest):  # noqa: ANN202
        yield TextDelta("half")

    with pytest.raises(
        ModelError,
        match=r"stopped before its response was complete\. The response broke off after “half”",
    ):
        ask(retrying(FunctionModel(stream), FakeClock()))


def test_leaving_the_stream_early_closes_the_request() -> None:
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


def test_a_wait_names_the_model_once() -> None:
    named = Retrying("local/llama", "local/llama is busy.", 0.5, 1, 4)
    unnamed = Retrying("local/llama", "Cannot reach 127.0.0.1.", 12.4, 2, 4)

    assert named.sentences() == "local/llama is busy. Retrying in 0.5 s (retry 1 of 4)."
    assert (
        unnamed.sentences()
        == "local/llama: Cannot reach 127.0.0.1. Retrying in 12 s (retry 2 of 4)."
    )
