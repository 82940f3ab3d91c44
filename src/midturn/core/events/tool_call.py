"""A call of a tool by the model, and its one response."""

from __future__ import annotations

from midturn.core.events.base import Event, always
from midturn.core.json_value import Json


class ToolCallRequest(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call_request"):
    """The call as the model sent it, once. `arguments` is an object, or the text that the model sent where that was no JSON object.

    Its `event_id` is the identity of the call: a provider may reuse `id`, even inside a cycle.
    """

    id: str
    name: str
    arguments: Json = always({})


class ToolCallResponse(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call_response"):
    """What the model reads as the result. `call` is the request's `event_id` (absent in legacy streams)."""

    id: str
    content: str = always("")
    is_error: bool = always(False)
    call: str = ""
