"""What a model reads when it is asked on the side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import msgspec

from midturn.core.events import InquiryAnswered, InquiryCancelled, InquiryRequest, InquiryResponse
from midturn.core.json_value import Json, Scalar
from midturn.core.question.answer_type import (
    BooleanType,
    MultiSelectType,
    PersistedType,
    SchemaType,
    SecretType,
    SelectOption,
    SelectType,
    TextType,
    UnknownType,
)
from midturn.core.source import ASSISTANT
from midturn.core.stream import InquiryPair

STILL_RUNNING: Final = "Tool call still running."
NOT_RUN: Final = "Not run: only an answer to the question was asked for."
CLOSING: Final = "Provide your answer based on the conversation context. In the `reason` field, briefly explain why you chose your answer."
_BY_A_MODEL: Final = "The following question was written by a model, not by the user."


def paused(request: InquiryRequest) -> str:
    """Return what stands in place of the asking call's result."""
    return f"Tool paused: {request.question.text}"


def question_text(request: InquiryRequest, tool: str, earlier: Sequence[InquiryPair]) -> str:
    """Return the whole request: who asks, context, question, options, what the user answered before in this turn, and what to do."""
    question = request.question
    paragraphs = [
        f"The tool `{tool}` requires additional input.",
        _BY_A_MODEL if request.source == ASSISTANT else None,
        (question.context or "").strip("\n"),
        question.text,
        "\n".join(_choices(question.answer_type)) or None,
        f"An earlier answer was not accepted: {request.problem}" if request.problem else None,
        "The question may be skipped: the answer is then `null`." if question.optional else None,
        "\n".join(_given(earlier)) or None,
        CLOSING,
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def objection(problem: str) -> str:
    """Return what the model reads after a wrong answer."""
    return f"Your answer could not be used: {problem.rstrip('.')}.\n\nAnswer the question again. Call no tool. {CLOSING}"


def _choices(answer_type: PersistedType) -> Iterator[str]:
    match answer_type:
        case SelectType(options, allow_other):
            yield "Choose one of these options:"
            yield from _options(options, allow_other=allow_other)
        case MultiSelectType(options, least, most, allow_other):
            upper = len(options) + allow_other if most is None else most
            yield f"Choose {least} to {upper} of these options:"
            yield from _options(options, allow_other=allow_other)
        case BooleanType() | TextType() | SecretType() | SchemaType() | UnknownType():
            return
        case _ as other:
            assert_never(other)


def _options(options: Sequence[SelectOption[Scalar]], *, allow_other: bool) -> Iterator[str]:
    for option in options:
        yield f"- {_json(option.value)}" + (f": {option.description}" if option.description else "")
    if allow_other:
        yield '- or, in your own words: {"other": "<text>"}'


def _given(earlier: Sequence[InquiryPair]) -> Iterator[str]:
    """List what the user answered, as the user's own words: a model's or a configured answer is not among it, nor what Back took back."""
    taken_back = {request.revises for request, response in earlier if _takes_back(response)}
    lines = [
        f"- {request.question.text} {_json(response.answer)}" + (f' (reason: "{response.reason}")' if response.reason else "")
        for request, response in earlier
        if isinstance(response, InquiryAnswered) and response.answered_by and response.answered_by.by == "user"
        if request.id not in taken_back
    ]
    if lines:
        yield "Earlier in this turn the user answered:"
        yield from lines


def _takes_back(response: InquiryResponse | None) -> bool:
    """Whether the answer before is gone, when this is what came of asking again."""
    return isinstance(response, InquiryAnswered) or (isinstance(response, InquiryCancelled) and response.reason == "back")


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()
