"""A conversation in which `fs_modify_file` asks whether to apply its changes."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.events.provider_view import provider_view
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    Event,
    InquiryRequest,
    Source,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from midturn.exchange import ModelRequest, ToolDefinition
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion

REQUEST = InquiryRequest(
    event_id="q1",
    id="call_1.apply_changes.1",
    source=Source.tool("fs_modify_file"),
    question=PersistedQuestion(
        text="Apply the changes to plan.md?",
        answer_type=BooleanType(),
        context="--- a/plan.md\n+++ b/plan.md\n",
    ),
    call="c1",
    tool_call_id="call_1",
    question_id="apply_changes",
)
TOOLS = (
    ToolDefinition(
        "fs_read_file",
        "Read a file.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
    ToolDefinition(
        "fs_modify_file",
        "Change a file.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "edits": {"type": "array", "items": {"type": "object"}},
            },
        },
    ),
)


def asked_events(asked: InquiryRequest = REQUEST) -> list[Event]:
    """Return a finished turn and an open one: a read, then two calls at once. The first asks, and
    neither has finished.
    """
    return [
        TurnStart(event_id="t0"),
        ChatRequest(event_id="u0", content="Hello"),
        ChatResponse(event_id="a0", message="Hello. What is to be done?"),
        TurnEnd(event_id="x0", status="completed"),
        TurnStart(event_id="t1"),
        ChatRequest(event_id="u1", content="Improve the plan"),
        ToolCallRequest(
            event_id="c0", id="call_0", name="fs_read_file", arguments={"path": "plan.md"}
        ),
        ToolCallResponse(event_id="r0", id="call_0", call="c0", content="the plan"),
        ChatResponse(event_id="a1", message="I will patch it.", more=2),
        ToolCallRequest(
            event_id="c1",
            id="call_1",
            name="fs_modify_file",
            arguments={"path": "plan.md", "edits": []},
            more=1,
        ),
        ToolCallRequest(
            event_id="c2", id="call_2", name="fs_read_file", arguments={"path": "notes.md"}
        ),
        asked,
    ]


def main_request(events: Sequence[Event]) -> ModelRequest:
    """Return the request that the main model would receive now."""
    return ModelRequest(
        system="You are careful.",
        events=provider_view(events),
        recorded=events,
        tools=TOOLS,
        parameters={"temperature": 0.2},
        conversation="17",
    )
