"""Encode and decode events, one per line. Unknown keys and event types are preserved.

Decoding never raises. A line with an unknown event type, or with fields that are invalid for its
type, becomes an `OpaqueEvent` that contains the original line. The encoder writes `type` first,
then `timestamp`, `event_id` and `more`, then the other fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from io import BytesIO
from itertools import compress, islice
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias, cast, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from midturn.errors import MidturnError
from midturn.events import types as ev
from midturn.question.json_value import DEFAULT_LIMITS, Json, Limits


class BrokenRuleError(ValueError):
    """An event of a known type breaks a rule that its type annotations cannot express."""


class UnknownOutcomeError(ValueError):
    """The outcome of a response is unknown to this version. A newer version wrote it, so the
    response counts as valid.
    """


class ResponseWire(
    ev.Event,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="type",
    tag="inquiry_response",
):
    """An `inquiry_response` as stored. The outcome can be any string. Old events may have no
    outcome.
    """

    id: str
    outcome: str | None = None
    answer: Json | UnsetType = UNSET
    answered_by: ev.AnsweredBy | None = None
    reason: str | None = None
    remembered: bool = False
    votes: tuple[str, ...] = ()

    def event(self) -> ev.InquiryResponse:
        """Return the event as an instance of the class for its outcome. The `answer` of a
        `redacted` response is dropped.

        Raises:
            BrokenRuleError: `outcome` and `answer` are both missing, or an `answered` response has
                no answer.
            UnknownOutcomeError: The outcome is unknown to this version.
        """
        match self.outcome:
            case "answered" | None if self.answer is not UNSET:
                return ev.InquiryAnswered(
                    timestamp=self.timestamp,
                    event_id=self.event_id,
                    more=self.more,
                    metadata=self.metadata,
                    requires=self.requires,
                    id=self.id,
                    answer=self.answer,
                    answered_by=self.answered_by,
                    reason=self.reason,
                    remembered=self.remembered,
                    votes=self.votes,
                )
            case "answered" | None:
                missing = "`answer` is" if self.outcome else "`outcome` and `answer` are"
                raise BrokenRuleError(
                    f"{missing} missing; `outcome` must be `answered` (with `answer`), `cancelled`"
                    " or `redacted`"
                )
            case "cancelled":
                reason = "user" if self.reason is None else self.reason
                return ev.InquiryCancelled(
                    timestamp=self.timestamp,
                    event_id=self.event_id,
                    more=self.more,
                    metadata=self.metadata,
                    requires=self.requires,
                    id=self.id,
                    reason=reason,
                )
            case "redacted":
                return ev.InquiryRedacted(
                    timestamp=self.timestamp,
                    event_id=self.event_id,
                    more=self.more,
                    metadata=self.metadata,
                    requires=self.requires,
                    id=self.id,
                    answered_by=self.answered_by,
                )
            case newer:
                raise UnknownOutcomeError(newer)


class Start(Struct, frozen=True, tag_field="type", tag="turn_start"):
    """A `turn_start` event, of which only the ID is decoded."""

    event_id: str = "unknown"


_Wire: TypeAlias = (
    ev.TurnStart
    | ev.TurnEnd
    | ev.ChatRequest
    | ev.ChatResponse
    | ev.ToolCallRequest
    | ev.ToolCallResponse
    | ev.InquiryRequest
    | ResponseWire
    | ev.Approval
    | ev.Suspended
    | ev.Child
    | ev.CallValue
    | ev.ConfigDelta
    | ev.Vote
    | ev.Reassigned
    | ev.Reminded
    | ev.Escalated
    | ev.Proposal
    | ev.Notified
    | ev.Standing
)

KINDS: Final = frozenset(cast("str", kind.__struct_config__.tag) for kind in get_args(_Wire))
"""The event types that have a class. All others become opaque events."""

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder(enc_hook=ev.encode_custom)
# msgspec and Unicode errors are ValueErrors
_DECODE_ERRORS: Final = (ValueError, RecursionError, MidturnError)
_STRING: Final = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_ESCAPE: Final = rb"(?s)\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)"
# maximum number of nesting levels around a value in an event (reached by values in a form)
_EVENT_LEVELS: Final = 16
NEVER_TOO_DEEP: Final = 2 * (DEFAULT_LIMITS.json_depth + _EVENT_LEVELS)
"""Line length in bytes. Shorter lines cannot exceed the depth limit, because each nesting level
needs two bytes.
"""
_BRACKET: Final = rb"[\[{\]}]"
_HEAD: Final = cast("Callable[[bytes], bytes]", itemgetter(slice(16)))
"""Returns the beginning of a line, which identifies the event type if midturn wrote the line."""
_EVENT_ID: Final = attrgetter("event_id")


def _head(kind: str) -> bytes:
    return _HEAD(b'{"type":"%b","timestamp' % kind.encode())


_HEADS: Final = frozenset(map(_head, KINDS))
_CHAT_HEADS: Final = frozenset(head for head in _HEADS if head.startswith(b'{"type":"chat_re'))
_CALL_HEADS: Final = frozenset(head for head in _HEADS if head.startswith(b'{"type":"tool_ca'))
_VISIBLE_HEADS: Final = _CHAT_HEADS | _CALL_HEADS | {b'{"type":"turn_st'}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_EXACTLY_ONE: Final = frozenset((1,))
_BATCH_LINES: Final = 1_000  # maximum number of lines per batch
_LIMIT_CHECK_LINES: Final = 40  # maximum number of lines per limit check


@cache
def _decoder() -> msgspec.json.Decoder[_Wire]:
    """Return the event decoder. It is created on first use, because creating it is slow."""
    return msgspec.json.Decoder(_Wire)


@cache
def _visible_decoder() -> msgspec.json.Decoder[Start | ev.VisibleEvent]:
    return msgspec.json.Decoder(Start | ev.VisibleEvent)


def encode_event(event: ev.Event) -> bytes:
    """Encode an event as one line, without the newline.

    Lone surrogates, which UTF-8 cannot represent, are written as U+FFFD.
    """
    if isinstance(event, ev.OpaqueEvent):
        return bytes(event.raw)
    try:
        return _ENCODER.encode(event)
    except UnicodeEncodeError:
        return _ENCODER.encode(_whole_characters(event.to_json()))


def decode_event(line: bytes, where: str, limits: Limits = DEFAULT_LIMITS) -> ev.Event:
    """Decode one line. Never raises: an unreadable line becomes an `OpaqueEvent` whose `problem`
    says why.

    Args:
        line: The bytes of the line. A carriage return at its end is ignored.
        where: `<file>:<line number>`. An event without an `event_id` gets the id `line:<line
            number>` in memory.
        limits: Only `event_line` (bytes) and `json_depth` apply.
    """
    try:
        event = _read(line, limits)
    except _DECODE_ERRORS as error:
        return _opaque(line, where, error)
    return event if event.event_id else _with_line_id(event, where)


def decode_lines(
    lines: Iterable[bytes], file: str, first: int = 1, limits: Limits = DEFAULT_LIMITS
) -> list[ev.Event]:
    """Decode lines of `file`, of which the first has the number `first`. For valid lines, this is
    much faster than `decode_event`.
    """
    events: list[ev.Event] = []
    for batch in _batches(lines):
        events += decode_plain(batch, limits) or _decoded_one_by_one(
            batch, file, first + len(events), limits
        )
    return events


def decode_stream(data: bytes, file: str, first: int = 1) -> list[ev.Event]:
    """Decode bytes of `file` that end with a newline. The first line has the number `first`. Blank
    lines are skipped.
    """
    lines = data.split(b"\n")[:-1]
    cleaned = [clean(line) for line in lines]
    if all(cleaned):
        return decode_lines(cleaned, file, first)
    return [
        decode_event(line, f"{file}:{number}") for number, line in enumerate(cleaned, first) if line
    ]


def clean(line: bytes) -> bytes:
    """Strip the spaces, carriage return and byte order mark that editors add to a line."""
    return line.removeprefix(_BYTE_ORDER_MARK).strip()


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split lines into batches, so that an invalid line slows down only its own batch."""
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH_LINES)):
        yield batch


def decode_plain(lines: Sequence[bytes], limits: Limits = DEFAULT_LIMITS) -> list[ev.Event] | None:
    """Decode lines if all of them are valid and have event IDs. Otherwise, return None."""
    try:
        wires = list(map(_decoder().decode, lines))
        events: list[ev.Event] = [
            wire.event() if type(wire) is ResponseWire else wire for wire in wires
        ]
    except _DECODE_ERRORS:
        return None
    return events if _are_plain(events) and _keep_limits(lines, limits) else None


def keep_types(lines: Sequence[bytes]) -> bool:
    """Return whether all lines are valid events of known types. This check runs for every
    written batch. To be fast, it checks all lines in one call.
    """
    try:
        _decoder().decode_lines(b"".join(lines))
    except _DECODE_ERRORS:
        return False
    return True


def problem_of(line: bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return why a line cannot be decoded as an event, or an empty string if it can."""
    try:
        _read(line, limits)
    except _DECODE_ERRORS as error:
        return _reason(error)
    return ""


def decode_visible(data: bytes) -> list[Start | ev.VisibleEvent] | None:
    """Decode the events that are visible to model providers. If there are tool calls, also decode
    each `turn_start`.

    Returns None if a line is not in the format that midturn writes.

    A long history is decoded before each model request, so all lines are decoded together in a
    few calls.
    """
    lines = BytesIO(data).readlines()  # four times as fast as `split`
    heads = list(map(_HEAD, lines))
    kinds = set(heads)
    if not _HEADS.issuperset(kinds):
        return None
    visible_heads = _CHAT_HEADS if _CALL_HEADS.isdisjoint(kinds) else _VISIBLE_HEADS
    visible = list(compress(lines, map(visible_heads.__contains__, heads)))
    try:
        events = list(map(_visible_decoder().decode, visible))
    except _DECODE_ERRORS:
        return None
    return events if _are_plain(events) and _keep_limits(visible) else None


def decode_kind(data: bytes, kind: str) -> list[ev.Event]:
    """Decode the events of one type. A line is skipped only if it has the format that midturn
    writes and begins with another type.
    """
    others = _HEADS - {_head(kind)}
    lines = (clean(line) for line in BytesIO(data) if line[:16] not in others)
    return [decode_event(line, "") for line in lines if line]


def _are_plain(events: Sequence[ev.Event | Start]) -> bool:
    """Return whether every event has an ID and follows the rules that types cannot express."""
    responses = cast(
        "list[ev.ChatResponse]", [event for event in events if event.__class__ is ev.ChatResponse]
    )
    return all(map(_EVENT_ID, events)) and _EXACTLY_ONE.issuperset(map(_parts_of, responses))


def _keep_limits(lines: Sequence[bytes], limits: Limits = DEFAULT_LIMITS) -> bool:
    """Return whether all lines are within the limits. To be fast, check several lines together,
    because most lines are short.
    """
    if len(lines) <= _LIMIT_CHECK_LINES and _keeps_limits(b"".join(lines), limits):
        return True
    for first in range(0, len(lines), _LIMIT_CHECK_LINES):
        batch = lines[first : first + _LIMIT_CHECK_LINES]
        if not _keeps_limits(b"".join(batch), limits) and not all(
            _keeps_limits(line, limits) for line in batch
        ):
            return False
    return True


def _keeps_limits(text: bytes, limits: Limits) -> bool:
    return len(text) <= limits.event_line and _brackets(text) <= limits.json_depth


def _brackets(text: bytes) -> int:
    """Count opening brackets. Uses `replace`, which is faster than `count`."""
    return 2 * len(text) - len(text.replace(b"{", b"")) - len(text.replace(b"[", b""))


def _decoded_one_by_one(
    lines: list[bytes], file: str, first: int, limits: Limits
) -> list[ev.Event]:
    events: list[ev.Event] = []
    for number, line in enumerate(lines, first):
        try:
            event = _read(line, limits)
        except _DECODE_ERRORS as error:
            event = _opaque(line, f"{file}:{number}", error)
        events.append(event if event.event_id else _with_line_id(event, f"{file}:{number}"))
    return events


def _read(line: bytes, limits: Limits) -> ev.Event:
    """Decode one line. Raises if the line is invalid."""
    if len(line) > limits.event_line:
        raise BrokenRuleError(
            f"the line has {len(line):,} bytes; the limit is {limits.event_line:,}"
        )
    check_depth(line, limits)
    try:
        wire = _decoder().decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        wire = _decoder().decode(re.sub(_ESCAPE, _whole_character, line))
    if isinstance(wire, ResponseWire):
        return wire.event()
    if isinstance(wire, ev.ChatResponse):
        _check_parts(wire)
    return wire


def _whole_character(escape: re.Match[bytes]) -> bytes:
    """Replace the escape sequence of a lone surrogate, which some programs write. Leave other
    escapes unchanged.
    """
    return rb"\ufffd" if escape[1] else escape[0]


def _parts_of(response: ev.ChatResponse) -> int:
    return (
        (response.message is not None)
        + (response.reasoning is not None)
        + (response.structured is not UNSET)
    )


def _check_parts(response: ev.ChatResponse) -> None:
    parts = _parts_of(response)
    if parts != 1:
        raise BrokenRuleError(
            f"exactly one of `message`, `reasoning` and `structured` is required, found {parts}"
        )


def check_depth(line: bytes, limits: Limits = DEFAULT_LIMITS) -> None:
    """Check how deeply a line is nested, without recursion. Brackets in strings do not count.

    The limit is the maximum depth of a value plus the levels around it in an event.

    Raises:
        BrokenRuleError: The line is nested too deeply.
    """
    allowed, depth = limits.json_depth + _EVENT_LEVELS, 0
    # each nesting level needs two bytes, so a short line cannot exceed the limit
    if len(line) <= 2 * allowed or _brackets(line) <= allowed:
        return
    for bracket in re.findall(_BRACKET, re.sub(_STRING, b"", line)):
        depth += 1 if bracket in b"[{" else -1
        if depth > allowed:
            raise BrokenRuleError(f"nested deeper than {allowed} levels")


def _with_line_id(event: ev.Event, where: str) -> ev.Event:
    return msgspec.structs.replace(event, event_id=f"line:{where.rpartition(':')[2]}")


class _SharedFields(Struct):
    """The fields that all event types have. An invalid event may still contain them."""

    type: str = ""
    id: str = ""
    timestamp: str = ""
    event_id: str = ""
    more: int = 0
    metadata: dict[str, Any] | None = None
    requires: str = ""


def _opaque(line: bytes, where: str, error: Exception) -> ev.OpaqueEvent:
    known = _shared(line)
    newer = isinstance(error, UnknownOutcomeError) or (
        isinstance(error, msgspec.ValidationError) and known.type not in {"", *KINDS}
    )
    event = ev.OpaqueEvent(
        kind=known.type,
        raw=Raw(line),
        problem=(
            ""
            if newer
            else f"{where}: {_name(known)}: {_reason(error)}. The line is kept unchanged."
        ),
        timestamp=known.timestamp,
        event_id=known.event_id,
        more=known.more,
        metadata=known.metadata,
        requires=known.requires,
    )
    return event if event.event_id else cast("ev.OpaqueEvent", _with_line_id(event, where))


def _shared(line: bytes) -> _SharedFields:
    """Decode the shared fields one by one, so that one invalid field does not prevent reading the
    others.
    """
    try:
        fields = _FIELDS.decode(line)
    except _DECODE_ERRORS:
        return _SharedFields()
    known = _SharedFields()
    for field in msgspec.structs.fields(_SharedFields):
        if field.name in fields:
            _set_field(known, field, fields[field.name])
    return known


def _set_field(known: _SharedFields, field: msgspec.structs.FieldInfo, raw: Raw) -> None:
    try:
        setattr(known, field.name, msgspec.json.decode(raw, type=field.type))
    except _DECODE_ERRORS:
        return  # the caller already reports an error for this event


def _name(known: _SharedFields) -> str:
    return " ".join(
        part
        for part in (known.type or "an event without a kind", known.id or known.event_id)
        if part
    )


def _reason(error: Exception) -> str:
    match error:
        case RecursionError():
            return "nested too deeply"
        case UnicodeError():
            return "not valid UTF-8"
        case msgspec.ValidationError() | BrokenRuleError() | MidturnError():
            return str(error).rstrip(".")
        case _:
            return f"not a JSON object ({error})"


def _whole_characters(value: Any) -> Any:
    """Replace lone surrogates everywhere in a JSON value."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {
            _whole_characters(key): _whole_characters(item)
            for key, item in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_whole_characters(item) for item in cast("list[Any]", value)]
    return value
