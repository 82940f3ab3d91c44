"""The events of AG-UI as JSON objects. Optional members are left out, never null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from midturn.agent.result import TurnUsage
from midturn.integrations.agui.run_input import PROTOCOL_VERSION
from midturn.question.json_value import Json

AguiEvent: TypeAlias = dict[str, Json]
AguiMessage: TypeAlias = dict[str, Json]


def encode(event: AguiEvent) -> bytes:
    """Return an event as a server-sent event."""
    return b"data: %s\n\n" % msgspec.json.encode(event)


def run_started(thread: str, run: str) -> AguiEvent:
    """Return the first event. It does not contain the input, which may include a secret."""
    return {
        "type": "RUN_STARTED",
        "threadId": thread,
        "runId": run,
        "protocolVersion": PROTOCOL_VERSION,
    }


def run_finished(
    thread: str, run: str, *, usage: Sequence[Json] = (), **members: Json
) -> AguiEvent:
    """Return the last event of a run that did not fail."""
    given: AguiEvent = {"type": "RUN_FINISHED", "threadId": thread, "runId": run, **members}
    return {**given, "usage": [*usage]} if usage else given


def run_error(message: str, code: str, *, usage: Sequence[Json] = ()) -> AguiEvent:
    """Return the last event of a run that failed."""
    given: AguiEvent = {"type": "RUN_ERROR", "message": message, "code": code}
    return {**given, "usage": [*usage]} if usage else given


def snapshot(messages: Sequence[AguiMessage]) -> AguiEvent:
    """Return the event that replaces the messages of the front end."""
    return {"type": "MESSAGES_SNAPSHOT", "messages": [*messages]}


def custom(name: str, value: Json) -> AguiEvent:
    """Return a custom event that midturn defines."""
    return {"type": "CUSTOM", "name": f"midturn.{name}", "value": value}


def text_start(id: str) -> AguiEvent:
    """Return the event that starts a text from the assistant."""
    return {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}


def text_content(id: str, delta: str) -> AguiEvent:
    """Return the event for a part of a text."""
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}


def text_end(id: str) -> AguiEvent:
    """Return the event that ends a text."""
    return {"type": "TEXT_MESSAGE_END", "messageId": id}


def reasoning_start(id: str) -> Iterator[AguiEvent]:
    """Yield the events that start reasoning."""
    yield {"type": "REASONING_START", "messageId": id}
    yield {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}


def reasoning_content(id: str, delta: str) -> AguiEvent:
    """Return the event for a part of reasoning."""
    return {"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta}


def reasoning_end(id: str) -> Iterator[AguiEvent]:
    """Yield the events that end reasoning."""
    yield {"type": "REASONING_MESSAGE_END", "messageId": id}
    yield {"type": "REASONING_END", "messageId": id}


def tool_call(id: str, name: str, arguments: str) -> Iterator[AguiEvent]:
    """Yield the events for a call. The front end shows the call as a message with the ID of the
    call.
    """
    yield {
        "type": "TOOL_CALL_START",
        "toolCallId": id,
        "toolCallName": name,
        "parentMessageId": id,
    }
    yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments}
    yield {"type": "TOOL_CALL_END", "toolCallId": id}


def token_usage(usage: TurnUsage) -> list[Json]:
    """Return the number of tokens that each model used."""
    found: list[Json] = []
    for name, used in usage.by_model.items():
        provider, slash, model = name.partition("/")
        found.append(
            {
                **({"provider": provider} if slash else {}),
                "model": model if slash else name,
                "inputTokens": used.input_tokens,
                "outputTokens": used.output_tokens,
                "totalTokens": used.total,
                "cachedInputTokens": used.cache_read_tokens,
                "cacheWriteInputTokens": used.cache_write_tokens,
            }
        )
    return found
