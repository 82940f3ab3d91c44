"""Batches: events in, with their ids, times and places; lines out, checked before they are written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from sys import maxsize
from typing import TYPE_CHECKING, Final, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from midturn import __version__
from midturn.clock import TimeOfDay, stamp
from midturn.errors import StoreError, TooLarge, TooOld
from midturn.events import types as ev
from midturn.events.codec import NEVER_TOO_DEEP, BrokenRuleError, check_depth, clean, decode_event, encode_event, keep_types, problem_of
from midturn.question.json_value import Limits

if TYPE_CHECKING:
    from midturn.stores.port import Decide, LastTurn

_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8  # for each random byte: all are as likely
_VERSION: Final = r"\d{1,9}(\.\d{1,9})*\Z"
_CLOSING = frozenset(
    {ev.InquiryAnswered, ev.InquiryCancelled, ev.InquiryRedacted, ev.Approval, ev.ToolCallResponse, ev.TurnEnd, *get_args(ev.Note)}
)
"""Events that close a question, or record what was handed over."""
_WORDS = frozenset({ev.TurnStart, ev.ChatRequest, ev.ChatResponse, ev.TurnEnd})
"""Words. They were checked where they were given, and a first word need not wait until the reader of events is made."""


def event_id() -> str:
    """Return a new event id: 12 characters of `a-z2-7`, 60 random bits."""
    return os.urandom(12).translate(_LETTERS).decode()


def event_ids() -> Iterator[str]:
    """Return event ids without end."""
    return iter(event_id, "")


def numbered(batch: Sequence[ev.Event]) -> tuple[ev.Event, ...]:
    """Return the events, each with `more`: how many of the batch follow it."""
    last = len(batch) - 1
    if last == 0 and not batch[0].more:
        return (batch[0],)
    return tuple(
        [event if event.more == last - index else msgspec.structs.replace(event, more=last - index) for index, event in enumerate(batch)]
    )


def stamped(batch: Sequence[ev.Event], clock: TimeOfDay) -> tuple[ev.Event, ...]:
    """Return the events, each that has no time yet with the time that the clock shows."""
    time = stamp(clock)
    return tuple(event if event.timestamp else msgspec.structs.replace(event, timestamp=time) for event in batch)


def decided(decide: Decide, turn: LastTurn, conversation: str) -> tuple[ev.Event, ...]:
    """Return the batch that is decided on a turn, while nothing else writes.

    Raises:
        TooOld: This version may not write in that turn.
    """
    batch = numbered(decide(turn))
    if batch:
        check_version(turn.events, conversation)
    return batch


def check_version(events: Iterable[ev.Event], conversation: str) -> None:
    """See to it that this version may go on with a turn: versions run side by side on one store.

    Raises:
        TooOld: Something in it requires a newer one.
    """
    needed = next((event.requires for event in events if event.requires and not _is_enough(event.requires)), "")
    if needed:
        raise TooOld(
            f"Conversation {conversation} needs midturn {needed} or later: a newer version asks something in it of which this one, "
            f"{__version__}, does not know who may answer it. It can be read here, and nothing in it was changed. "
            "Upgrade midturn where this runs.",
            conversation=conversation,
            requires=needed,
        )


def _is_enough(needed: str) -> bool:
    return _parts(needed) <= max(_parts(__version__), _parts(ev.PROPOSALS))  # this code may carry the number of the release before


def _parts(version: str) -> tuple[int, ...]:
    """Return what is compared of a version. One that is none is as new as can be: who wrote it knows more than we do."""
    if not re.match(_VERSION, version):
        return (maxsize,)
    return tuple(map(int, version.split(".")))


def as_written(batch: Sequence[ev.Event], limits: Limits) -> tuple[tuple[ev.Event, ...], list[bytes]]:
    """Return a batch as it stands on record, numbered, and its lines.

    Raises:
        TooLarge: It is larger than the limits allow.
        StoreError: A line could not be read again.
    """
    written = numbered(batch)
    return written, encode_batch(written, limits)


def encode_batch(batch: Sequence[ev.Event], limits: Limits) -> list[bytes]:
    """Return the lines of a batch, each with its newline.

    Raises:
        TooLarge: A line, or all of them, are larger than the limits allow.
        StoreError: One could not be read again.
    """
    lines = [encode_event(event) + b"\n" for event in batch]
    total = sum(map(len, lines))
    if total > limits.event_line:
        _check_lines(batch, lines, limits)
    if total > NEVER_TOO_DEEP:
        _check_depth(batch, lines)
    if not _WORDS.issuperset(map(type, batch)):
        _check_readable(batch, lines, limits)
    if total > limits.batch:
        sizes = f"{len(batch)} events have {total:,} bytes together" if len(batch) > 1 else f"What is to be recorded has {total:,} bytes"
        raise TooLarge(
            f"{sizes}; {limits.batch:,} may be recorded at once (`limits.batch`). Nothing is recorded. Pass large content as a file."
        )
    return lines


def _check_lines(batch: Sequence[ev.Event], lines: Sequence[bytes], limits: Limits) -> None:
    for event, line in zip(batch, lines, strict=True):
        if len(line) > limits.event_line:
            raise TooLarge(
                f"An event of kind {event.type} has {len(line):,} bytes; a line may have {limits.event_line:,} (`limits.event_line`). "
                "It is not recorded. Pass large content as a file."
            )


def _check_readable(batch: Sequence[ev.Event], lines: Sequence[bytes], limits: Limits) -> None:
    """Read what is about to be written: an answer that is said to be on record can be relied on."""
    if keep_types(lines):
        return
    for event, line in zip(batch, lines, strict=True):
        problem = "" if ev.is_opaque(event) else problem_of(line, limits)  # what was unreadable before is kept as it is
        if problem:
            raise _unreadable(event, problem)


def _check_depth(batch: Sequence[ev.Event], lines: Sequence[bytes]) -> None:
    for event, line in zip(batch, lines, strict=True):
        try:
            check_depth(line)
        except BrokenRuleError as broken:
            raise _unreadable(event, str(broken)) from None


def _unreadable(event: ev.Event, problem: str) -> StoreError:
    return StoreError(f"An event of kind {event.type} cannot be recorded: {problem}, so it could not be read again.")


def may_close(batch: Iterable[ev.Event]) -> bool:
    """Say whether a batch can end that something handed over is waited for: only then is it worth while to look."""
    return not _CLOSING.isdisjoint(map(type, batch))


def without_standing_decision(line: bytes) -> bytes:
    """Return a line of another conversation without its standing decision, if it has one: that is kept as `metadata.imported`."""
    event = decode_event(clean(line), "")
    if not isinstance(event, ev.Standing):
        return line
    decided = {name: value for name, value in (("rule", event.rule), ("answer", event.answer)) if value is not None and value is not UNSET}
    kept = {**(event.metadata or {}), "imported": decided}
    return encode_event(replace(event, rule=None, answer=UNSET, metadata=kept)) if decided else line
