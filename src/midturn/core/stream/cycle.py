"""Where the tool calls of one model response must have their results (providers accept them nowhere else)."""

from __future__ import annotations

from midturn.core.events import ChatRequest, ChatResponse, Event, ToolCallRequest, ToolCallResponse, TurnEnd


class Cycle:
    """Follows a turn event by event. What stands in one batch was one response of the model, whatever the order of its parts."""

    def __init__(self) -> None:
        self._responding = False
        self._in_batch = False

    def ends_before(self, event: Event) -> bool:
        """Take the next event; say whether all calls before it must have their results by now."""
        ends = isinstance(event, ChatRequest | TurnEnd) or (not self._in_batch and self._speaks(event))
        self._responding = isinstance(event, ToolCallResponse) or (self._responding and not ends)
        self._in_batch = event.more > 0 and isinstance(event, ChatResponse | ToolCallRequest)
        return ends

    def _speaks(self, event: Event) -> bool:
        return isinstance(event, ChatResponse) or (self._responding and isinstance(event, ToolCallRequest))
