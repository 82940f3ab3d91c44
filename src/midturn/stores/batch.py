"""Prepares batches of events: adds ids, times and positions, encodes the events as lines, and
checks that the lines can be read again.
"""

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
from midturn.events.codec import (
    NEVER_TOO_DEEP,
    BrokenRuleError,
    check_depth,
    clean,
    decode_event,
    encode_event,
    keep_types,
    problem_of,
)
from midturn.question.json_value import Limits

if TYPE_CHECKING:
    from midturn.stores.port import Decide, LastTurn

_LETTERS = (
    b"abcdefghijklmnopqrstuvwxyz234567" * 8
)  # one letter for each random byte; all are equally likely
_VERSION: Final = r"\d{1,9}(\.\d{1,9})*\Z"
_CLOSING = frozenset(
    {
        ev.InquiryAnswered,
        ev.InquiryCancelled,
        ev.InquiryRedacted,
        ev.Approval,
        ev.ToolCallResponse,
        ev.TurnEnd,
        *get_args(ev.Note),
    }
)
"""Events that close a question, or record a queued answer."""
_WORDS = frozenset({ev.TurnStart, ev.ChatRequest, ev.ChatResponse, ev.TurnEnd})
"""Text events, which were validated on input.

Their lines are not decoded again, so that recording the first event does not have to wait for the
decoder to be built.
"""


def event_id() -> str:
    """Return a new event id: 12 characters of `a-z2-7`, 60 random bits."""
    return os.urandom(12).translate(_LETTERS).decode()


def event_ids() -> Iterator[str]:
    """Return an endless iterator of event ids."""
    return iter(event_id, "")


def numbered(batch: Sequence[ev.Event]) -> tuple[ev.Event, ...]:
    """Return the events, each with `more`: the number of events of the batch that follow it."""
    last = len(batch) - 1
    if last == 0 and not batch[0].more:
        return (batch[0],)
    return tuple(
        [
            (
                event
                if event.more == last - index
                else msgspec.structs.replace(event, more=last - index)
            )
            for index, event in enumerate(batch)
        ]
    )


def stamped(batch: Sequence[ev.Event], clock: TimeOfDay) -> tuple[ev.Event, ...]:
    """Return the events, with the current time in each event that has none."""
    time = stamp(clock)
    return tuple(
        event if event.timestamp else msgspec.structs.replace(event, timestamp=time)
        for event in batch
    )


def decided(decide: Decide, turn: LastTurn, conversation: str) -> tuple[ev.Event, ...]:
    """Return the batch that `decide` returns for a turn. Call this while no other process can
    write.

    Raises:
        TooOld: This version may not continue that turn.
    """
    batch = numbered(decide(turn))
    if batch:
        check_version(turn.events, conversation)
    return batch


def check_version(events: Iterable[ev.Event], conversation: str) -> None:
    """Check that this version may continue a turn, because several versions may use one store.

    Raises:
        TooOld: An event of the turn requires a newer version.
    """
    needed = next(
        (event.requires for event in events if event.requires and not _is_enough(event.requires)),
        "",
    )
    if needed:
        raise TooOld(
            f"Conversation {conversation} needs midturn {needed} or later: it has a question of a"
            f" newer version, and this version, {__version__}, cannot determine who may answer it."
            " The conversation can be read here and was not changed. Upgrade midturn in this"
            " environment.",
            conversation=conversation,
            requires=needed,
        )


def _is_enough(needed: str) -> bool:
    return _parts(needed) <= max(
        _parts(__version__), _parts(ev.PROPOSALS)
    )  # unreleased code may have the previous version number


def _parts(version: str) -> tuple[int, ...]:
    """Return the comparable parts of a version. An invalid version is treated as the newest,
    because a newer program wrote it.
    """
    if not re.match(_VERSION, version):
        return (maxsize,)
    return tuple(map(int, version.split(".")))


def as_written(
    batch: Sequence[ev.Event], limits: Limits
) -> tuple[tuple[ev.Event, ...], list[bytes]]:
    """Return a numbered batch and its encoded lines.

    Raises:
        TooLarge: The batch is larger than the limits allow.
        StoreError: A line could not be decoded again.
    """
    written = numbered(batch)
    return written, encode_batch(written, limits)


def encode_batch(batch: Sequence[ev.Event], limits: Limits) -> list[bytes]:
    """Return the lines of a batch, each with its newline.

    Raises:
        TooLarge: A line, or the batch as a whole, is larger than the limits allow.
        StoreError: A line could not be read again.
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
        sizes = (
            f"{len(batch)} events have {total:,} bytes together"
            if len(batch) > 1
            else f"The event to record has {total:,} bytes"
        )
        raise TooLarge(
            f"{sizes}; {limits.batch:,} may be recorded at once (`limits.batch`). Nothing is"
            " recorded. Pass large content as a file."
        )
    return lines


def _check_lines(batch: Sequence[ev.Event], lines: Sequence[bytes], limits: Limits) -> None:
    for event, line in zip(batch, lines, strict=True):
        if len(line) > limits.event_line:
            raise TooLarge(
                f"An event of kind {event.type} has {len(line):,} bytes; a line may have"
                f" {limits.event_line:,} (`limits.event_line`). It is not recorded. Pass large"
                " content as a file."
            )


def _check_readable(batch: Sequence[ev.Event], lines: Sequence[bytes], limits: Limits) -> None:
    """Decode the lines before they are written, so that an acknowledged answer is always
    readable.
    """
    if keep_types(lines):
        return
    for event, line in zip(batch, lines, strict=True):
        problem = (
            "" if ev.is_opaque(event) else problem_of(line, limits)
        )  # unreadable events from other programs are stored unchanged
        if problem:
            raise _unreadable(event, problem)


def _check_depth(batch: Sequence[ev.Event], lines: Sequence[bytes]) -> None:
    for event, line in zip(batch, lines, strict=True):
        try:
            check_depth(line)
        except BrokenRuleError as broken:
            raise _unreadable(event, str(broken)) from None


def _unreadable(event: ev.Event, problem: str) -> StoreError:
    return StoreError(
        f"An event of kind {event.type} cannot be recorded: {problem}, so it could not be read"
        " again."
    )


def may_close(batch: Iterable[ev.Event]) -> bool:
    """Return whether a batch can make queued answers outdated. Otherwise, the queue is not
    examined.
    """
    return not _CLOSING.isdisjoint(map(type, batch))


def without_standing_decision(line: bytes) -> bytes:
    """Return a copy of a line in which the standing decision is moved to `metadata.imported`."""
    event = decode_event(clean(line), "")
    if not isinstance(event, ev.Standing):
        return line
    decided = {
        name: value
        for name, value in (("rule", event.rule), ("answer", event.answer))
        if value is not None and value is not UNSET
    }
    kept = {**(event.metadata or {}), "imported": decided}
    return encode_event(replace(event, rule=None, answer=UNSET, metadata=kept)) if decided else line
