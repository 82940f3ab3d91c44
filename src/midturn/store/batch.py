"""What is written at once: events in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from midturn.core.codec import NEVER_TOO_DEEP, BrokenRuleError, check_depth, encode_event
from midturn.core.events import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    ToolCallResponse,
    TurnEnd,
)
from midturn.core.limits import Limits
from midturn.core.moments import TimeOfDay, stamp
from midturn.errors import StoreError

_CLOSING = frozenset({InquiryAnswered, InquiryCancelled, InquiryRedacted, Approval, ToolCallResponse, TurnEnd})


def numbered(batch: Sequence[Event]) -> tuple[Event, ...]:
    """Return the events, each with `more`: how many of the batch follow it."""
    last = len(batch) - 1
    if last == 0 and not batch[0].more:
        return (batch[0],)
    return tuple(
        [event if event.more == last - index else msgspec.structs.replace(event, more=last - index) for index, event in enumerate(batch)]
    )


def stamped(batch: Sequence[Event], clock: TimeOfDay) -> tuple[Event, ...]:
    """Return the events, each that has no time yet with the time that the clock shows."""
    time = stamp(clock)
    return tuple(event if event.timestamp else msgspec.structs.replace(event, timestamp=time) for event in batch)


def encode_batch(batch: Sequence[Event], limits: Limits) -> list[bytes]:
    """Return the lines of a batch, each with its newline.

    Raises:
        StoreError: A line, or all of them, are larger than the limits allow, or one nests too deep to be read again.
    """
    lines = [encode_event(event) + b"\n" for event in batch]
    total = sum(map(len, lines))
    if total > limits.event_line:
        _check_lines(batch, lines, limits)
    if total > NEVER_TOO_DEEP:
        for event, line in zip(batch, lines, strict=True):
            _check_depth(event, line)
    if total > limits.batch:
        raise StoreError(
            f"{len(batch)} events have {total:,} bytes together; {limits.batch:,} may be recorded at once (`limits.batch`). "
            "They are not recorded. Pass large content as a file."
        )
    return lines


def _check_lines(batch: Sequence[Event], lines: Sequence[bytes], limits: Limits) -> None:
    for event, line in zip(batch, lines, strict=True):
        if len(line) > limits.event_line:
            raise StoreError(
                f"An event of kind {event.type} has {len(line):,} bytes; a line may have {limits.event_line:,} (`limits.event_line`). "
                "It is not recorded. Pass large content as a file."
            )


def _check_depth(event: Event, line: bytes) -> None:
    try:
        check_depth(line)
    except BrokenRuleError as broken:
        raise StoreError(f"An event of kind {event.type} cannot be recorded: {broken}, so nobody could read it again.") from None


def may_close(batch: Iterable[Event]) -> bool:
    """Say whether a batch can close a question: only then is it worth while to look."""
    return not _CLOSING.isdisjoint(map(type, batch))
