"""Export of a conversation to a file for other people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from midturn.record.events import (
    NEVER_REDACTED,
    AnsweredBy,
    Approval,
    ChatRequest,
    ChatResponse,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
)
from midturn.record.open_question import fenced, shown
from midturn.record.window import Window
from midturn.store.jp import JpFiles, export_jp, text_of
from midturn.turn.view import calls, pairs
from midturn.values.json_value import Json

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
    speaker = ""
    for turn in turns:
        page = _Page(turn, speaker)
        for block in (block for event in turn.events for block in page.blocks(event)):
            yield f"{between}{block}"
            between = "\n\n"
        speaker = page.speaker
    yield "\n"


class _Page:
    """What has to be known of the other events of a turn to write one down."""

    def __init__(self, turn: Window, speaker: str) -> None:
        events = turn.events
        self._responses = {id(request): response for request, response in pairs(events)}
        self._open = {id(event) for event in events} if turn.open else set[int]()
        self._names = {id(response): call.name for call, response in calls(events) if response}
        self.speaker = speaker

    def blocks(self, event: Event) -> list[str]:
        """Return the paragraphs of one event; none for those that are no part of the talk."""
        match event:
            case ChatRequest() | ChatResponse():
                return self._talk(event)
            case ToolCallRequest() | ToolCallResponse():
                return self._call(event)
            case InquiryRequest():
                return _asked(event, self._responses.get(id(event)), is_open=id(event) in self._open)
            case Approval():
                return [_decided(event)]
            case TurnEnd(status=status) if status != "completed":
                return [f"*Turn ended: {status}{f' ({event.error})' if event.error else ''}*"]
            case _:
                return []

    def _talk(self, event: ChatRequest | ChatResponse) -> list[str]:
        if isinstance(event, ChatResponse):
            return [*self._speaks("Assistant"), _said(event)]
        return [*self._speaks(f"User ({event.author})" if event.author else "User"), event.content]

    def _call(self, event: ToolCallRequest | ToolCallResponse) -> list[str]:
        if isinstance(event, ToolCallRequest):
            return [*self._speaks("Assistant"), f"### Call of `{event.name}`", fenced(_json(event.arguments), "json")]
        name = self._names.get(id(event), event.id)
        return [f"### {'Error' if event.is_error else 'Result'} of `{name}`", fenced(event.content)]

    def _speaks(self, speaker: str) -> list[str]:
        """Return the heading of a new speaker."""
        if speaker == self.speaker and speaker == "Assistant":
            return []
        self.speaker = speaker
        return [f"## {speaker}"]


def _said(response: ChatResponse) -> str:
    if response.message is not None:
        return response.message
    if response.reasoning is not None:
        return "\n".join(f"> {line}".rstrip() for line in response.reasoning.split("\n"))
    return fenced(_json(None if response.structured is UNSET else response.structured), "json")


def _asked(request: InquiryRequest, response: InquiryResponse | None, *, is_open: bool) -> list[str]:
    context = [request.question.context] if request.question.context else []
    return [f"### Question from {request.source.header}", *context, request.question.text, *_answer(response, is_open=is_open)]


def _answer(response: InquiryResponse | None, *, is_open: bool) -> list[str]:
    match response:
        case None:
            return ["*Not answered yet*" if is_open else "*The turn ended without an answer*"]
        case InquiryAnswered():
            reason = [f"Reason: {response.reason}"] if response.reason else []
            return [f"Answer: {shown(response.answer)}", *_by(response.answered_by), *reason]
        case InquiryRedacted():
            return ["Answer: <redacted>", *_by(response.answered_by)]
        case InquiryCancelled():
            return [f"Cancelled ({response.reason})"]


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
