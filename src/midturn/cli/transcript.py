"""A conversation as it was held: who said what, which tools were called (spec 8.2). Questions to people stand in the audit trail."""

from __future__ import annotations

import json

from midturn.cli.output import cell, say
from midturn.core.events import ChatRequest, ChatResponse, Event, ToolCallRequest, ToolCallResponse, TurnEnd
from midturn.store.conversation import Conversation


def print_transcript(conversation: Conversation) -> None:
    """Print what was said."""
    for event in conversation.events:
        for line in _lines(event):
            say(line)


def _lines(event: Event) -> list[str]:  # noqa: PLR0911  one return a kind of event
    match event:
        case ChatRequest(content=content, author=author):
            return [f"{cell(author or 'You')}:", *_indented(content), ""]
        case ChatResponse(message=str(message)):
            return ["Assistant:", *_indented(message), ""]
        case ToolCallRequest(name=name, arguments=arguments):
            return [f"· {cell(name)} {cell(json.dumps(arguments, ensure_ascii=False))}"]
        case ToolCallResponse(content=content, is_error=is_error):
            return [*_indented(content, "  ! " if is_error else "  | "), ""]
        case TurnEnd(status="failed", error=error):
            return [f"The turn failed: {cell(error or '')}", ""]
        case TurnEnd(status="ended_by_user"):
            return ["The turn was ended by the user.", ""]
        case _:
            return []


def _indented(text: str, gutter: str = "  ") -> list[str]:
    return [gutter + cell(line) for line in text.splitlines()]
