"""Reads the events of one run of a remote agent, and returns the result of the run.

Agents may use AG-UI 1.0 or an earlier version. Members are read in both spellings (`threadId`,
`thread_id`), and unknown events are ignored. An event that cannot be read raises an error that
names the event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Final, TypeAlias, cast

import msgspec
from msgspec import Struct

from midturn.integrations.agui.json_patch import InvalidPatch, PatchedDocument
from midturn.integrations.agui.protocol import AguiMessage
from midturn.integrations.agui.run_input import member
from midturn.integrations.remote_http import RemoteError
from midturn.question.json_value import Json, JsonObject, canonical, items, members, text

OLD_INTERRUPT: Final = "on_interrupt"
"""Name of the custom event that older agents send instead of an interrupt outcome."""


class MalformedEvent(RemoteError):  # noqa: N818  named for the fault of the agent
    """The remote agent sent an event that cannot be read."""


# Outcomes
# --------------------------------------------------------------------------------------------------


class Succeeded(Struct, frozen=True):
    """The run succeeded. `result` is the structured result, or None. `open_calls` contains the
    names of calls without a result.
    """

    result: Json = None
    open_calls: tuple[str, ...] = ()


class Interrupted(Struct, frozen=True):
    """The run waits for answers. `interrupts` contains the unchecked interrupts in AG-UI format."""

    interrupts: Sequence[JsonObject]


class Cancelled(Struct, frozen=True):
    """The run was cancelled at the remote agent."""


class Failed(Struct, frozen=True):
    """The run failed."""

    message: str
    code: str = ""


Outcome: TypeAlias = Succeeded | Interrupted | Cancelled | Failed


class RemoteRun(Struct, frozen=True, kw_only=True):
    """The result of a run.

    Args:
        outcome: The outcome.
        messages: All messages of the thread, to send with the next run.
        state: The state of the agent, to send with the next run.
        text: The texts that the agent wrote in this run.
    """

    outcome: Outcome
    messages: Sequence[AguiMessage]
    state: Json
    text: str


# Server-sent events
# --------------------------------------------------------------------------------------------------


class SseReader:
    """Splits a stream of server-sent events into the data of each event."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []

    def take(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in this chunk."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._line += part
            line = bytes(self._line).removesuffix(b"\r")
            self._line.clear()
            if line:
                self._take_line(line)
            elif self._data:
                data = b"\n".join(self._data)
                self._data.clear()
                yield data
        self._line += rest

    def _take_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))


# Events
# --------------------------------------------------------------------------------------------------


def read_event(data: bytes) -> JsonObject:
    """Parse an event.

    Raises:
        MalformedEvent: The data is not a JSON object with a `type`.
    """
    try:
        event = cast("Json", msgspec.json.decode(data))
    except (ValueError, RecursionError) as error:  # `msgspec.DecodeError` is a `ValueError`
        raise MalformedEvent(
            f"The remote agent has sent an event that is not JSON: {error}."
        ) from None
    if not isinstance(event, Mapping) or not text(event.get("type")):
        raise MalformedEvent("The remote agent has sent an event without a `type`.")
    return event


class _Event:
    """Reads the members of an event.

    Raises:
        MalformedEvent: A member is missing, or has the wrong type.
    """

    def __init__(self, event: JsonObject) -> None:
        self.type = text(event.get("type"))
        self._event = event

    def get(self, name: str) -> Json:
        return member(self._event, name)

    def string(self, name: str) -> str:
        found = self.get(name)
        if not isinstance(found, str):
            raise self.malformed(f"`{name}` must be a string.")
        return found

    def id(self, name: str) -> str:
        found = self.string(name)
        if not found:
            raise self.malformed(f"`{name}` must not be empty.")
        return found

    def optional(self, name: str) -> str:
        return "" if self.get(name) is None else self.string(name)

    def array(self, name: str) -> Sequence[Json]:
        found = self.get(name)
        if not isinstance(found, list):
            raise self.malformed(f"`{name}` must be an array.")
        return found

    def malformed(self, problem: str) -> MalformedEvent:
        return MalformedEvent(
            f"The remote agent has sent an invalid event {self.type:.100}: {problem}"
        )


class _Text:
    """A text message that arrives in parts."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        self._parts.append(part)

    def __str__(self) -> str:
        return "".join(self._parts)


class RunReader:
    """Reads the events of one run.

    Args:
        messages: The messages that were sent with the run.
        state: The state that was sent with the run.
    """

    def __init__(self, messages: Sequence[AguiMessage], state: Json) -> None:
        self._messages: dict[str, AguiMessage] = {
            str(message["id"]): message for message in messages
        }
        self._known = frozenset(self._messages)
        self._texts: dict[str, _Text] = {}
        self._arguments: dict[str, _Text] = {}
        self._calls: dict[str, dict[str, Json]] = {}
        self._results: set[str] = set()
        self._state = PatchedDocument(deepcopy(state))
        self._old_interrupts: list[JsonObject] = []
        self._chunk_text = ""
        self._chunk_call = ""
        self._streamed: set[str] = set()
        self.outcome: Outcome | None = None

    def take(self, given: JsonObject) -> Iterator[str]:
        """Process an event and yield its new text, if it contains any.

        Raises:
            MalformedEvent: The event cannot be read.
        """
        event = _Event(given)
        kind = event.type
        if kind.startswith("TEXT_MESSAGE_"):
            yield from self._take_text(event)
        elif kind.startswith("TOOL_CALL_"):
            self._take_call(event)
        elif kind.startswith("RUN_"):
            self._take_lifecycle(event)
        elif kind == "MESSAGES_SNAPSHOT":
            self._replace_messages(event)
        elif kind == "STATE_SNAPSHOT":
            self._state = PatchedDocument(event.get("snapshot"))
        elif kind == "STATE_DELTA":
            try:
                self._state.apply(event.array("delta"))
            except InvalidPatch as error:
                raise event.malformed(f"{error}.") from None
        elif kind == "CUSTOM" and event.get("name") == OLD_INTERRUPT:
            self._old_interrupts.append(_old_interrupt(event))

    @property
    def result(self) -> RemoteRun:
        """The result of the run. Use it only after the last event."""
        assert self.outcome is not None  # noqa: S101  the caller already read the last event
        messages = [self._whole(message) for message in self._messages.values()]
        texts = (
            text(message.get("content"))
            for message in messages
            if message["id"] not in self._known and message.get("role") == "assistant"
        )
        return RemoteRun(
            outcome=self.outcome,
            messages=messages,
            state=self._state.value,
            text="\n\n".join(filter(None, texts)),
        )

    def _whole(self, message: AguiMessage) -> AguiMessage:
        """Return a message with its text and its calls."""
        written = self._texts.get(str(message["id"]))
        calls: list[Json] = []
        for call in items(message.get("toolCalls")):
            arguments = self._arguments.get(text(members(call).get("id")))
            if arguments is None:
                calls.append(call)
                continue
            function = {**members(members(call).get("function")), "arguments": str(arguments)}
            calls.append({**members(call), "function": function})
        return {
            **message,
            **({"content": str(written)} if written else {}),
            **({"toolCalls": calls} if calls else {}),
        }

    # Texts
    # ----------------------------------------------------------------------------------------------

    def _take_text(self, event: _Event) -> Iterator[str]:
        match event.type:
            case "TEXT_MESSAGE_START":
                self._begin_text(event.id("messageId"), event.optional("role"))
            case "TEXT_MESSAGE_CONTENT":
                yield from self._add_text(event, event.id("messageId"), event.string("delta"))
            case "TEXT_MESSAGE_CHUNK":
                id = event.optional("messageId") or self._chunk_text  # noqa: A001  the protocol's name
                if not id:
                    raise event.malformed("`messageId` is missing.")
                if id not in self._texts:
                    self._begin_text(id, event.optional("role"))
                self._chunk_text = id
                yield from self._add_text(event, id, event.optional("delta"))
            case _:
                pass

    def _begin_text(self, id: str, role: str) -> None:
        known = self._messages.get(id, {"id": id, "role": role or "assistant"})
        self._messages[id] = {**known, "content": ""}
        self._texts[id] = _Text()

    def _add_text(self, event: _Event, id: str, delta: str) -> Iterator[str]:
        if id not in self._texts or id not in self._messages:
            raise event.malformed(f"the message {id!r:.100} was not started.")
        self._texts[id].add(delta)
        if not delta or self._messages[id].get("role") != "assistant":
            return
        if self._streamed and id not in self._streamed:
            yield "\n\n"
        self._streamed.add(id)
        yield delta

    # Calls
    # ----------------------------------------------------------------------------------------------

    def _take_call(self, event: _Event) -> None:
        match event.type:
            case "TOOL_CALL_START":
                self._begin_call(event, event.id("toolCallId"))
            case "TOOL_CALL_ARGS":
                self._add_arguments(event, event.id("toolCallId"), event.string("delta"))
            case "TOOL_CALL_CHUNK":
                id = event.optional("toolCallId") or self._chunk_call  # noqa: A001  the protocol's name
                if not id:
                    raise event.malformed("`toolCallId` is missing.")
                if id not in self._calls:
                    self._begin_call(event, id)
                self._chunk_call = id
                self._add_arguments(event, id, event.optional("delta"))
            case "TOOL_CALL_RESULT":
                self._take_result(event)
            case _:
                pass

    def _begin_call(self, event: _Event, id: str) -> None:
        name = event.string("toolCallName")
        message_id = event.optional("parentMessageId") or id
        message = self._messages.get(message_id, {"id": message_id, "role": "assistant"})
        call: dict[str, Json] = {
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        others = [each for each in items(message.get("toolCalls")) if members(each)["id"] != id]
        self._messages[message_id] = {**message, "toolCalls": [*others, call]}
        self._calls[id] = call
        self._arguments[id] = _Text()

    def _add_arguments(self, event: _Event, id: str, delta: str) -> None:
        if id not in self._arguments:
            raise event.malformed(f"the call {id!r:.100} was not started.")
        self._arguments[id].add(delta)

    def _take_result(self, event: _Event) -> None:
        id, call = event.id("messageId"), event.id("toolCallId")  # noqa: A001  the protocol's name
        content = event.get("content")
        self._results.add(call)
        self._messages[id] = {
            "id": id,
            "role": "tool",
            "toolCallId": call,
            "content": content if isinstance(content, str) else canonical(content).decode(),
        }

    # Messages
    # ----------------------------------------------------------------------------------------------

    def _replace_messages(self, event: _Event) -> None:
        found: dict[str, AguiMessage] = {}
        for message in event.array("messages"):
            id = member(message, "id")  # noqa: A001  the protocol's name
            if not isinstance(id, str) or not id or not text(member(message, "role")):
                raise event.malformed("a message has no `id` or no `role`.")
            for call in items(member(message, "toolCalls")):
                if not text(members(call).get("id")):
                    raise event.malformed("a call has no `id`.")
            found[id] = dict(members(message))
        self._messages = found
        self._texts.clear()
        self._arguments.clear()

    # Beginning and end
    # ----------------------------------------------------------------------------------------------

    def _take_lifecycle(self, event: _Event) -> None:
        match event.type:
            case "RUN_STARTED":
                version = event.optional("protocolVersion")
                if version and version.partition(".")[0] != "1":
                    raise event.malformed(f"version {version!r:.40} is not supported.")
            case "RUN_FINISHED":
                self.outcome = self._finished(event)
            case "RUN_ERROR":
                self.outcome = Failed(event.string("message"), event.optional("code"))
            case _:
                pass

    def _finished(self, event: _Event) -> Outcome:
        outcome = event.get("outcome")
        if outcome is None:
            if self._old_interrupts:
                return Interrupted(self._old_interrupts)
            return Succeeded(event.get("result"), tuple(self._open_calls()))
        match member(outcome, "type"):
            case "success":
                return Succeeded(event.get("result"))
            case "cancelled":
                return Cancelled()
            case "interrupt":
                interrupts = items(member(outcome, "interrupts"))
                if not interrupts or not all(isinstance(each, Mapping) for each in interrupts):
                    raise event.malformed("`outcome.interrupts` must be an array of objects.")
                return Interrupted([members(each) for each in interrupts])
            case other:
                raise event.malformed(f"the outcome {other!r:.40} is not known.")

    def _open_calls(self) -> Iterator[str]:
        """Yield the names of the calls in this run that have no result. Agents that use a version
        before 1.0 leave calls to front-end tools open.
        """
        for id, call in self._calls.items():  # noqa: A001  the protocol's name
            if id not in self._results:
                yield text(members(call["function"]).get("name"))


def _old_interrupt(event: _Event) -> JsonObject:
    """Return the interrupt in a custom event `on_interrupt`. Its value is JSON, or text that may be
    JSON. The ID is in `rawEvent` or in the value.
    """
    value = event.get("value")
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):  # the value may be plain text
            value = cast("Json", msgspec.json.decode(value))
    given = members(value)
    raw_id = member(event.get("rawEvent"), "id")
    id = given.get("id") if raw_id is None else raw_id  # noqa: A001  the protocol's name
    found: dict[str, Json] = {**given, "id": id}
    if not isinstance(value, Mapping):
        found["message"] = value if isinstance(value, str) else canonical(value).decode()
    elif member(given, "message") is None:
        found["message"] = canonical(value).decode()
    return found
