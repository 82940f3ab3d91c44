"""Builds the side request: a repaired copy of the conversation, followed by the question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, assert_never, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn import exchange
from midturn.events import types as ev
from midturn.events.window import open_turn
from midturn.question import answer_type as answers
from midturn.question.json_value import Json, JsonObject, Scalar, json_equal, overlay
from midturn.turn.view import Exchange, calls, pairs

# --------------------------------------------------------------------------------------------------
# Drop the oldest events if the conversation exceeds the model's context window


LEFT_OUT: Final = ev.ChatRequest(content="(Earlier messages of this conversation are left out.)")
# events are dropped in steps of a quarter of the available size, so that the prefix stays the same
# (and cached) while the turn grows
_STEPS: Final = 4


def size(events: Sequence[ev.Event]) -> int:
    """Return the approximate size of `events` in a request to the provider, in bytes."""
    return sum(map(_size, events))


def trimmed(events: Sequence[ev.Event], room: int) -> Sequence[ev.Event]:
    """Return the newest events that fit into `room` bytes, preceded by a note and the last user
    message.

    The list is cut only before a user message or after the results of calls, so that no call loses
    its result and no response loses its reasoning. Everything after the last such place is kept,
    even if it is too long.
    """
    excess = size(events) - room
    if excess <= 0:
        return events
    step = max(room // _STEPS, 1)
    drop = -(-excess // step) * step
    dropped = [*accumulate(map(_size, events), initial=0)]
    cuts = _cuts(events)
    place = next((place for place in cuts if dropped[place] >= drop), cuts[-1] if cuts else 0)
    if place == 0:
        return events
    asked = None if _last_request(events[place:]) else _last_request(events[:place])
    return [LEFT_OUT, *([asked] if asked else []), *events[place:]]


def _cuts(events: Sequence[ev.Event]) -> list[int]:
    """Return the indexes before which all events may be dropped."""
    cuts: list[int] = []
    open_calls = 0
    for place, event in enumerate(events):
        after_results = (
            place > 0
            and isinstance(events[place - 1], ev.ToolCallResponse)
            and not isinstance(event, ev.ToolCallResponse)
        )
        if open_calls == 0 and (after_results or isinstance(event, ev.ChatRequest)):
            cuts.append(place)
        open_calls += isinstance(event, ev.ToolCallRequest) - isinstance(event, ev.ToolCallResponse)
    return cuts


def _last_request(events: Sequence[ev.Event]) -> ev.ChatRequest | None:
    return next((event for event in reversed(events) if isinstance(event, ev.ChatRequest)), None)


def _size(event: ev.Event) -> int:
    return len(msgspec.json.encode(event, enc_hook=ev.encode_custom))


# --------------------------------------------------------------------------------------------------
# Prompt of a side request


STILL_RUNNING: Final = "Tool call still running."
NOT_RUN: Final = "Not run: only an answer to the question was asked for."
CLOSING: Final = (
    "Provide your answer based on the conversation context. In the `reason` field, briefly explain"
    " why you chose your answer."
)
_BY_A_MODEL: Final = "The following question was written by a model, not by the user."


def paused(request: ev.InquiryRequest) -> str:
    """Return the text that replaces the result of the asking call."""
    return f"Tool paused: {request.question.text}"


def question_text(request: ev.InquiryRequest, tool: str, earlier: Sequence[Exchange]) -> str:
    """Return the text of a side request: asker, context, question, options, the user's earlier
    answers, and the instruction.
    """
    question = request.question
    paragraphs = [
        f"The tool `{tool}` requires additional input.",
        _BY_A_MODEL if request.source == ev.ASSISTANT else None,
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
    """Return the text that is sent to the model after an invalid answer."""
    return (
        f"Your answer could not be used: {problem.rstrip('.')}.\n\nAnswer the question again. Call"
        f" no tool. {CLOSING}"
    )


def _choices(answer_type: answers.PersistedType) -> Iterator[str]:
    match answer_type:
        case answers.SelectType(options, allow_other):
            yield "Choose one of these options:"
            yield from _options(options, allow_other=allow_other)
        case answers.MultiSelectType(options, least, most, allow_other):
            upper = len(options) + allow_other if most is None else most
            yield f"Choose {least} to {upper} of these options:"
            yield from _options(options, allow_other=allow_other)
        case (
            answers.BooleanType()
            | answers.TextType()
            | answers.SecretType()
            | answers.SchemaType()
            | answers.UnknownType()
        ):
            return
        case _ as other:
            assert_never(other)


def _options(
    options: Sequence[answers.SelectOption[Scalar]], *, allow_other: bool
) -> Iterator[str]:
    for option in options:
        yield f"- {_json(option.value)}" + (f": {option.description}" if option.description else "")
        if option.preview:
            yield from (f"      {line}" for line in option.preview.rstrip("\n").split("\n"))
    if allow_other:
        yield '- or, in your own words: {"other": "<text>"}'


def _given(earlier: Sequence[Exchange]) -> Iterator[str]:
    """Yield the user's answers. Answers from models and configurations, and answers revoked by
    Back, are left out.
    """
    taken_back = {request.revises for request, response in earlier if _takes_back(response)}
    lines = [
        f"- {request.question.text} {_json(response.answer)}"
        + (f' (reason: "{response.reason}")' if response.reason else "")
        for request, response in earlier
        if isinstance(response, ev.InquiryAnswered)
        and response.answered_by
        and response.answered_by.by == "user"
        if request.id not in taken_back
    ]
    if lines:
        yield "Earlier in this turn the user answered:"
        yield from lines


def _takes_back(response: ev.InquiryResponse | None) -> bool:
    """Return whether a response (such as Back) revokes the earlier answer to the same question."""
    return isinstance(response, ev.InquiryAnswered) or (
        isinstance(response, ev.InquiryCancelled) and response.reason == "back"
    )


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


# --------------------------------------------------------------------------------------------------
# The model that answers, and its request settings


INHERIT: Final = "inherit"
"""Value of `model.id` that selects the main assistant's model, even if a different model is
configured for all questions.
"""


class ChosenAssistant(Struct, frozen=True, kw_only=True):
    """The assistant that answers one question.

    Args:
        model: The id of the model.
        parameters: Parameters of the provider.
        system_prompt: The system prompt. None for the main assistant's system prompt.
        cache: `off`, `short`, `long` or a duration.
        max_retries: Maximum number of retries.
        shares_cache: Whether the assistant is the main assistant and its cache is on. A side
            request can then use the cached prefix.
    """

    model: str
    parameters: JsonObject = {}
    system_prompt: str | None = None
    cache: str = exchange.DEFAULT_CACHE
    max_retries: int = exchange.DEFAULT_RETRIES
    shares_cache: bool = False


def chosen_assistant(
    main: JsonObject, inquiry: JsonObject | None = None, target: JsonObject | None = None
) -> ChosenAssistant:
    """Merge the tables `assistant`, `conversation.inquiry.assistant` and the `target` of a question
    field by field. Later tables override earlier ones.

    `model.id = "inherit"` selects the main model and ignores the model of `inquiry`.
    """
    merged = overlay(main, inquiry or {}, target or {})
    model = _table(merged, "model")
    if model.get("id") == INHERIT:
        skips = _table(target or {}, "model").get("id") == INHERIT
        model = overlay(
            _table(overlay(main, target or {}), "model") if skips else model,
            {"id": _table(main, "model").get("id")},
        )
    request = _table(merged, "request")
    cache = str(request.get("cache", exchange.DEFAULT_CACHE))
    same = _same_assistant(main, {**merged, "model": model})
    return ChosenAssistant(
        model=str(model.get("id") or ""),
        parameters=_table(model, "parameters"),
        system_prompt=None if _prompt(merged) == _prompt(main) else _prompt(merged),
        cache=cache,
        max_retries=cast("int", request.get("max_retries", exchange.DEFAULT_RETRIES)),
        shares_cache=same and cache != "off",
    )


def _same_assistant(main: JsonObject, other: JsonObject) -> bool:
    """Return whether both tables lead to the same request prefix: the same model, parameters and
    system prompt.
    """
    return json_equal(_identity(main), _identity(other))


def _identity(assistant: JsonObject) -> Json:
    model = _table(assistant, "model")
    return {
        "id": model.get("id"),
        "parameters": _table(model, "parameters"),
        "system_prompt": _prompt(assistant),
    }


def _prompt(assistant: JsonObject) -> str | None:
    return cast("str | None", assistant.get("system_prompt"))


def _table(table: JsonObject, key: str) -> JsonObject:
    found = table.get(key)
    return found if isinstance(found, Mapping) else {}


_REPEATED: Final = 4_000  # maximum length of an invalid answer that is sent back, in characters


def side_request(
    main: exchange.ModelRequest,
    asked: ev.InquiryRequest,
    tool: str,
    settings: ChosenAssistant,
    schema: JsonObject,
) -> exchange.ModelRequest:
    """Return the side request for `asked`: a changed copy of `main`, the request that the main
    model would get now.
    """
    window = open_turn(main.recorded)
    turn = window.events if window else ()
    text = question_text(asked, tool, pairs(turn))
    inquiry = exchange.InquiryAsked(
        tool, asked.question_id, asked.question, shares_cache=settings.shares_cache
    )
    return replace(
        main,
        system=main.system if settings.system_prompt is None else settings.system_prompt,
        events=[*_paused(main.events, turn, asked), ev.ChatRequest(content=text)],
        schema=schema,
        parameters=settings.parameters,
        cache=settings.cache,
        inquiry=inquiry,
    )


def second_request(
    first: exchange.ModelRequest, parts: Sequence[exchange.Part], problem: str
) -> exchange.ModelRequest:
    """Return the request that sends an invalid answer and its problem back to the model."""
    assert first.inquiry is not None  # noqa: S101 (only side requests come here)
    events = [*first.events, *_said(parts), ev.ChatRequest(content=objection(problem))]
    return replace(first, events=events, inquiry=replace(first.inquiry, trial=2))


def _paused(
    events: Sequence[ev.Event], turn: Sequence[ev.Event], asked: ev.InquiryRequest
) -> Iterator[ev.Event]:
    """Yield the events, with synthetic results for the unfinished calls of the turn. The result
    says that the asking call is paused, or that another call is still running.
    """
    unfinished: Mapping[str, ev.ToolCallRequest] = {
        call.event_id: call for call, response in calls(turn) if response is None
    }
    given: set[str] = set()
    for event in events:
        if isinstance(event, ev.ToolCallResponse) and event.call in unfinished:
            given.add(event.call)
            yield _synthetic(unfinished[event.call], asked)
        else:
            yield event
    yield from (
        _synthetic(call, asked) for event_id, call in unfinished.items() if event_id not in given
    )


def _synthetic(call: ev.ToolCallRequest, asked: ev.InquiryRequest) -> ev.ToolCallResponse:
    content = paused(asked) if call.event_id == asked.call else STILL_RUNNING
    return ev.ToolCallResponse(id=call.id, call=call.event_id, content=content)


def _said(parts: Sequence[exchange.Part]) -> Iterator[ev.Event]:
    """Yield an invalid answer as events. The results of its tool calls say that they were not run.
    A long answer is truncated.
    """
    if len(msgspec.json.encode(parts)) > _REPEATED:
        words = "".join(map(_words, parts))
        yield ev.ChatResponse(message=f"{words[:_REPEATED]}…")
        return
    yield from (event for index, part in enumerate(parts) if (event := _event(part, index)))
    calls = [
        (index, part) for index, part in enumerate(parts) if isinstance(part, exchange.ToolCallPart)
    ]
    yield from (
        ev.ToolCallResponse(id=part.id, call=f"side:{index}", content=NOT_RUN, is_error=True)
        for index, part in calls
    )


def _event(part: exchange.Part, index: int) -> ev.Event | None:
    """Return a part as an event, or None for empty text, which is never recorded."""
    if isinstance(part, exchange.TextPart) and not part.text:
        return None
    event = exchange.recorded(part)
    return (
        replace(event, event_id=f"side:{index}") if isinstance(event, ev.ToolCallRequest) else event
    )


def _words(part: exchange.Part) -> str:
    match part:
        case exchange.TextPart(text):
            return text
        case exchange.StructuredPart(value) | exchange.ToolCallPart(arguments=value):
            return msgspec.json.encode(value).decode()
        case exchange.ReasoningPart():
            return ""
        case _ as other:
            assert_never(other)
