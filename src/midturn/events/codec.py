"""One event, one line: bytes to event and back, without loss of unknown keys and kinds.

Reading never fails. An event of a kind that this version does not know, or that breaks the rules of its kind, becomes an
`OpaqueEvent` with the line as it was. On write `type` comes first, then `timestamp`, `event_id` and `more`, then the rest.
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
    """An event is of a known kind and breaks a rule that no type can say."""


class UnknownOutcomeError(ValueError):
    """A response has an outcome of a newer version: not wrong, merely unknown."""


class ResponseWire(ev.Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """An `inquiry_response` of any outcome, the flat legacy form without one included."""

    id: str
    outcome: str | None = None
    answer: Json | UnsetType = UNSET
    answered_by: ev.AnsweredBy | None = None
    reason: str | None = None
    remembered: bool = False
    votes: tuple[str, ...] = ()

    def event(self) -> ev.InquiryResponse:
        """Return the class of its outcome. What a `redacted` one has as `answer` stays behind.

        Raises:
            BrokenRuleError: It has neither `outcome` nor `answer`, or is `answered` without an answer.
            UnknownOutcomeError: The outcome is of a newer version.
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
                raise BrokenRuleError(f"{missing} missing; a response is `answered` (with `answer`), `cancelled` or `redacted`")
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
    """A turn begins: all that matters of it for what providers see."""

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
"""The kinds of events that have a class; every other one passes through."""

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder(enc_hook=ev.encode_custom)
_UNREADABLE: Final = (ValueError, RecursionError, MidturnError)  # msgspec's errors and Unicode's are ValueErrors
_STRING: Final = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_ESCAPE: Final = rb"(?s)\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)"
_AROUND: Final = 16  # levels of an event around a value in it; a form in its request has the most
NEVER_TOO_DEEP: Final = 2 * (DEFAULT_LIMITS.json_depth + _AROUND)
"""Length in bytes below which nothing can nest too deep, whatever it is: each level opens and closes."""
_BRACKET: Final = rb"[\[{\]}]"
_HEAD: Final = cast("Callable[[bytes], bytes]", itemgetter(slice(16)))
"""The part of a line in which we write of what kind it is."""
_EVENT_ID: Final = attrgetter("event_id")


def _head(kind: str) -> bytes:
    return _HEAD(b'{"type":"%b","timestamp' % kind.encode())


_HEADS: Final = frozenset(map(_head, KINDS))
_SAID_HEADS: Final = frozenset(head for head in _HEADS if head.startswith(b'{"type":"chat_re'))
_CALL_HEADS: Final = frozenset(head for head in _HEADS if head.startswith(b'{"type":"tool_ca'))
_SEEN_HEADS: Final = _SAID_HEADS | _CALL_HEADS | {b'{"type":"turn_st'}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ONE: Final = frozenset((1,))
_PART: Final = 1_000  # lines
_AT_ONCE: Final = 40  # lines


@cache
def _decoder() -> msgspec.json.Decoder[_Wire]:
    """Return the decoder of events; it is made by the first who reads one, for that takes a moment."""
    return msgspec.json.Decoder(_Wire)


@cache
def _visible_decoder() -> msgspec.json.Decoder[Start | ev.VisibleEvent]:
    return msgspec.json.Decoder(Start | ev.VisibleEvent)


def encode_event(event: ev.Event) -> bytes:
    """Return the event's line, without the newline.

    Lone surrogates, which no UTF-8 file can hold, are written as U+FFFD.
    """
    if isinstance(event, ev.OpaqueEvent):
        return bytes(event.raw)
    try:
        return _ENCODER.encode(event)
    except UnicodeEncodeError:
        return _ENCODER.encode(_whole_characters(event.to_json()))


def decode_event(line: bytes, where: str, limits: Limits = DEFAULT_LIMITS) -> ev.Event:
    """Read one line. Never raises: what cannot be read is an `OpaqueEvent` whose `problem` says why.

    Args:
        line: The bytes of the line; a carriage return at its end does no harm.
        where: `<file>:<line number>`; an event without an `event_id` is `line:<line number>` in memory.
        limits: `event_line` (bytes) and `json_depth` are the ones that count here.
    """
    try:
        event = _read(line, limits)
    except _UNREADABLE as error:
        return _opaque(line, where, error)
    return event if event.event_id else _numbered(event, where)


def decode_lines(lines: Iterable[bytes], file: str, first: int = 1, limits: Limits = DEFAULT_LIMITS) -> list[ev.Event]:
    """Read the lines of `file`, whose numbers begin with `first`: `decode_event`, for many, and much faster where nothing is wrong."""
    events: list[ev.Event] = []
    for part in _parts(lines):
        events += decode_plain(part, limits) or _decoded_one_by_one(part, file, first + len(events), limits)
    return events


def decode_stream(data: bytes, file: str, first: int = 1) -> list[ev.Event]:
    """Read whole lines as they stand in `file`, where the first of them has the number `first`; blank ones are no events."""
    lines = data.split(b"\n")[:-1]
    cleaned = [clean(line) for line in lines]
    if all(cleaned):
        return decode_lines(cleaned, file, first)
    return [decode_event(line, f"{file}:{number}") for number, line in enumerate(cleaned, first) if line]


def clean(line: bytes) -> bytes:
    """Take away what editors leave around a line: spaces, a carriage return, a byte order mark."""
    return line.removeprefix(_BYTE_ORDER_MARK).strip()


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Cut many lines into parts, so that what is wrong with one line costs no other part anything."""
    rest = iter(lines)
    while part := list(islice(rest, _PART)):
        yield part


def decode_plain(lines: Sequence[bytes], limits: Limits = DEFAULT_LIMITS) -> list[ev.Event] | None:
    """Read lines of which each keeps all rules and has an id; None where one does not."""
    try:
        wires = list(map(_decoder().decode, lines))
        events: list[ev.Event] = [wire.event() if type(wire) is ResponseWire else wire for wire in wires]
    except _UNREADABLE:
        return None
    return events if _are_plain(events) and _keep_limits(lines, limits) else None


def keep_types(lines: Sequence[bytes]) -> bool:
    """Say whether all lines are of kinds that have a class, with values of its types: in one step, for each batch that is written."""
    try:
        _decoder().decode_lines(b"".join(lines))
    except _UNREADABLE:
        return False
    return True


def problem_of(line: bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    """Say why a line could not be read as an event of its kind; nothing where it can."""
    try:
        _read(line, limits)
    except _UNREADABLE as error:
        return _reason(error)
    return ""


def decode_visible(data: bytes) -> list[Start | ev.VisibleEvent] | None:
    """Read of whole lines only what providers see, and, where there are calls, where turns begin.

    Returns None where a line is not plainly as we write it.

    This is what a long history costs before each call of a model, so it is done in few steps for all lines at once.
    """
    lines = BytesIO(data).readlines()  # four times as fast as `split`
    heads = list(map(_HEAD, lines))
    kinds = set(heads)
    if not _HEADS.issuperset(kinds):
        return None
    wanted = _SAID_HEADS if _CALL_HEADS.isdisjoint(kinds) else _SEEN_HEADS
    seen = list(compress(lines, map(wanted.__contains__, heads)))
    try:
        events = list(map(_visible_decoder().decode, seen))
    except _UNREADABLE:
        return None
    return events if _are_plain(events) and _keep_limits(seen) else None


def decode_kind(data: bytes, kind: str) -> list[ev.Event]:
    """Read of whole lines those that may be of a kind: all but those that begin as we write another one."""
    others = _HEADS - {_head(kind)}
    lines = (clean(line) for line in BytesIO(data) if line[:16] not in others)
    return [decode_event(line, "") for line in lines if line]


def _are_plain(events: Sequence[ev.Event | Start]) -> bool:
    """Say whether each event, and each beginning of a turn, has an id and keeps the rules that no type can say."""
    responses = cast("list[ev.ChatResponse]", [event for event in events if event.__class__ is ev.ChatResponse])
    return all(map(_EVENT_ID, events)) and _ONE.issuperset(map(_parts_of, responses))


def _keep_limits(lines: Sequence[bytes], limits: Limits = DEFAULT_LIMITS) -> bool:
    """Say whether lines are surely neither too long nor too deep: most have so little in them that several are looked at at once."""
    if len(lines) <= _AT_ONCE and _keeps_limits(b"".join(lines), limits):
        return True
    for first in range(0, len(lines), _AT_ONCE):
        several = lines[first : first + _AT_ONCE]
        if not _keeps_limits(b"".join(several), limits) and not all(_keeps_limits(line, limits) for line in several):
            return False
    return True


def _keeps_limits(text: bytes, limits: Limits) -> bool:
    return len(text) <= limits.event_line and _brackets(text) <= limits.json_depth


def _brackets(text: bytes) -> int:
    """Count without `count`, which looks at each byte: `replace` jumps from one to the next."""
    return 2 * len(text) - len(text.replace(b"{", b"")) - len(text.replace(b"[", b""))


def _decoded_one_by_one(lines: list[bytes], file: str, first: int, limits: Limits) -> list[ev.Event]:
    events: list[ev.Event] = []
    for number, line in enumerate(lines, first):
        try:
            event = _read(line, limits)
        except _UNREADABLE as error:
            event = _opaque(line, f"{file}:{number}", error)
        events.append(event if event.event_id else _numbered(event, f"{file}:{number}"))
    return events


def _read(line: bytes, limits: Limits) -> ev.Event:
    """Read a line that keeps the rules; everything else raises."""
    if len(line) > limits.event_line:
        raise BrokenRuleError(f"the line has {len(line):,} bytes; {limits.event_line:,} are allowed")
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
    """Replace an escape that stands for half a character (other tools write them), and leave every other one."""
    return rb"\ufffd" if escape[1] else escape[0]


def _parts_of(response: ev.ChatResponse) -> int:
    return (response.message is not None) + (response.reasoning is not None) + (response.structured is not UNSET)


def _check_parts(response: ev.ChatResponse) -> None:
    parts = _parts_of(response)
    if parts != 1:
        raise BrokenRuleError(f"it has {parts} of `message`, `reasoning` and `structured`; exactly one is allowed")


def check_depth(line: bytes, limits: Limits = DEFAULT_LIMITS) -> None:
    """Measure how deep the brackets nest, outside of strings, without recursion: a value as deep as may be, in an event.

    Raises:
        BrokenRuleError: They nest deeper, so the line is not read.
    """
    allowed, depth = limits.json_depth + _AROUND, 0
    if len(line) <= 2 * allowed or _brackets(line) <= allowed:  # each level opens and closes
        return
    for bracket in re.findall(_BRACKET, re.sub(_STRING, b"", line)):
        depth += 1 if bracket in b"[{" else -1
        if depth > allowed:
            raise BrokenRuleError(f"it nests deeper than {allowed} levels")


def _numbered(event: ev.Event, where: str) -> ev.Event:
    return msgspec.structs.replace(event, event_id=f"line:{where.rpartition(':')[2]}")


class _Shared(Struct):
    """Fields that even a broken event may have."""

    type: str = ""
    id: str = ""
    timestamp: str = ""
    event_id: str = ""
    more: int = 0
    metadata: dict[str, Any] | None = None
    requires: str = ""


def _opaque(line: bytes, where: str, error: Exception) -> ev.OpaqueEvent:
    known = _shared(line)
    newer = isinstance(error, UnknownOutcomeError) or (isinstance(error, msgspec.ValidationError) and known.type not in {"", *KINDS})
    event = ev.OpaqueEvent(
        kind=known.type,
        raw=Raw(line),
        problem="" if newer else f"{where}: {_name(known)}: {_reason(error)}. The line is kept as it is.",
        timestamp=known.timestamp,
        event_id=known.event_id,
        more=known.more,
        metadata=known.metadata,
        requires=known.requires,
    )
    return event if event.event_id else cast("ev.OpaqueEvent", _numbered(event, where))


def _shared(line: bytes) -> _Shared:
    """Read the shared fields one by one: one that is wrong does not hide the others."""
    try:
        fields = _FIELDS.decode(line)
    except _UNREADABLE:
        return _Shared()
    known = _Shared()
    for field in msgspec.structs.fields(_Shared):
        if field.name in fields:
            _take(known, field, fields[field.name])
    return known


def _take(known: _Shared, field: msgspec.structs.FieldInfo, raw: Raw) -> None:
    try:
        setattr(known, field.name, msgspec.json.decode(raw, type=field.type))
    except _UNREADABLE:
        return  # the caller reports the event as a whole


def _name(known: _Shared) -> str:
    return " ".join(part for part in (known.type or "an event without a kind", known.id or known.event_id) if part)


def _reason(error: Exception) -> str:
    match error:
        case RecursionError():
            return "it nests too deeply"
        case UnicodeError():
            return "it is not UTF-8 text"
        case msgspec.ValidationError() | BrokenRuleError() | MidturnError():
            return str(error).rstrip(".")
        case _:
            return f"it is not one JSON object ({error})"


def _whole_characters(value: Any) -> Any:
    """Replace lone surrogates everywhere inside a JSON value."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_whole_characters(item) for item in cast("list[Any]", value)]
    return value
