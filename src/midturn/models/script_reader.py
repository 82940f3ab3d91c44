"""Read a script for the scripted model from a file or from Python values. All problems are
reported together.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from midturn import exchange
from midturn.errors import ConfigError, ModelError, Problem
from midturn.events.provider_view import provider_view
from midturn.events.types import Event, call_requests
from midturn.models.wrapper import is_transient
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, dumped
from midturn.question.text import did_you_mean

ANY = "*"
Filled: TypeAlias = Annotated[str, Meta(min_length=1)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0)]


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call. If `id` is missing, the call gets the next unused id `call_<n>`. Use a string
    for `arguments` to simulate malformed arguments.
    """

    name: Filled
    id: Filled | None = None
    arguments: dict[str, Json] | str = {}


class ScriptedFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failing request. It contains the HTTP status (None for a broken connection) and the number
    of seconds after which the server allows a retry.
    """

    message: str = ""
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    retry_after: Annotated[float, Meta(ge=0)] | None = None


class ScriptedUsage(exchange.Usage, frozen=True, forbid_unknown_fields=True):
    """Usage of one scripted request. Unlike recorded usage, it does not allow unknown fields."""

    def counted(self) -> exchange.Usage:
        """Return the usage as a plain `Usage`, the type that models report."""
        return exchange.Usage() + self


class ScriptedReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply to one request: text, calls or an error. If both `text` and `error` are set, the
    response fails after the text.

    If `expect` is set, the newest message must contain it. `delay_ms` is the duration of the whole
    reply in milliseconds. `chunk` is the number of characters per delta.
    """

    reasoning: str | None = None
    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedFailure | None = None
    expect: str | None = None
    usage: ScriptedUsage = ScriptedUsage()
    delay_ms: Milliseconds = 0
    chunk: Annotated[int, Meta(ge=1)] | None = None


class ScriptedAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply to a question for the assistant: an answer with its reason, or an error."""

    reason: str | None = None
    answer: Json | UnsetType = UNSET
    error: ScriptedFailure | None = None
    usage: ScriptedUsage = ScriptedUsage()
    delay_ms: Milliseconds = 0


class ScriptedMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answers to matching questions. `*` matches every tool or question. When all answers are
    used, the last answer is repeated.
    """

    answers: Annotated[tuple[ScriptedAnswer, ...], Meta(min_length=1)]
    tool: Filled = ANY
    question: Filled = ANY

    def matches(self, tool: str, question: str) -> bool:
        """Return whether this entry answers `question` of `tool`."""
        return self.tool in {ANY, tool} and self.question in {ANY, question}


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A script: replies in order, and answers to questions for the assistant."""

    replies: tuple[ScriptedReply, ...] = ()
    inquiries: tuple[ScriptedMatch, ...] = ()


def read_script(path: Path) -> Script:
    """Read a `.toml` or `.json` script.

    Raises:
        ConfigError: The file cannot be read or is invalid. The message lists every problem and
            where it is.
    """
    return build_script(_parse(path), origin=str(path))


def build_script(document: object, *, origin: str) -> Script:
    """Validate a decoded `document` and return the script.

    Raises:
        ConfigError: The document is invalid, see `read_script`. The message starts with `origin`.
    """
    plain = _plain(document, origin)
    try:
        script = msgspec.convert(plain, Script)
    except msgspec.ValidationError:  # msgspec reports only the first problem
        problems = [*_problems(plain, Script, "")]
    else:
        problems = [*_contradictions(script)]
        if not problems:
            return script
    lines = "\n".join(f"  {problem}" for problem in problems)
    raise ConfigError(f"{origin} is not a valid script:\n{lines}")


def _parse(path: Path) -> object:
    try:
        if path.exists() and not path.is_file():  # opening a named pipe would block forever
            raise ConfigError(f"{path}: cannot read the script: not a regular file.")
        text = path.read_text(encoding="utf-8-sig")
        match path.suffix:
            case ".toml":
                return tomllib.loads(text)
            case ".json":
                return _decoded(text)
            case suffix:
                raise ConfigError(
                    f"{path}: a script must be a `.toml` or `.json` file, not"
                    f" `{suffix or path.name}`."
                )
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the script: {error.strerror or error}.") from error
    # the decoders and the text codec raise a ValueError with the position
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def _plain(document: object, origin: str) -> Json:
    """Convert TOML and Python values that JSON does not support (dates, tuples, enums) to JSON."""
    try:
        return cast("Json", msgspec.json.decode(msgspec.json.encode(document, enc_hook=dumped)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not a valid script: {error}") from error


def _problems(value: Json, shape: object, pointer: str) -> Iterator[Problem]:
    """Yield every part of `value` that does not match `shape`. `shape` is a struct, a tuple of
    structs, or another type known to msgspec.
    """
    if get_origin(shape) is Annotated and get_origin(get_args(shape)[0]) is tuple and value:
        shape = get_args(shape)[0]
    if get_origin(shape) in {Union, UnionType} and value is not None:
        options = [option for option in get_args(shape) if option is not type(None)]
        shape = options[0] if len(options) == 1 else shape
    if get_origin(shape) is tuple and isinstance(value, list):
        for index, item in enumerate(cast("Sequence[Json]", value)):
            yield from _problems(item, get_args(shape)[0], f"{pointer}/{index}")
    elif isinstance(shape, type) and issubclass(shape, Struct) and isinstance(value, Mapping):
        yield from _field_problems(cast("Mapping[str, Json]", value), shape, pointer)
    else:
        try:
            msgspec.convert(value, cast("Any", shape))
        except msgspec.ValidationError as error:
            yield Problem(pointer, f"{str(error).partition(' - at ')[0]}.")


def _field_problems(
    value: Mapping[str, Json], shape: type[Struct], pointer: str
) -> Iterator[Problem]:
    fields = {field.name: field for field in msgspec.structs.fields(shape)}
    for key, item in value.items():
        if key in fields:
            yield from _problems(item, fields[key].type, f"{pointer}/{key}")
        else:
            hint = (
                did_you_mean(key, fields)
                or f" Known keys: {', '.join(f'`{name}`' for name in fields)}."
            )
            yield Problem(f"{pointer}/{key}", f"unknown key.{hint}")
    for name, field in fields.items():
        if field.required and name not in value:
            yield Problem(pointer, f"`{name}` is missing.")


def _contradictions(script: Script) -> Iterator[Problem]:
    """Yield entries that match their type but are empty or contradictory."""
    for index, reply in enumerate(script.replies):
        if reply.text is None and reply.reasoning is None and not reply.calls and not reply.error:
            yield Problem(
                f"/replies/{index}",
                "the reply is empty. Set `text`, `reasoning`, `calls` or `error`.",
            )
        if reply.calls and reply.error:
            yield Problem(
                f"/replies/{index}",
                "`calls` and `error` are both set. A failed request cannot call tools.",
            )
    for index, inquiry in enumerate(script.inquiries):
        for number, answer in enumerate(inquiry.answers):
            if (answer.answer is UNSET) == (answer.error is None):
                yield Problem(
                    f"/inquiries/{index}/answers/{number}", "set either `answer` or `error`."
                )


# --------------------------------------------------------------------------------------------------
# The position of a conversation in its script


def position(next: int, inquiry: int | None = None) -> dict[str, Json]:
    """Return the `metadata` that records which entry comes next: a reply or, if `inquiry` is set,
    an answer in that entry.
    """
    return {"scripted": {"next": next} if inquiry is None else {"next": next, "inquiry": inquiry}}


def recorded_position(events: Sequence[Event], inquiry: int | None = None) -> int:
    """Return the index of the next entry that follows from the recorded `events`."""
    found = (
        position_.get("next")
        for position_ in map(_scripted, reversed(events))
        if position_.get("inquiry") == inquiry
    )
    places = (position_ for position_ in found if isinstance(position_, int))
    if inquiry is None:
        return next(places, 0)
    return max(
        places, default=0
    )  # answers arrive in parallel and are recorded in order of completion


def _scripted(event: Event) -> Mapping[str, Json]:
    scripted = (event.metadata or {}).get("scripted")
    return scripted if isinstance(scripted, Mapping) else {}


class Progress:
    """Tracks which entries of a script were used.

    The events record most of the used entries. This object also tracks the entries that they do
    not record: errors, and answers in progress. If a conversation has fewer recorded events than
    before, its state is discarded, because it is a different conversation or lost its last events.
    """

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int | None], set[int]] = {}
        self._length: dict[tuple[str, int | None], int] = {}
        self._delivered: dict[str, int] = {}

    def take(self, request: exchange.ModelRequest, inquiry: int | None = None) -> int:
        """Reserve the first unused entry and return its index, which may be past the end of the
        script.
        """
        key = (request.conversation, inquiry)
        if len(request.recorded) < self._length.get(key, 0):
            self._taken.pop(key, None)
        self._length[key] = len(request.recorded)
        start = recorded_position(request.recorded, inquiry)
        lost = None if inquiry is not None else self._delivered.pop(request.conversation, None)
        taken = {index for index in self._taken.get(key, ()) if index >= start and index != lost}
        index = next(place for place in range(start, start + len(taken) + 1) if place not in taken)
        self._taken[key] = taken | {index}
        return index

    def delivered(self, request: exchange.ModelRequest, index: int) -> None:
        """Mark a reply as complete.

        If the reply is not recorded when the next one is requested, the turn was cancelled in
        between. If no events are recorded at all, the program requests replies without a log, one
        after the other.
        """
        if request.recorded:
            self._delivered[request.conversation] = index

    def give_back(
        self, request: exchange.ModelRequest, index: int, inquiry: int | None = None
    ) -> None:
        """Release an entry that was not delivered because the request was cancelled."""
        self._taken.get((request.conversation, inquiry), set()).discard(index)


# --------------------------------------------------------------------------------------------------
# Convert script entries to model events


def deltas(
    reply: ScriptedReply, metadata: dict[str, Json]
) -> Iterator[exchange.ReasoningDelta | exchange.TextDelta]:
    """Split the reply into deltas of `chunk` characters."""
    for kind, text in (
        (exchange.ReasoningDelta, reply.reasoning),
        (exchange.TextDelta, reply.text),
    ):
        size = reply.chunk or max(len(text or ""), 1)
        yield from (
            kind((text or "")[at : at + size], metadata) for at in range(0, len(text or ""), size)
        )


def finished(
    reply: ScriptedReply, request: exchange.ModelRequest, metadata: dict[str, Json] | None = None
) -> exchange.Finished:
    """Return the complete reply. Every part contains `metadata`.

    Raises:
        ModelError: The entry is an error.
    """
    if reply.error:
        raise failure(reply.error)
    parts = tuple(_parts(reply, request, metadata))
    return exchange.Finished(parts, reply.usage.counted(), stop_reason(parts))


def failure(error: ScriptedFailure, metadata: Mapping[str, Json] | None = None) -> ModelError:
    """Return the scripted error. `metadata` is recorded with the error."""
    message = error.message or f"the model failed with status {error.status}"
    raised = ModelError(
        message,
        status=error.status,
        retry_after=error.retry_after,
        transient=is_transient(error.status),
    )
    raised.metadata = metadata
    return raised


def stop_reason(parts: Sequence[exchange.Part]) -> exchange.StopReason:
    """Return the stop reason of a response with these parts."""
    return (
        "tool_calls" if any(isinstance(part, exchange.ToolCallPart) for part in parts) else "stop"
    )


def _parts(
    reply: ScriptedReply, request: exchange.ModelRequest, metadata: dict[str, Json] | None
) -> Iterator[exchange.Part]:
    if reply.reasoning is not None:
        yield exchange.ReasoningPart(reply.reasoning, metadata)
    if reply.text is not None:
        yield _text_part(reply, request, metadata)
    ids = _call_ids(reply.calls, request)
    yield from (
        _call_part(call, call_id, metadata) for call, call_id in zip(reply.calls, ids, strict=True)
    )


def _text_part(
    reply: ScriptedReply, request: exchange.ModelRequest, metadata: dict[str, Json] | None
) -> exchange.TextPart | exchange.StructuredPart:
    """Return the text, or its JSON value if the request has a schema."""
    text = reply.text or ""
    if request.schema is None or reply.calls:
        return exchange.TextPart(text, metadata)

    try:
        return exchange.StructuredPart(read_json(text), metadata)
    except NotJson:
        return exchange.TextPart(text, metadata)


def _call_part(
    call: ScriptedCall, id: str, metadata: dict[str, Json] | None
) -> exchange.ToolCallPart:
    problem = "the arguments are not a JSON object" if isinstance(call.arguments, str) else None
    return exchange.ToolCallPart(id, call.name, call.arguments, problem, metadata)


def _call_ids(calls: Sequence[ScriptedCall], request: exchange.ModelRequest) -> Iterator[str]:
    """Yield the id of each call. It is the id in the script, or the first `call_<n>` that is not
    used in the conversation.
    """
    used = {
        event.id
        for events in (request.events, provider_view(request.recorded))
        for event in call_requests(events)
    }
    used |= {call.id for call in calls if call.id}
    number = 0
    for call in calls:
        call_id = call.id
        while call_id is None:
            number += 1
            call_id = None if f"call_{number}" in used else f"call_{number}"
        yield call_id
