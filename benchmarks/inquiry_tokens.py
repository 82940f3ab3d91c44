"""What one question to the model costs: asked on the side, against the model sending its call again. Prints a table; asserts nothing.

A request is rendered as providers cache it: tools, system prompt, messages. Four bytes count as a token; costs are in tokens of fresh
input, with the prices that are usual: 0.1 for what is read from a cache, 1.25 for what is written to it, 5 for what the model writes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from midturn.assistant.request import side_request
from midturn.assistant.settings import AssistantSettings
from midturn.core.answer_type import BooleanType
from midturn.core.events import ChatRequest, ChatResponse, Event, InquiryRequest, ToolCallRequest, TurnStart
from midturn.core.exchange import ModelRequest, ToolDefinition
from midturn.core.question import PersistedQuestion, Question
from midturn.core.schema import inquiry_schema
from midturn.core.source import Source
from midturn.core.stream import provider_view
from midturn.models.transcript import transcript, with_tail

READ, WRITTEN, OUTPUT = 0.1, 1.25, 5.0
ANSWER_TOKENS = 60  # a short reason and the answer
TOOL = ToolDefinition("fs_modify_file", "Change a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
QUESTION = Question.boolean("apply_changes", "Apply the changes to docs/plan.md?")
PERSISTED = PersistedQuestion(text=QUESTION.text, answer_type=BooleanType())
ASKED = InquiryRequest(id="call_1.apply_changes.1", source=Source.tool(TOOL.name), question=PERSISTED, call="c", question_id=QUESTION.id)


def conversation(history: int, arguments: int) -> list[Event]:
    """Return a turn of about `history` tokens that ends in a call with about `arguments` tokens."""
    return [
        TurnStart(event_id="t"),
        ChatRequest(event_id="u", content="word " * history),
        ChatResponse(event_id="a", message="I will patch it.", more=1),
        ToolCallRequest(event_id="c", id="call_1", name=TOOL.name, arguments={"path": "docs/plan.md", "edits": "word " * arguments}),
    ]


def main_request(events: Sequence[Event]) -> ModelRequest:
    """Return what the main model is sent."""
    return ModelRequest(system="You are careful.", events=provider_view(events), recorded=events, tools=[TOOL])


def rendered(request: ModelRequest) -> bytes:
    """Return the bytes of a request in the order in which they are cached."""
    messages = transcript(request.events)
    if request.schema is not None:
        messages = with_tail(messages, request.schema)
    parts = [[msgspec.to_builtins(tool) for tool in request.tools], request.system, [msgspec.to_builtins(message) for message in messages]]
    return json.dumps(parts, separators=(",", ":")).encode()


def common(left: bytes, right: bytes) -> int:
    """Return how many bytes both begin with."""
    return next((place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), min(len(left), len(right)))


def row(history: int, arguments: int) -> tuple[float, float, float, float]:
    """Return which part of the main request is read again, and the three costs."""
    events = conversation(history, arguments)
    before = rendered(main_request(events[:2]))
    side = rendered(side_request(main_request(events), ASKED, TOOL.name, AssistantSettings(model="m"), inquiry_schema(QUESTION)))
    repeated = common(before, side)
    fresh = (len(side) - repeated) / 4
    answer = ANSWER_TOKENS * OUTPUT
    on_the_side = repeated / 4 * READ + fresh * WRITTEN + answer
    without_cache = len(side) / 4 * WRITTEN + answer
    call_again = repeated / 4 * READ + fresh * WRITTEN + (arguments + ANSWER_TOKENS) * OUTPUT
    return repeated / (len(before) - 2), on_the_side, without_cache, call_again


def main() -> None:
    """Print the table."""
    print(f"{'history':>8} {'arguments':>10} {'repeated':>9} {'on the side':>12} {'cache missed':>13} {'call again':>11}")
    for history in (5_000, 50_000):
        for arguments in (200, 2_000, 10_000):
            repeated, *costs = row(history, arguments)
            side, missed, again = (round(cost) for cost in costs)
            print(f"{history:>8,} {arguments:>10,} {repeated:>9.1%} {side:>12,} {missed:>13,} {again:>11,}")


if __name__ == "__main__":
    main()
