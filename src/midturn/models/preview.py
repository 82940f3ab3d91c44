"""A request as JSON, for `--dry-run` and the log (spec 4b.4). Keys are in none of it: a request holds none."""

from __future__ import annotations

from typing import assert_never

import msgspec

from midturn.core.exchange import ModelRequest
from midturn.core.json_value import JsonObject
from midturn.models.transcript import Call, Message, ModelMessage, Result, Said, UserMessage, Words, transcript


def preview(model: str, request: ModelRequest) -> JsonObject:
    """Return what would be sent to `model`: its messages with `role` and `content`, and the tools by name, description and parameters."""
    shape: JsonObject = {} if request.schema is None else {"schema": request.schema}
    return {
        "model": model,
        "system": request.system,
        "messages": [_message(message) for message in transcript(request.events)],
        "tools": [msgspec.to_builtins(tool) for tool in request.tools],
        "tool_choice": request.tool_choice,
        "parameters": request.parameters,
        "cache": request.cache,
        **shape,
    }


def _message(message: Message) -> JsonObject:
    match message:
        case UserMessage(parts):
            return {"role": "user", "content": [_part(part) for part in parts]}
        case ModelMessage(parts):
            return {"role": "assistant", "content": [_part(part) for part in parts]}
        case _ as other:
            assert_never(other)


def _part(part: Words | Result | Said | Call) -> JsonObject:
    match part:
        case Words(text):
            return {"type": "text", "text": text}
        case Said(text, thought):
            return {"type": "reasoning" if thought else "text", "text": text}
        case Call(id, name, arguments):
            return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
        case Result(id, name, content, is_error):
            return {"type": "tool_result", "id": id, "name": name, "content": content, "is_error": is_error}
        case _ as other:
            assert_never(other)
