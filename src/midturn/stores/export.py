"""Exports conversations to files for other people, or copies them into another store as history."""

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
from midturn.events.transcript import (
    ApprovalEntry,
    CallEntry,
    EndEntry,
    Entry,
    RequestEntry,
    ResultEntry,
    WordsEntry,
    transcript_entries,
)
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
from midturn.stores.port import LockedBy
from midturn.stores.store import ConversationStore
from midturn.turn.inputs import Record, TurnFailed
from midturn.turn.settings import TurnSettings
from midturn.turn.turn import Turn

# --------------------------------------------------------------------------------------------------
# Export for readers. Messages are written unchanged, including their Markdown


def export_markdown(turns: Iterable[Window], title: str = "") -> Iterator[str]:
    """Yield the conversation as Markdown: messages with their authors, calls with results,
    questions with answers.

    A question is followed by `Answer: <value>`, `Answer: <redacted>` or `Cancelled (<reason>)`.
    """
    between = ""
    if title:
        yield f"# {title}"
        between = "\n\n"
    page = _Page()
    for turn in turns:
        for block in (
            block
            for entry in transcript_entries(turn.events)
            for block in page.blocks(entry, is_open=turn.open)
        ):
            yield f"{between}{block}"
            between = "\n\n"
    yield "\n"


class _Page:
    """Tracks the speaker, and adds a heading when the speaker changes."""

    def __init__(self) -> None:
        self._speaker = ""

    def blocks(self, entry: Entry, *, is_open: bool) -> list[str]:  # noqa: PLR0911  one return for each kind of entry
        """Return the paragraphs of one entry, or none if the entry is not part of the dialog."""
        match entry:
            case WordsEntry():
                return [*self._speaks(_speaker(entry)), _said(entry)]
            case CallEntry(event=call):
                return [
                    *self._speaks("Assistant"),
                    f"### Call of `{call.name}`",
                    fenced(_json(call.arguments), "json"),
                ]
            case ResultEntry(event=result, call=call):
                name = call.event.name if call else result.id
                return [
                    f"### {'Error' if result.is_error else 'Result'} of `{name}`",
                    fenced(result.content),
                ]
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


def _asked(
    request: InquiryRequest, response: InquiryResponse | None, *, is_open: bool
) -> list[str]:
    context = [request.question.context] if request.question.context else []
    return [
        f"### Question from {request.source.header}",
        *context,
        request.question.text,
        *_answer(response, is_open=is_open),
    ]


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
    details = ", ".join(
        part
        for part in (who.model, who.origin, who.name, who.user, who.via and f"via {who.via}")
        if part
    )
    return [f"Answered by: {who.by}{f' ({details})' if details else ''}"]


def _decided(approval: Approval) -> str:
    by = f" by {approval.answered_by.by}" if approval.answered_by else ""
    reason = f": {approval.reason}" if approval.reason else ""
    return (
        f"*Approval ({approval.kind}):"
        f" {'replied to' if approval.is_reply else approval.state}{by}{reason}*"
    )


def _json(value: Json) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


__all__ = ["JpFiles", "export_jp", "export_jsonl", "export_markdown"]

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def export_jsonl(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines unchanged, each with its newline. Unknown keys and broken lines are
    included.

    A redacted response contains an answer only if the file was edited. Such an answer is left out.
    """
    return (_without_secret(line) + b"\n" for line in lines)


def _without_secret(line: bytes) -> bytes:
    if b'redacted"' not in line:
        return line
    try:
        fields = _FIELDS.decode(line)
    except (ValueError, RecursionError):
        return line
    if (
        text_of(fields, "type") != "inquiry_response"
        or text_of(fields, "outcome") != "redacted"
        or NEVER_REDACTED.isdisjoint(fields)
    ):
        return line
    return msgspec.json.encode(
        {name: value for name, value in fields.items() if name not in NEVER_REDACTED}
    )


Fate: TypeAlias = Literal["copied", "was there", "renamed"]
"""Result of copying a conversation: it was copied with the same ID, it existed in the target
store already, or it got a new ID.
"""

_OPEN_THERE = "the turn was open in the original store"


class Unreadable(StoreError):  # noqa: N818
    """A conversation cannot be read. Other conversations of the store can still be copied."""


class Copied(Struct, frozen=True):
    """The result of copying a conversation. `was_open` says whether the last turn was open. In the
    copy, this turn is ended.
    """

    id: str
    title: str
    fate: Fate
    was_open: bool


class CopiedHistory(Struct, frozen=True):
    """The part of a conversation that is copied: its lines, and the lines that end the last turn
    if that turn was open.
    """

    lines: Sequence[bytes]
    ending: Sequence[bytes] = ()

    @classmethod
    def of(cls, lines: Sequence[bytes], clock: TimeOfDay = SYSTEM) -> CopiedHistory:
        """Return the lines without flags and standing decisions, which are valid only in their
        own store, and end the open turn.
        """
        kept = [_without_effects(line) for line in lines]
        return cls(
            kept,
            [
                encode_event(event)
                for event in _ending(decode_lines(map(clean, kept), "imported"), clock)
            ],
        )


class Copying:
    """Copies conversations from one store to another. Copying again changes nothing, so an
    interrupted copy can be repeated.
    """

    def __init__(self, source: ConversationStore, target: ConversationStore) -> None:
        """Create a copier between two stores."""
        self._source = source
        self._target = target
        self._there: set[str] | None = None

    async def copy(self, id: str) -> Copied:
        """Copy a conversation.

        Raises:
            StoreLocked: A process runs the last turn of the conversation.
            Unreadable: The conversation cannot be read.
            StoreError: One of the stores cannot be read or written.
        """
        history, metadata = await self._read(id)
        made, fate = await self._add(id, history, metadata)
        return Copied(made, metadata.title, fate, bool(history.ending))

    async def _read(self, id: str) -> tuple[CopiedHistory, Metadata]:
        try:
            found = await self._source.port.look(id)
            if not isinstance(found, LockedBy):
                return (
                    CopiedHistory.of(await self._source.port.lines(id)),
                    (await self._source.read(id)).metadata,
                )
        except StoreError as error:
            raise Unreadable(str(error)) from error
        raise StoreLocked(
            f"The turn of conversation {id} is running in {found.holder}, so it is not copied.",
            found.holder,
            found.since,
        )

    async def _add(self, id: str, history: CopiedHistory, metadata: Metadata) -> tuple[str, Fate]:
        if self._there is None:
            self._there = set(await self._target.port.ids())
        if (
            id in self._there
            and (await self._target.port.lines(id))[: len(history.lines)] == history.lines
        ):
            return id, "was there"
        made = await self._target.port.add([*history.lines, *history.ending], metadata, id)
        self._there.add(made)
        return made, "copied" if made == id else "renamed"


def _without_effects(line: bytes) -> bytes:
    """Return a line whose settings and standing decisions are moved to the key `imported`, where
    they have no effect.

    The type of a line is read from the decoded event, because the JSON of a line may be formatted
    differently.
    """
    line = without_standing_decision(line)
    event = decode_event(clean(line), "")
    delta = _delta_of(event)
    if delta is None:
        return line
    of_jp = disarm_delta(line)
    if of_jp is not None and _has_no_effects(_delta_of(decode_event(clean(of_jp), ""))):
        return of_jp
    return (
        line
        if _has_no_effects(delta)
        else encode_event(replace(delta, delta={"imported": delta.delta}))
    )


def _delta_of(event: Event) -> ConfigDelta | None:
    return next((each for each in delta_events([event]) if each.delta is not None), None)


def _has_no_effects(delta: ConfigDelta | None) -> bool:
    return delta is None or (isinstance(delta.delta, dict) and list(delta.delta) == ["imported"])


def _ending(events: Sequence[Event], clock: TimeOfDay) -> Sequence[Event]:
    window = open_turn(events)
    if window is None:
        return ()
    turn = Turn.load(window.events, TurnSettings(tools={}), event_ids())
    effects = turn.step(TurnFailed(_OPEN_THERE))
    return numbered(
        stamped([effect.event for effect in effects if isinstance(effect, Record)], clock)
    )
