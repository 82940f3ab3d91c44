"""A call of a tool, as it runs."""

from __future__ import annotations

from msgspec import Struct

from midturn.core.json_value import Json


class ToolCall(Struct, frozen=True):
    """One call of a tool by the model. `event` is the `event_id` of its request: the identity of a call.

    Args:
        id: What the provider calls it.
        name: The name of the tool.
        arguments: The arguments as they run: an object, or the words of the model where it wrote none.
    """

    event: str
    id: str
    name: str
    arguments: Json
