"""Closed questions with their outcome, reasons for rejected answers, and where to enter secrets."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request

from midturn.clock import SYSTEM_TIME
from midturn.errors import (
    AlreadyAnswered,
    Busy,
    NoConversation,
    NotAllowed,
    NotOpen,
    PersonNeeded,
    StoreError,
    StoreLocked,
    TooOld,
)
from midturn.events.open_question import Address, OpenQuestion, asked_text, parse_address
from midturn.events.transcript import (
    ApprovalEntry,
    Entry,
    RequestEntry,
    entry_among,
    transcript_entries,
)
from midturn.events.types import AnsweredBy, Approval, Event, InquiryResponse
from midturn.inbox.store_access import Port
from midturn.question.persisted_question import PersistedQuestion
from midturn.stores.conversation import turns_in
from midturn.stores.log_tail import Part
from midturn.stores.port import LockedBy
from midturn.stores.store import ConversationStore
from midturn.terminal.prompts.answer_text import HIDDEN, value_text
from midturn.turn.view import TurnView, why_closed, why_superseded
from midturn.web.app_state import AppState

T = TypeVar("T")
POLL_INTERVAL = 0.05  # seconds between checks whether the answer to a question is recorded
MAX_POLLS = 20


class ClosedQuestion(Struct, frozen=True, kw_only=True):
    """A question that is no longer open.

    `decision` is None if the question was not decided. `question` is None for an approval.
    """

    id: str
    conversation: str
    asker: str
    text: str
    question: PersistedQuestion | None
    decision: InquiryResponse | Approval | None
    answered_by: AnsweredBy | None
    """The responder, or None if the question was not answered."""
    why: AlreadyAnswered | NotOpen
    """The error that an answer would get now."""
    answers: Sequence[tuple[str, str]] = ()
    """The questions and answers of the form, if the question belongs to a form."""
    elsewhere: str = ""
    """Why another agent's question was closed without an answer through midturn."""


async def recorded(port: Port, id: str) -> ClosedQuestion | None:
    """Return an answered question with its outcome. If the answer is not recorded yet, wait up to
    one second for it.
    """
    for _ in range(MAX_POLLS):
        found = await closed(port, id)
        if found is None or found.decision is not None or found.elsewhere:
            return found
        await asyncio.sleep(POLL_INTERVAL)
    return await closed(port, id)


async def closed(port: Port, id: str) -> ClosedQuestion | None:
    """Return a closed question with its outcome, or None if there is no such question."""
    at = parse_address(id)
    if at is None:
        return None
    try:
        return await port.apart(lambda store: _find(store, at))
    except StoreError:
        return None


def _find(store: ConversationStore, at: Address) -> ClosedQuestion | None:
    """Search the last turn first and then the whole log, because a log can be long."""
    last = store.run_sync("look", store.port.look(at.conversation)).turn.events
    for events in chain(
        [last], (window.events for window in turns_in(store.parts_sync(at.conversation)))
    ):
        for event in events:
            if event.event_id == at.event_id:
                return _closed(at, event, events)
    return None


def _closed(at: Address, event: Event, events: Sequence[Event]) -> ClosedQuestion | None:
    turn = TurnView.of(events, at.event_id)
    answer = turn.answer(at.event_id)
    match entry_among((), event):
        case RequestEntry(event=request):
            asker, text, question = request.source.header, request.question.text, request.question
        case ApprovalEntry(event=approval) as entry if entry.waits:
            asker = next(
                (call.name for call, _ in turn.calls if call.event_id == approval.call), ""
            )
            text, question = asked_text(approval, asker), None
        case _:
            return None
    return ClosedQuestion(
        id=str(at),
        conversation=at.conversation,
        asker=asker,
        text=text,
        question=question,
        decision=turn.decision(at.event_id),
        answered_by=answer.answered_by if answer else None,
        why=why_closed(events, at, SYSTEM_TIME.now(events) or ""),
        answers=_form_answers(entry_among((), event), events),
        elsewhere=why_superseded(turn, at.event_id),
    )


def _form_answers(asked: Entry | None, events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return the questions of a form with their final answers, or nothing if the question does not
    belong to a form.
    """
    if not isinstance(asked, RequestEntry) or asked.event.form is None:
        return []
    given: dict[str, tuple[str, str]] = {}
    for entry in transcript_entries(events):
        if isinstance(entry, RequestEntry) and entry.event.call == asked.event.call:
            request, response = entry.event, entry.response
            given.pop(request.question_id, None)
            if response is not None and response.outcome == "answered":
                given[request.question_id] = (
                    request.question.text,
                    value_text(request.question.asked(request.question_id), response.answer),
                )
            elif response is not None and response.outcome == "redacted":
                given[request.question_id] = request.question.text, HIDDEN
    return [*given.values()]


# --------------------------------------------------------------------------------------------------
# Reasons why an answer to an open question was not recorded. The page and the API use the same
# messages and statuses.


class Rejection(Struct, frozen=True):
    """Why an answer was not recorded: HTTP status, code for programs, and message for people."""

    status: int
    error: str
    message: str


def rejection_of(error: StoreError | PersonNeeded | NotAllowed) -> Rejection:
    """Return the status, code and message for an error."""
    match error:
        case StoreLocked():
            return Rejection(409, "locked", str(error))
        case TooOld():
            return Rejection(409, "too_old", str(error))
        case Busy():
            return Rejection(503, "busy", str(error))
        case PersonNeeded():
            return Rejection(403, "person_needed", str(error))
        case NotAllowed():
            return Rejection(403, "may_not_answer", str(error))
        case _:
            return Rejection(503, "not_recorded", str(error))


# --------------------------------------------------------------------------------------------------
# A secret is accepted only over a private connection, and only by a process that resumes the turn
# itself.


async def secret_elsewhere(request: Request, site: AppState, question: OpenQuestion) -> str:
    """Return why this page does not accept a secret, and where to enter it. Return an empty string
    if the page accepts it.
    """
    there = site.elsewhere.format(id=question.id)
    if site.secrets is False:
        return f"Secrets are turned off on this page (web.secrets = false). {there}"
    if site.resumer is None:
        return f"This server cannot accept secrets, because it does not resume turns. {there}"
    if site.secrets is not True and not is_private(request):
        return (
            "Secrets are accepted only over TLS or on this computer. This connection may be"
            f" neither. {there}"
        )
    if not site.resumer.waits_for(question) and await _is_running_elsewhere(
        site.board.port, question
    ):
        return (
            "The turn is running in another process. Enter the secret there, or try again when the"
            " turn is waiting."
        )
    return ""


def is_private(request: Request) -> bool:
    """Return whether other users cannot read the connection: it uses TLS, or both ends are loopback
    addresses.
    """
    if request.url.scheme == "https":
        return True
    client = request.client.host if request.client else ""
    return is_loopback(client) and is_loopback(
        urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    )


def is_loopback(name: str) -> bool:
    """Return whether a host name is a loopback name of this machine."""
    if name.rpartition(".")[2] == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _is_running_elsewhere(port: Port, question: OpenQuestion) -> bool:
    return isinstance(await port.look(question.conversation), LockedBy)


# --------------------------------------------------------------------------------------------------
# Reading the conversation that the URL names


async def read_named(
    request: Request, site: AppState, read: Callable[[ConversationStore, str], T]
) -> T:
    """Return the result of `read` for the conversation in the URL. `read` runs in a thread.

    Raises:
        HTTPException: There is no such conversation (404).
        StoreError: The store is unavailable, or the conversation cannot be read.
    """
    id = request.path_params["id"]  # noqa: A001  as in the URL
    try:
        return await site.board.port.apart(lambda store: read(store, id))
    except NoConversation:
        raise HTTPException(404, "There is no conversation with this ID.") from None


def open_parts(store: ConversationStore, id: str) -> Iterator[Part]:
    """Read the first part of a conversation now, and the other parts on demand."""
    parts = store.parts_sync(id)
    return chain([next(parts)], parts)
