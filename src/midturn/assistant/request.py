"""The side request: a copy of the conversation, repaired, with the question at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from midturn.assistant.chosen import ChosenAssistant
from midturn.assistant.wording import NOT_RUN, STILL_RUNNING, objection, paused, question_text
from midturn.core.events import ChatRequest, ChatResponse, Event, InquiryRequest, ToolCallRequest, ToolCallResponse
from midturn.core.exchange import InquiryAsked, ModelRequest, Part, ReasoningPart, StructuredPart, TextPart, ToolCallPart, recorded
from midturn.core.json_value import JsonObject
from midturn.core.stream import calls, open_turn, pairs

_REPEATED: Final = 4_000  # characters up to which a wrong answer is sent back as it is


def side_request(main: ModelRequest, asked: InquiryRequest, tool: str, settings: ChosenAssistant, schema: JsonObject) -> ModelRequest:
    """Return the request for `asked`, made of what the main model would be sent now; `main` stays as it is."""
    window = open_turn(main.recorded)
    turn = window.events if window else ()
    text = question_text(asked, tool, pairs(turn))
    inquiry = InquiryAsked(tool, asked.question_id, asked.question, shares_cache=settings.shares_cache)
    return replace(
        main,
        system=main.system if settings.system_prompt is None else settings.system_prompt,
        events=[*_paused(main.events, turn, asked), ChatRequest(content=text)],
        schema=schema,
        parameters=settings.parameters,
        cache=settings.cache,
        inquiry=inquiry,
    )


def second_request(first: ModelRequest, parts: Sequence[Part], problem: str) -> ModelRequest:
    """Return the request that gives a wrong answer back, with what is wrong about it."""
    assert first.inquiry is not None  # noqa: S101 (only side requests come here)
    events = [*first.events, *_said(parts), ChatRequest(content=objection(problem))]
    return replace(first, events=events, inquiry=replace(first.inquiry, trial=2))


def _paused(events: Sequence[Event], turn: Sequence[Event], asked: InquiryRequest) -> Iterator[Event]:
    """Yield the copy: the asking call is paused, the turn's other unfinished calls are still running."""
    unfinished: Mapping[str, ToolCallRequest] = {call.event_id: call for call, response in calls(turn) if response is None}
    given: set[str] = set()
    for event in events:
        if isinstance(event, ToolCallResponse) and event.call in unfinished:
            given.add(event.call)
            yield _synthetic(unfinished[event.call], asked)
        else:
            yield event
    yield from (_synthetic(call, asked) for event_id, call in unfinished.items() if event_id not in given)


def _synthetic(call: ToolCallRequest, asked: InquiryRequest) -> ToolCallResponse:
    content = paused(asked) if call.event_id == asked.call else STILL_RUNNING
    return ToolCallResponse(id=call.id, call=call.event_id, content=content)


def _said(parts: Sequence[Part]) -> Iterator[Event]:
    """Yield a wrong answer as events, its calls with results that say they were not run; of a long one only the beginning, as words."""
    if len(msgspec.json.encode(parts)) > _REPEATED:
        words = "".join(map(_words, parts))
        yield ChatResponse(message=f"{words[:_REPEATED]}…")
        return
    yield from (event for index, part in enumerate(parts) if (event := _event(part, index)))
    calls = [(index, part) for index, part in enumerate(parts) if isinstance(part, ToolCallPart)]
    yield from (ToolCallResponse(id=part.id, call=f"side:{index}", content=NOT_RUN, is_error=True) for index, part in calls)


def _event(part: Part, index: int) -> Event | None:
    """Return the part as it would be recorded; a text without words would not be."""
    if isinstance(part, TextPart) and not part.text:
        return None
    event = recorded(part)
    return replace(event, event_id=f"side:{index}") if isinstance(event, ToolCallRequest) else event


def _words(part: Part) -> str:
    match part:
        case TextPart(text):
            return text
        case StructuredPart(value) | ToolCallPart(arguments=value):
            return msgspec.json.encode(value).decode()
        case ReasoningPart():
            return ""
        case _ as other:
            assert_never(other)
