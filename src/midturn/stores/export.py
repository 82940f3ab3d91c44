"""Conversations elsewhere: exported to a file for other people, or moved into another store as history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from midturn.clock import SYSTEM, TimeOfDay
from midturn.errors import StoreError, StoreLocked
from midturn.events.codec import clean, decode_event, decode_lines, encode_event
from midturn.events.open_question import fenced, shown
from midturn.events.transcript import ApprovalEntry, CallEntry, EndEntry, Entry, RequestEntry, ResultEntry, WordsEntry, told
from midturn.events.types import (
    NEVER_REDACTED,
    AnsweredBy,
    Approval,
    ConfigDelta,
    Event,
    InquiryRequest,
    InquiryResponse,
    delta_events,
)
from midturn.events.window import Window, open_turn
from midturn.question.json_value import Json
from midturn.stores.batch import event_ids, numbered, stamped, without_standing_decision
from midturn.stores.jp import JpFiles, disarm_delta, export_jp, text_of
from midturn.stores.metadata import Metadata
from midturn.stores.port import HeldBy
from midturn.stores.store import ConversationStore
from midturn.turn.step import Record, TurnFailed, TurnSettings
from midturn.turn.turn import Turn

# ----------------------------------------------------------------------------------------------------------------------
# A conversation to read. What was said goes into the file as it was said, Markdown and all


def export_markdown(turns: Iterable[Window], title: str = "") -> Iterator[str]:
    """Yield the conversation as Markdown: who said what, the calls with their results, the questions with what became of them.

    A question is followed by `Answer: <value>`, `Answer: <redacted>` or `Cancelled (<reason>)`.
    """
    between = ""
    if title:
        yield f"# {title}"
        between = "\n\n"
    page = _Page()
    for turn in turns:
        for block in (block for entry in told(turn.events) for block in page.blocks(entry, is_open=turn.open)):
            yield f"{between}{block}"
            between = "\n\n"
    yield "\n"


class _Page:
    """Follows who speaks: a heading stands where that changes."""

    def __init__(self) -> None:
        self._speaker = ""

    def blocks(self, entry: Entry, *, is_open: bool) -> list[str]:  # noqa: PLR0911  one return a kind of entry
        """Return the paragraphs of one entry; none for those that are no part of the talk."""
        match entry:
            case WordsEntry():
                return [*self._speaks(_speaker(entry)), _said(entry)]
            case CallEntry(event=call):
                return [*self._speaks("Assistant"), f"### Call of `{call.name}`", fenced(_json(call.arguments), "json")]
            case ResultEntry(event=result, call=call):
                name = call.event.name if call else result.id
                return [f"### {'Error' if result.is_error else 'Result'} of `{name}`", fenced(result.content)]
            case RequestEntry(event=request, response=response):
                return _asked(request, response, is_open=is_open)
            case ApprovalEntry(event=approval):
                return [_decided(approval)]
            case EndEntry(event=end) if end.status != "completed":
                return [f"*Turn ended: {end.status}{f' ({end.error})' if end.error else ''}*"]
            case _:
                return []

    def _speaks(self, speaker: str) -> list[str]:
        """Return the heading of a new speaker."""
        if speaker == self._speaker and speaker == "Assistant":
            return []
        self._speaker = speaker
        return [f"## {speaker}"]


def _speaker(words: WordsEntry) -> str:
    if words.kind != "request":
        return "Assistant"
    return f"User ({words.author})" if words.author else "User"


def _said(words: WordsEntry) -> str:
    if words.kind == "reasoning":
        return "\n".join(f"> {line}".rstrip() for line in words.text.split("\n"))
    return fenced(_json(words.value), "json") if words.kind == "structured" else words.text


def _asked(request: InquiryRequest, response: InquiryResponse | None, *, is_open: bool) -> list[str]:
    context = [request.question.context] if request.question.context else []
    return [f"### Question from {request.source.header}", *context, request.question.text, *_answer(response, is_open=is_open)]


def _answer(response: InquiryResponse | None, *, is_open: bool) -> list[str]:
    if response is None:
        return ["*Not answered yet*" if is_open else "*The turn ended without an answer*"]
    if response.outcome == "cancelled":
        return [f"Cancelled ({response.reason})"]
    if response.outcome == "redacted":
        return ["Answer: <redacted>", *_by(response.answered_by)]
    reason = [f"Reason: {response.reason}"] if response.reason else []
    return [f"Answer: {shown(response.answer)}", *_by(response.answered_by), *reason]


def _by(who: AnsweredBy | None) -> list[str]:
    if who is None:
        return []
    details = ", ".join(part for part in (who.model, who.origin, who.name, who.user, who.via and f"via {who.via}") if part)
    return [f"Answered by: {who.by}{f' ({details})' if details else ''}"]


def _decided(approval: Approval) -> str:
    by = f" by {approval.answered_by.by}" if approval.answered_by else ""
    reason = f": {approval.reason}" if approval.reason else ""
    return f"*Approval ({approval.kind}): {'replied to' if approval.is_reply else approval.state}{by}{reason}*"


def _json(value: Json) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


__all__ = ["JpFiles", "export_jp", "export_jsonl", "export_markdown"]

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def export_jsonl(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines as they are, unknown keys and broken ones included, each with its newline.

    A redacted response holds no answer: one that was edited in stays behind.
    """
    return (_without_secret(line) + b"\n" for line in lines)


def _without_secret(line: bytes) -> bytes:
    if b'redacted"' not in line:
        return line
    try:
        fields = _FIELDS.decode(line)
    except (ValueError, RecursionError):
        return line
    if text_of(fields, "type") != "inquiry_response" or text_of(fields, "outcome") != "redacted" or NEVER_REDACTED.isdisjoint(fields):
        return line
    return msgspec.json.encode({name: value for name, value in fields.items() if name not in NEVER_REDACTED})


Fate: TypeAlias = Literal["copied", "was there", "renamed"]
"""Of a conversation: it has the same id there; it was there already, and may have gone on; or another has its id, and it has a new one."""

_OPEN_THERE = "it was open where it came from"


class Unreadable(StoreError):  # noqa: N818
    """A conversation cannot be read where it lies: others that lie there can be copied all the same."""


class Copied(Struct, frozen=True):
    """The new place of a conversation; `was_open`: its last turn was, and is ended in the copy."""

    id: str
    title: str
    fate: Fate
    was_open: bool


class History(Struct, frozen=True):
    """The part that is kept of a conversation begun elsewhere: its lines, and those that end its last turn where it was open."""

    lines: Sequence[bytes]
    ending: Sequence[bytes] = ()

    @classmethod
    def of(cls, lines: Sequence[bytes], clock: TimeOfDay = SYSTEM) -> History:
        """Take lines as they are, but for flags and standing decisions, which hold in no other store; end the turn that is open in them."""
        kept = [_without_force(line) for line in lines]
        return cls(kept, [encode_event(event) for event in _ending(decode_lines(map(clean, kept), "imported"), clock)])


class Copying:
    """Copies from one store to another. Copying again changes nothing, so an interrupted copy is simply begun anew."""

    def __init__(self, source: ConversationStore, target: ConversationStore) -> None:
        """Stand between two stores."""
        self._source = source
        self._target = target
        self._there: set[str] | None = None

    async def copy(self, id: str) -> Copied:
        """Copy a conversation.

        Raises:
            StoreLocked: A process goes on with its turn.
            Unreadable: It is damaged, or lies in no file of its own.
            StoreError: The other store cannot be read or written.
        """
        history, metadata = await self._read(id)
        made, fate = await self._add(id, history, metadata)
        return Copied(made, metadata.title, fate, bool(history.ending))

    async def _read(self, id: str) -> tuple[History, Metadata]:
        try:
            found = await self._source.port.look(id)
            if not isinstance(found, HeldBy):
                return History.of(await self._source.port.lines(id)), (await self._source.read(id)).metadata
        except StoreError as error:
            raise Unreadable(str(error)) from error
        raise StoreLocked(f"The turn of conversation {id} is running, in {found.holder}: it stays where it is.", found.holder, found.since)

    async def _add(self, id: str, history: History, metadata: Metadata) -> tuple[str, Fate]:
        if self._there is None:
            self._there = set(await self._target.port.ids())
        if id in self._there and (await self._target.port.lines(id))[: len(history.lines)] == history.lines:
            return id, "was there"
        made = await self._target.port.add([*history.lines, *history.ending], metadata, id)
        self._there.add(made)
        return made, "copied" if made == id else "renamed"


def _without_force(line: bytes) -> bytes:
    """Return a line that decides nothing here: settings and standing decisions are moved to where they have no effect.

    What a line is says the event that is read from it, however its JSON is written.
    """
    line = without_standing_decision(line)
    event = decode_event(clean(line), "")
    delta = _delta_of(event)
    if delta is None:
        return line
    of_jp = disarm_delta(line)
    if of_jp is not None and _has_no_force(_delta_of(decode_event(clean(of_jp), ""))):
        return of_jp
    return line if _has_no_force(delta) else encode_event(replace(delta, delta={"imported": delta.delta}))


def _delta_of(event: Event) -> ConfigDelta | None:
    return next((each for each in delta_events([event]) if each.delta is not None), None)


def _has_no_force(delta: ConfigDelta | None) -> bool:
    return delta is None or (isinstance(delta.delta, dict) and list(delta.delta) == ["imported"])


def _ending(events: Sequence[Event], clock: TimeOfDay) -> Sequence[Event]:
    window = open_turn(events)
    if window is None:
        return ()
    turn = Turn.load(window.events, TurnSettings(tools={}), event_ids())
    effects = turn.step(TurnFailed(_OPEN_THERE))
    return numbered(stamped([effect.event for effect in effects if isinstance(effect, Record)], clock))
