"""`conversation show`: what was said and done. Questions to people stand in the audit trail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from msgspec import UNSET

from midturn.cli.layout import indented, wrapped
from midturn.cli.output import say
from midturn.cli.shown import Shown, block, line, spoken
from midturn.core.events import ChatRequest, ChatResponse, Event, ToolCallRequest, ToolCallResponse, TurnEnd
from midturn.store.conversation import Conversation

_TEXT, _RESULT, _ERROR = line("  "), line("  | "), line("  ! ")


def print_transcript(conversation: Conversation) -> None:
    """Print what was said."""
    for event in conversation.events:
        for row in _rows(event):
            say(row)


def _rows(event: Event) -> Iterable[Shown]:  # noqa: PLR0911  one return a kind of event
    match event:
        case ChatRequest(content=content, author=author):
            return [line("{}:", author or "You"), *indented(spoken(content), _TEXT), line("")]
        case ChatResponse(message=str(message)):
            return [line("Assistant:"), *indented(spoken(message), _TEXT), line("")]
        case ChatResponse(structured=structured) if structured is not UNSET:
            return [line("Assistant:"), *indented(block(json.dumps(structured, ensure_ascii=False, indent=2)), _TEXT), line("")]
        case ToolCallRequest(name=name, arguments=arguments):
            return wrapped(line("· {} {}", name, json.dumps(arguments, ensure_ascii=False)), sys.stdout, "    ")
        case ToolCallResponse(content=content, is_error=is_error):
            return [*indented(block(content), _ERROR if is_error else _RESULT), line("")]
        case TurnEnd(status="failed", error=error):
            return [line("The turn failed: {}", error or ""), line("")]
        case TurnEnd(status="ended_by_user"):
            return [line("The turn was ended by the user."), line("")]
        case _:
            return []
