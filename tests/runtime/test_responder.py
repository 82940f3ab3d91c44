from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from midturn.errors import ContextTooLong, ModelError
from midturn.events.types import ChatRequest, InquiryRequest
from midturn.exchange import (
    Finished,
    ModelEvent,
    ModelRequest,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
    Usage,
)
from midturn.models.scripted import FunctionModel, ScriptedModel
from midturn.models.wrapper import RetryingModel
from midturn.ports import Model
from midturn.question.answer_type import MultiSelectType, SecretType, SelectOption, UnknownType
from midturn.question.persisted_question import PersistedQuestion
from midturn.runtime.side_request import LEFT_OUT, ChosenAssistant
from midturn.runtime.side_responder import Consultation, consult
from midturn.turn.inputs import AssistantFailed, AssistantReplied
from support.clocks import FakeClock
from support.conversations import REQUEST, asked_events, main_request

SETTINGS = ChosenAssistant(model="anthropic/claude-haiku-4-5")


def consultation(asked: InquiryRequest = REQUEST) -> Consultation:
    return Consultation(
        asked=asked,
        tool="fs_modify_file",
        main=main_request(asked_events(asked)),
        settings=SETTINGS,
    )


def answer(model: Model, asked: InquiryRequest = REQUEST) -> AssistantReplied | AssistantFailed:
    return asyncio.run(consult(model, consultation(asked)))


def of_type(answer_type: Any, **terms: Any) -> InquiryRequest:
    question = PersistedQuestion(text="Which?", answer_type=answer_type, **terms)
    return InquiryRequest(
        id="i", source=REQUEST.source, question=question, call="c1", question_id="which"
    )


def script(*answers: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(
        inquiries=[
            {"tool": "fs_modify_file", "question": "apply_changes", "answers": list(answers)}
        ]
    )


class Recorder:
    """A model that returns its answers in order, and stores the requests."""

    def __init__(self, *said: Any, window: int | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self.name = "recorder"
        self._said = list(said)
        self._window = window

    async def context_window(self) -> int | None:
        """Return the value set by the test."""
        return self._window

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next answer, or raise it."""
        self.requests.append(request)
        said = self._said.pop(0)

        def answer_once(_: ModelRequest) -> Any:
            if isinstance(said, Exception):
                raise said
            return said

        return FunctionModel(answer_once).stream(request)


def test_a_valid_answer_is_used_with_its_reason_and_position() -> None:
    reply = answer(script({"reason": "Looks right.", "answer": True}))

    assert reply == AssistantReplied(
        REQUEST.event_id, True, "scripted", "Looks right.", {"scripted": {"next": 1, "inquiry": 0}}
    )


def test_the_tokens_of_all_requests_are_counted() -> None:
    reply = answer(
        Recorder(
            Finished((TextPart("hm"),), Usage(10, 1)),
            Finished((StructuredPart({"answer": True, "reason": "r"}),), Usage(5, 2)),
        )
    )

    assert reply.metadata == {
        "usage": {"input_tokens": 15, "output_tokens": 3, "model": "recorder"}
    }


def test_a_wrong_answer_is_returned_to_the_model_once() -> None:
    model = Recorder({"reason": "r", "answer": "yes"}, {"reason": "r", "answer": True})

    assert answer(model) == AssistantReplied(REQUEST.event_id, True, "recorder", "r")
    last = model.requests[1].events[-1]
    assert isinstance(last, ChatRequest)
    assert '`answer`: the answer must be true or false, not "yes"' in last.content


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_a_missing_reason_counts_as_wrong_once(reason: str | None) -> None:
    model = Recorder({"reason": reason, "answer": True}, {"answer": True})

    assert answer(model) == AssistantReplied(REQUEST.event_id, True, "recorder", None)
    assert len(model.requests) == 2


def test_a_second_wrong_answer_is_a_failure() -> None:
    model = Recorder("Sure, go ahead!", {"reason": "r", "answer": 1})

    reply = answer(model)

    assert isinstance(reply, AssistantFailed)
    assert (
        reply.error
        == "its second answer was wrong too: `answer`: the answer must be true or false, not 1."
    )
    assert len(model.requests) == 2


def test_the_answer_is_canonical() -> None:
    kind = MultiSelectType((SelectOption("a"), SelectOption("b")))

    reply = answer(Recorder({"reason": "r", "answer": ["b", "a"]}), of_type(kind))

    assert isinstance(reply, AssistantReplied)
    assert reply.answer == ["a", "b"]


def test_null_answers_an_optional_question() -> None:
    reply = answer(
        Recorder({"reason": "r", "answer": None}),
        of_type(REQUEST.question.answer_type, optional=True),
    )

    assert isinstance(reply, AssistantReplied)
    assert reply.answer is None


def test_the_requested_schema_is_stable_to_the_byte() -> None:
    model = Recorder({"reason": "r", "answer": True})
    answer(model)

    assert (
        msgspec.json.encode(model.requests[0].schema).decode()
        == '{"type":"object","properties":{"reason":{"type":"string","description":"Brief'
        ' explanation of why you chose this answer."},'
        '"answer":{"type":"boolean"}},"required":["reason","answer"],"additionalProperties":false}'
    )


@pytest.mark.parametrize("kind", [SecretType(), UnknownType("colour", {"type": "colour"})])
def test_no_model_is_asked_for_secrets_or_unknown_types(kind: Any) -> None:
    model = Recorder()

    assert isinstance(answer(model, of_type(kind)), AssistantFailed)
    assert model.requests == []


def test_an_unavailable_model_is_retried_and_then_fails() -> None:
    clock = FakeClock()
    model = RetryingModel(
        script({"error": {"status": 500, "message": "boom"}}), clock, chance=lambda: 0.5
    )

    reply = answer(model)

    assert reply == AssistantFailed(
        REQUEST.event_id, "boom", {"scripted": {"next": 5, "inquiry": 0}}
    )
    assert clock.slept == [0.5, 1, 2, 4]


def test_a_script_without_an_answer_fails_only_this_question() -> None:
    reply = answer(ScriptedModel())

    assert isinstance(reply, AssistantFailed)
    assert "has no answer for `apply_changes` of `fs_modify_file`" in reply.error


def test_any_exception_of_a_model_is_a_failure() -> None:
    assert answer(Recorder(ValueError("a bug\nin two lines"))) == AssistantFailed(
        REQUEST.event_id, "ValueError: a bug in two lines"
    )


def test_cancelling_stops_the_request() -> None:
    async def cancelled() -> None:
        async with asyncio.timeout(0.01):
            await consult(
                script({"reason": "r", "answer": True, "delay_ms": 60_000}), consultation()
            )

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())


def dropped(requests: Sequence[ModelRequest]) -> list[bool]:
    return [LEFT_OUT in request.events for request in requests]


def test_older_events_are_dropped_to_fit_the_context_window() -> None:
    model = Recorder({"reason": "r", "answer": True}, window=400)

    answer(model)

    assert dropped(model.requests) == [True]
    assert REQUEST.question.text in str(model.requests[0].events[-1])


def test_a_too_long_request_is_shortened_and_sent_again() -> None:
    model = Recorder(ContextTooLong("too long"), {"reason": "r", "answer": True})

    assert isinstance(answer(model), AssistantReplied)
    assert dropped(model.requests) == [False, True]


def test_a_question_that_is_too_long_alone_fails() -> None:
    model = Recorder(*[ContextTooLong("too long")] * 4)

    assert answer(model) == AssistantFailed(REQUEST.event_id, "too long")


def test_an_incomplete_answer_is_a_failure() -> None:
    async def nothing(_: ModelRequest):  # noqa: ANN202
        return
        yield

    reply = answer(FunctionModel(nothing))

    assert isinstance(reply, AssistantFailed)
    assert "stopped before its response was complete" in reply.error


def test_a_failing_model_is_reported_without_metadata() -> None:
    assert answer(Recorder(ModelError("Wrong key", status=401))) == AssistantFailed(
        REQUEST.event_id, "Wrong key"
    )


def test_an_endless_answer_is_abandoned() -> None:
    """It counts as a wrong answer."""
    sent = 0

    async def endless(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        nonlocal sent
        while True:
            sent += 1
            yield TextDelta("y" * 1_000)

    reply = answer(FunctionModel(endless))

    assert isinstance(reply, AssistantFailed)
    assert reply.error == "its second answer was wrong too: it is longer than 262,144 characters"
    assert sent == 2 * 263


@pytest.mark.parametrize(
    "wrong",
    [
        Finished((TextPart("x" * 2_000_000),)),
        Finished((ToolCallPart("c", "deploy", {"to": "x" * 2_000_000}),)),
    ],
)
def test_only_the_beginning_of_a_long_wrong_answer_is_sent_back(wrong: Finished) -> None:
    model = Recorder(wrong, {"reason": "r", "answer": True})

    assert isinstance(answer(model), AssistantReplied)
    assert len(str(model.requests[1].events)) - len(str(model.requests[0].events)) < 6_000


def test_a_long_reason_is_shortened() -> None:
    reply = answer(Recorder({"reason": "y" * 100_000, "answer": False}))

    assert isinstance(reply, AssistantReplied)
    assert reply.reason == "y" * 2_048 + "…"


def test_a_multi_line_error_is_shown_in_one_line() -> None:
    assert answer(Recorder(ModelError("It cannot be used:\n  set $KEY"))) == AssistantFailed(
        REQUEST.event_id, "It cannot be used: set $KEY"
    )
