"""A script, and the way to one from a file or from Python values, with every problem at once."""

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
    """A tool call. Without `id` it gets the next free `call_<n>`; `arguments` as a string imitate a call that is not a JSON object."""

    name: Filled
    id: Filled | None = None
    arguments: dict[str, Json] | str = {}


class ScriptedFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failing request: an HTTP status (none: the connection broke), and how many seconds the server asks to wait."""

    message: str = ""
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    retry_after: Annotated[float, Meta(ge=0)] | None = None


class ScriptedUsage(exchange.Usage, frozen=True, forbid_unknown_fields=True):
    """Usage of one scripted request. A script has no other names in it; what is recorded may have, from newer versions."""

    def counted(self) -> exchange.Usage:
        """Return it as a model reports it."""
        return exchange.Usage() + self


class ScriptedReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply to one request: text, calls, or an error (after `text`, where both are given: the response is cut).

    `expect` must occur in the newest message. `delay_ms` is the time that the whole reply takes, `chunk` the characters of one delta.
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
    """The reply to a question to the assistant: an answer with its reason, or an error."""

    reason: str | None = None
    answer: Json | UnsetType = UNSET
    error: ScriptedFailure | None = None
    usage: ScriptedUsage = ScriptedUsage()
    delay_ms: Milliseconds = 0


class ScriptedMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answers to the questions that match; `*` matches every tool or question, and the last answer repeats."""

    answers: Annotated[tuple[ScriptedAnswer, ...], Meta(min_length=1)]
    tool: Filled = ANY
    question: Filled = ANY

    def matches(self, tool: str, question: str) -> bool:
        """Whether this entry answers `question` of `tool`."""
        return self.tool in {ANY, tool} and self.question in {ANY, question}


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole script: replies in order, and answers for questions that are routed to the assistant."""

    replies: tuple[ScriptedReply, ...] = ()
    inquiries: tuple[ScriptedMatch, ...] = ()


def read_script(path: Path) -> Script:
    """Read a `.toml` or `.json` script.

    Raises:
        ConfigError: The file cannot be read, is not TOML or JSON, or breaks a rule; the message lists every problem with its place.
    """
    return build_script(_parse(path), origin=str(path))


def build_script(document: object, *, origin: str) -> Script:
    """Check the decoded `document` and return the script in it.

    Raises:
        ConfigError: As of `read_script`; `origin` heads the message.
    """
    plain = _plain(document, origin)
    try:
        script = msgspec.convert(plain, Script)
    except msgspec.ValidationError:  # it names the first problem only
        problems = [*_problems(plain, Script, "")]
    else:
        problems = [*_contradictions(script)]
        if not problems:
            return script
    lines = "\n".join(f"  {problem}" for problem in problems)
    raise ConfigError(f"{origin} is not a valid script:\n{lines}")


def _parse(path: Path) -> object:
    try:
        if path.exists() and not path.is_file():  # a fifo would hold us up for ever
            raise ConfigError(f"{path}: the script cannot be read: it is not a regular file.")
        text = path.read_text(encoding="utf-8-sig")
        match path.suffix:
            case ".toml":
                return tomllib.loads(text)
            case ".json":
                return _decoded(text)
            case suffix:
                raise ConfigError(f"{path}: a script is a `.toml` or a `.json` file, not `{suffix or path.name}`.")
    except OSError as error:
        raise ConfigError(f"{path}: the script cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # both decoders and the text codec raise a ValueError that names the place
        raise ConfigError(f"{path}: {error}") from error


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def _plain(document: object, origin: str) -> Json:
    """Write what TOML and Python know beyond JSON (dates, tuples, enums) as JSON."""
    try:
        return cast("Json", msgspec.json.decode(msgspec.json.encode(document, enc_hook=dumped)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not a valid script: {error}") from error


def _problems(value: Json, shape: object, pointer: str) -> Iterator[Problem]:
    """Find everything in `value` that does not fit `shape`: a struct, a tuple of structs, or what msgspec converts by itself."""
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


def _field_problems(value: Mapping[str, Json], shape: type[Struct], pointer: str) -> Iterator[Problem]:
    fields = {field.name: field for field in msgspec.structs.fields(shape)}
    for key, item in value.items():
        if key in fields:
            yield from _problems(item, fields[key].type, f"{pointer}/{key}")
        else:
            hint = did_you_mean(key, fields) or f" Known are {', '.join(f'`{name}`' for name in fields)}."
            yield Problem(f"{pointer}/{key}", f"unknown key.{hint}")
    for name, field in fields.items():
        if field.required and name not in value:
            yield Problem(pointer, f"`{name}` is missing.")


def _contradictions(script: Script) -> Iterator[Problem]:
    """Find what fits its shape and still says nothing, or two things at once."""
    for index, reply in enumerate(script.replies):
        if reply.text is None and reply.reasoning is None and not reply.calls and not reply.error:
            yield Problem(f"/replies/{index}", "it says nothing. Give it `text`, `reasoning`, `calls` or `error`.")
        if reply.calls and reply.error:
            yield Problem(f"/replies/{index}", "it has both `calls` and `error`. A request that fails calls no tool.")
    for index, inquiry in enumerate(script.inquiries):
        for place, answer in enumerate(inquiry.answers):
            if (answer.answer is UNSET) == (answer.error is None):
                yield Problem(f"/inquiries/{index}/answers/{place}", "it needs either `answer` or `error`.")


# ----------------------------------------------------------------------------------------------------------------------
# Position of a conversation in its script


def position(next: int, inquiry: int | None = None) -> dict[str, Json]:
    """Return the `metadata` that records which entry comes next: of the replies, or of the answers of entry `inquiry`."""
    return {"scripted": {"next": next} if inquiry is None else {"next": next, "inquiry": inquiry}}


def recorded_position(events: Sequence[Event], inquiry: int | None = None) -> int:
    """Return the index of the entry that comes next, as far as `events` tell."""
    found = (place.get("next") for place in map(_scripted, reversed(events)) if place.get("inquiry") == inquiry)
    places = (place for place in found if isinstance(place, int))
    if inquiry is None:
        return next(places, 0)
    return max(places, default=0)  # questions are answered side by side, and recorded in the order in which they end


def _scripted(event: Event) -> Mapping[str, Json]:
    scripted = (event.metadata or {}).get("scripted")
    return scripted if isinstance(scripted, Mapping) else {}


class Progress:
    """Used entries of a script. The record says so; what no record can hold stands here: errors, and answers that are under way.

    It forgets a conversation whose record has become shorter: that is another conversation, or one that lost its end.
    """

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int | None], set[int]] = {}
        self._length: dict[tuple[str, int | None], int] = {}
        self._delivered: dict[str, int] = {}

    def take(self, request: exchange.ModelRequest, inquiry: int | None = None) -> int:
        """Reserve the first free entry and return its index, which may lie past the end of the script."""
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
        """Note that a reply is complete. If it is not on record when the next one is asked for, the turn was cancelled with it in hand.

        Where nothing is recorded at all, the program asks for one reply after the other.
        """
        if request.recorded:
            self._delivered[request.conversation] = index

    def give_back(self, request: exchange.ModelRequest, index: int, inquiry: int | None = None) -> None:
        """Free an entry that was not delivered: the request was cancelled."""
        self._taken.get((request.conversation, inquiry), set()).discard(index)


# ----------------------------------------------------------------------------------------------------------------------
# From an entry of a script to what a model yields


def deltas(reply: ScriptedReply, metadata: dict[str, Json]) -> Iterator[exchange.ReasoningDelta | exchange.TextDelta]:
    """Cut the reply into pieces of `chunk` characters."""
    for kind, text in ((exchange.ReasoningDelta, reply.reasoning), (exchange.TextDelta, reply.text)):
        size = reply.chunk or max(len(text or ""), 1)
        yield from (kind((text or "")[at : at + size], metadata) for at in range(0, len(text or ""), size))


def finished(reply: ScriptedReply, request: exchange.ModelRequest, metadata: dict[str, Json] | None = None) -> exchange.Finished:
    """Return the reply as it is recorded; every part carries `metadata`.

    Raises:
        ModelError: The reply is an error.
    """
    if reply.error:
        raise failure(reply.error)
    parts = tuple(_parts(reply, request, metadata))
    return exchange.Finished(parts, reply.usage.counted(), stop_reason(parts))


def failure(error: ScriptedFailure, metadata: Mapping[str, Json] | None = None) -> ModelError:
    """Return the error that the script imitates; `metadata` is recorded with it."""
    message = error.message or f"the model failed with status {error.status}"
    raised = ModelError(message, status=error.status, retry_after=error.retry_after, transient=is_transient(error.status))
    raised.metadata = metadata
    return raised


def stop_reason(parts: Sequence[exchange.Part]) -> exchange.StopReason:
    """Say why an answer of these parts ended."""
    return "tool_calls" if any(isinstance(part, exchange.ToolCallPart) for part in parts) else "stop"


def _parts(reply: ScriptedReply, request: exchange.ModelRequest, metadata: dict[str, Json] | None) -> Iterator[exchange.Part]:
    if reply.reasoning is not None:
        yield exchange.ReasoningPart(reply.reasoning, metadata)
    if reply.text is not None:
        yield _text_part(reply, request, metadata)
    ids = _call_ids(reply.calls, request)
    yield from (_call_part(call, call_id, metadata) for call, call_id in zip(reply.calls, ids, strict=True))


def _text_part(
    reply: ScriptedReply, request: exchange.ModelRequest, metadata: dict[str, Json] | None
) -> exchange.TextPart | exchange.StructuredPart:
    """Return the text, or the value in it where an answer of a certain shape is wanted."""
    text = reply.text or ""
    if request.schema is None or reply.calls:
        return exchange.TextPart(text, metadata)

    try:
        return exchange.StructuredPart(read_json(text), metadata)
    except NotJson:
        return exchange.TextPart(text, metadata)


def _call_part(call: ScriptedCall, id: str, metadata: dict[str, Json] | None) -> exchange.ToolCallPart:
    problem = "the arguments are not a JSON object" if isinstance(call.arguments, str) else None
    return exchange.ToolCallPart(id, call.name, call.arguments, problem, metadata)


def _call_ids(calls: Sequence[ScriptedCall], request: exchange.ModelRequest) -> Iterator[str]:
    """Give each call its id: the script's, or the first `call_<n>` that the conversation does not have yet."""
    used = {event.id for events in (request.events, provider_view(request.recorded)) for event in call_requests(events)}
    used |= {call.id for call in calls if call.id}
    number = 0
    for call in calls:
        call_id = call.id
        while call_id is None:
            number += 1
            call_id = None if f"call_{number}" in used else f"call_{number}"
        yield call_id
