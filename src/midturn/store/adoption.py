"""Taking over a turn that was begun elsewhere: what was decided there is asked again, and what stays is sealed here."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

import msgspec
from msgspec import UNSET

from midturn.clock import now_in_a_name
from midturn.core.codec import clean, decode_event, encode_event
from midturn.core.drafts import with_drafts
from midturn.core.events import (
    Approval,
    ConfigDelta,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    OpaqueEvent,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.core.json_value import Json
from midturn.store.batch import numbered
from midturn.store.folder import Folder
from midturn.store.handover import handed_elsewhere
from midturn.store.reader import EventReader
from midturn.store.seal import SealChain, batches_of, without_seal
from midturn.store.submission import HandedOver
from midturn.store.tail import NAME


def adopt(folder: Folder, chain: SealChain) -> None:
    """Take over the last turn of a conversation whose lock is held; its file stays beside the new one, as `events.foreign-<time>`."""
    before = _bytes(folder)
    folder.write_new(f"events.foreign-{now_in_a_name()}", before)
    handed = handed_elsewhere(folder)
    _rewrite(folder, chain, lambda lines: undecided(lines, handed))


def adopted(chain: SealChain, turn: Sequence[bytes]) -> list[bytes]:
    """Return the lines of a last turn as they are once it is taken over, each with its newline."""
    return _sealed(chain, undecided(turn))


def reseal(folder: Folder, chain: SealChain) -> None:
    """Seal the last turn of a conversation whose lock is held, as it is now: its user has edited it."""
    _rewrite(folder, chain, lambda lines: [[without_seal(line) for line in batch] for batch in batches_of(lines)])


def undecided(lines: Sequence[bytes], handed: Mapping[str, HandedOver] | None = None) -> list[list[bytes]]:
    """Return the batches of a turn without what was decided in it: approvals, flags, answers to calls that have no response yet.

    Those answers are offered as drafts when their questions are asked again. The answers of finished calls stay, for they explain their
    results; none of them is remembered. So are those that were only `handed` over, by the event id of their question.
    """
    batches = [[decode_event(clean(without_seal(line)), "") for line in batch] for batch in batches_of(lines)]
    events = [event for batch in batches for event in batch]
    finished = {event.call for event in events if isinstance(event, ToolCallResponse)}
    open_questions = {event.id for event in events if isinstance(event, InquiryRequest) and event.call not in finished}
    drafts = _drafts(events, open_questions, handed or {})
    kept = [[_drafted(event, drafts) for event in _kept(batch, open_questions)] for batch in batches]
    return [[encode_event(event) for event in numbered(batch)] for batch in kept if batch]


def _drafts(events: Iterable[Event], open_questions: Collection[str], handed: Mapping[str, HandedOver]) -> Mapping[str, Mapping[str, Json]]:
    """Return the last answer to each question of the calls that are not finished, by the call and the question's own id."""
    asked: dict[str, InquiryRequest] = {}
    drafts: dict[str, dict[str, Json]] = {}
    for event in events:
        match event:
            case InquiryRequest(id=id) if id in open_questions:
                asked[id] = event
                drafts.setdefault(event.call, {}).update(_handed(event, handed.get(event.event_id)))
            case InquiryAnswered(id=id, answer=answer) if id in asked:
                drafts.setdefault(asked[id].call, {})[asked[id].question_id] = answer
            case _:
                pass
    return drafts


def _handed(request: InquiryRequest, answer: HandedOver | None) -> Mapping[str, Json]:
    """Return what was handed over for a question, or for the whole form that it is part of."""
    value = answer.submission.value if answer else UNSET
    if value is UNSET:
        return {}
    return cast("Mapping[str, Json]", value) if request.form and isinstance(value, Mapping) else {request.question_id: value}


def _drafted(event: Event, drafts: Mapping[str, Mapping[str, Json]]) -> Event:
    return with_drafts(event, drafts.get(event.event_id, {})) if isinstance(event, ToolCallRequest) else event


def _kept(batch: Iterable[Event], open_questions: set[str]) -> Iterator[Event]:
    for event in batch:
        match event:
            case Approval() | ConfigDelta():
                continue
            case OpaqueEvent() if event.more:
                continue
            case InquiryRequest(id=id) | InquiryAnswered(id=id) | InquiryCancelled(id=id) | InquiryRedacted(id=id) if id in open_questions:
                continue
            case InquiryAnswered(remembered=True):
                yield msgspec.structs.replace(event, remembered=False)
            case _:
                yield event


def _rewrite(folder: Folder, chain: SealChain, change: Callable[[Sequence[bytes]], list[list[bytes]]]) -> None:
    with EventReader(folder) as reader:
        turn = reader.last_lines()
    whole = _bytes(folder)
    head = whole[: whole.rfind(turn[0] + b"\n")] if turn else whole
    folder.replace(NAME, head + b"".join(_sealed(chain, change(turn))))


def _sealed(chain: SealChain, batches: Iterable[Sequence[bytes]]) -> list[bytes]:
    written: list[bytes] = []
    for batch in batches:
        sealed, chain = chain.sealed([line + b"\n" for line in batch])
        written += sealed
    return written


def _bytes(folder: Folder) -> bytes:
    with os.fdopen(folder.open(NAME, os.O_RDONLY), "rb") as file:
        return file.read()
