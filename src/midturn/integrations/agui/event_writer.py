"""Converts the stream of a turn to AG-UI events. Each event is written once, from its deltas or
from its record.

Deltas come before the event that records them. The ID of a text contains the number of the
text in the conversation. The recorded text and the snapshots of later runs therefore have the same
ID. If a retry changes the recorded text, the snapshot at the end of the run corrects it.
"""

from __future__ import annotations

from collections.abc import Iterator

from midturn.agent.turn_stream import ModelRetried, Streamed
from midturn.events.types import ChatRequest, ChatResponse, Event, ToolCallRequest
from midturn.exchange import ReasoningDelta, TextDelta
from midturn.integrations.agui import protocol
from midturn.integrations.agui.protocol import AguiEvent
from midturn.integrations.agui.thread_messages import ThreadMessages, arguments_text
from midturn.ports import Recorded


class EventWriter:
    """Writes the events of one run.

    Args:
        thread: The messages of the thread. Events that are already in it are not written.
    """

    def __init__(self, thread: ThreadMessages) -> None:
        self.thread = thread
        self._open: str | None = None
        self._opens_text = False
        self._streamed: dict[str, str] = {}
        """Streamed texts that are not recorded yet, by ID."""
        self._has_reasoned = False
        self._reasonings = 0

    def write(self, item: Streamed) -> Iterator[AguiEvent]:
        """Yield the events for an item of a stream."""
        match item:
            case TextDelta(text) if text:
                yield from self._text_delta(text)
            case ReasoningDelta(text) if text:
                yield from self._reasoning_delta(text)
            case ModelRetried():
                yield from self.close()
            case Recorded(event):
                yield from self._recorded(event)
            case _:
                pass

    def close(self) -> Iterator[AguiEvent]:
        """Yield the events that end the open text or reasoning, if there is one."""
        if self._open is None:
            return
        if self._opens_text:
            yield protocol.text_end(self._open)
        else:
            yield from protocol.reasoning_end(self._open)
        self._open = None

    def _text_delta(self, text: str) -> Iterator[AguiEvent]:
        if self._open is None or not self._opens_text:
            yield from self.close()
            self._open, self._opens_text = self._next_text_id(), True
            self._streamed[self._open] = ""
            yield protocol.text_start(self._open)
        self._streamed[self._open] += text
        yield protocol.text_content(self._open, text)

    def _next_text_id(self) -> str:
        return f"text-{self.thread.texts + len(self._streamed) + 1}"

    def _reasoning_delta(self, text: str) -> Iterator[AguiEvent]:
        self._has_reasoned = True
        if self._open is None or self._opens_text:
            yield from self.close()
            self._reasonings += 1
            self._open, self._opens_text = self._reasoning_id(), False
            yield from protocol.reasoning_start(self._open)
        yield protocol.reasoning_content(self._open, text)

    def _reasoning_id(self) -> str:
        return f"reasoning-{len(self.thread.messages)}-{self._reasonings}"

    def _recorded(self, event: Event) -> Iterator[AguiEvent]:
        if isinstance(event, ChatResponse) and event.reasoning:
            yield from self._recorded_reasoning(event.reasoning)
            return
        message = self.thread.take(event)
        if isinstance(event, ChatRequest):
            self._forget_streamed()
        if message is None:
            return
        id = str(message["id"])  # noqa: A001  the name in the protocol
        if isinstance(event, ChatResponse):
            yield from self._recorded_text(id, str(message["content"]))
            return
        yield from self.close()
        self._forget_streamed()
        if isinstance(event, ToolCallRequest):
            yield from protocol.tool_call(id, event.name, arguments_text(event))
        else:
            yield {
                "type": "TOOL_CALL_RESULT",
                "messageId": id,
                "toolCallId": message["toolCallId"],
                "role": "tool",
                "content": message["content"],
            }

    def _forget_streamed(self) -> None:
        """Forget the deltas, because all parts of the response are recorded."""
        self._streamed.clear()
        self._has_reasoned = False

    def _recorded_text(self, id: str, text: str) -> Iterator[AguiEvent]:
        streamed = self._streamed.pop(id, None)
        if streamed is None:
            yield from self.close()
            yield from whole_text(id, text)
        elif self._open == id:
            if rest := text.removeprefix(streamed) if text.startswith(streamed) else "":
                yield protocol.text_content(id, rest)
            yield from self.close()

    def _recorded_reasoning(self, text: str) -> Iterator[AguiEvent]:
        if self._has_reasoned:  # the reasoning was streamed
            return
        yield from self.close()
        self._reasonings += 1
        id = self._reasoning_id()  # noqa: A001  the name in the protocol
        yield from protocol.reasoning_start(id)
        yield protocol.reasoning_content(id, text)
        yield from protocol.reasoning_end(id)


def whole_text(id: str, text: str) -> Iterator[AguiEvent]:
    """Yield the events for a complete text."""
    yield protocol.text_start(id)
    yield protocol.text_content(id, text)
    yield protocol.text_end(id)
