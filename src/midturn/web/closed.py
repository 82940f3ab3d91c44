"""How a question was closed, read from the record: who answered, and what."""

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
from midturn.errors import AlreadyAnswered, Busy, NoConversation, NotAllowed, NotOpen, PersonNeeded, StoreError, StoreLocked, TooOld
from midturn.events.open_question import Address, OpenQuestion, asked_text, parse_address
from midturn.events.transcript import ApprovalEntry, Entry, RequestEntry, entry_among, told
from midturn.events.types import AnsweredBy, Approval, Event, InquiryResponse
from midturn.inbox.store_access import Port
from midturn.question.persisted_question import PersistedQuestion
from midturn.stores.conversation import turns_in
from midturn.stores.log_tail import Part
from midturn.stores.port import HeldBy
from midturn.stores.store import ConversationStore
from midturn.terminal.prompts.answer_text import HIDDEN, value_text
from midturn.turn.view import TurnView, why_closed, why_superseded
from midturn.web.app_state import Site

T = TypeVar("T")
_LOOK = 0.05  # seconds between two looks
_LOOKS = 20


class Closed(Struct, frozen=True, kw_only=True):
    """A question that is not open any more. `decision` is None where no one decided; `question` is None of an approval."""

    id: str
    conversation: str
    asker: str
    text: str
    question: PersistedQuestion | None
    decision: InquiryResponse | Approval | None
    answered_by: AnsweredBy | None
    """Who answered it; None where no one did."""
    why: AlreadyAnswered | NotOpen
    """What an answer to it is told now."""
    answers: Sequence[tuple[str, str]] = ()
    """The questions of its form, and what was answered to each."""
    elsewhere: str = ""
    """Why a question of another agent is over that was not answered here."""


async def recorded(port: Port, id: str) -> Closed | None:
    """Return how an answered question was closed; the answer may still be on its way into the record."""
    for _ in range(_LOOKS):
        found = await closed(port, id)
        if found is None or found.decision is not None or found.elsewhere:
            return found
        await asyncio.sleep(_LOOK)
    return await closed(port, id)


async def closed(port: Port, id: str) -> Closed | None:
    """Return how the question at an address was closed; None where there was none."""
    at = parse_address(id)
    if at is None:
        return None
    try:
        return await port.apart(lambda store: _found(store, at))
    except StoreError:
        return None


def _found(store: ConversationStore, at: Address) -> Closed | None:
    """Look in the last turn, and then in all: a log may be long, and what was just closed is at its end."""
    last = store.run_sync("look", store.port.look(at.conversation)).turn.events
    for events in chain([last], (window.events for window in turns_in(store.parts_sync(at.conversation)))):
        for event in events:
            if event.event_id == at.event_id:
                return _closed(at, event, events)
    return None


def _closed(at: Address, event: Event, events: Sequence[Event]) -> Closed | None:
    turn = TurnView.of(events, at.event_id)
    answer = turn.answer(at.event_id)
    match entry_among((), event):
        case RequestEntry(event=request):
            asker, text, question = request.source.header, request.question.text, request.question
        case ApprovalEntry(event=approval) as entry if entry.waits:
            asker = next((call.name for call, _ in turn.calls if call.event_id == approval.call), "")
            text, question = asked_text(approval, asker), None
        case _:
            return None
    return Closed(
        id=str(at),
        conversation=at.conversation,
        asker=asker,
        text=text,
        question=question,
        decision=turn.decision(at.event_id),
        answered_by=answer.answered_by if answer else None,
        why=why_closed(events, at, SYSTEM_TIME.now(events) or ""),
        answers=_of_form(entry_among((), event), events),
        elsewhere=why_superseded(turn, at.event_id),
    )


def _of_form(asked: Entry | None, events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return each question of a form with its answer, as it stands after Back; none of a question of its own."""
    if not isinstance(asked, RequestEntry) or asked.event.form is None:
        return []
    given: dict[str, tuple[str, str]] = {}
    for entry in told(events):
        if isinstance(entry, RequestEntry) and entry.event.call == asked.event.call:
            request, response = entry.event, entry.response
            given.pop(request.question_id, None)
            if response is not None and response.outcome == "answered":
                given[request.question_id] = request.question.text, value_text(request.question.asked(request.question_id), response.answer)
            elif response is not None and response.outcome == "redacted":
                given[request.question_id] = request.question.text, HIDDEN
    return [*given.values()]


# ----------------------------------------------------------------------------------------------------------------------
# Why an answer was not recorded although its question is open: the same words and statuses on the page and in the API


class Unrecorded(Struct, frozen=True):
    """`status` is that of the response, `error` a word for programs, `message` a sentence for people."""

    status: int
    error: str
    message: str


def unrecorded(error: StoreError | PersonNeeded | NotAllowed) -> Unrecorded:
    """Return what is said of an error for which an answer was not recorded."""
    match error:
        case StoreLocked():
            return Unrecorded(409, "locked", str(error))
        case TooOld():
            return Unrecorded(409, "too_old", str(error))
        case Busy():
            return Unrecorded(503, "busy", str(error))
        case PersonNeeded():
            return Unrecorded(403, "person_needed", str(error))
        case NotAllowed():
            return Unrecorded(403, "may_not_answer", str(error))
        case _:
            return Unrecorded(503, "not_recorded", str(error))


# ----------------------------------------------------------------------------------------------------------------------
# Where a secret may be typed: over a line that no one else reads, into a process that goes on with the turn itself


async def secret_elsewhere(request: Request, site: Site, question: OpenQuestion) -> str:
    """Say why a secret is not taken on this page, and where it is; empty where it is taken."""
    there = site.elsewhere.format(id=question.id)
    if site.secrets is False:
        return f"A secret is not taken in the browser here: web.secrets is off. {there}"
    if site.resumer is None:
        return f"A secret goes to a turn that runs, and this server leaves turns to others. {there}"
    if site.secrets is not True and not is_private(request):
        return f"A secret is typed over TLS or on this machine only, and this page cannot tell that it is. {there}"
    if not site.resumer.waits_for(question) and await _is_held(site.board.port, question):
        return "The turn runs in another process just now: the secret can be given where it runs, or here as soon as it waits."
    return ""


def is_private(request: Request) -> bool:
    """Say whether what is sent can be read nowhere between the browser and this process."""
    if request.url.scheme == "https":
        return True
    client = request.client.host if request.client else ""
    return is_loopback(client) and is_loopback(urlsplit(f"//{request.headers.get('host', '')}").hostname or "")


def is_loopback(name: str) -> bool:
    """Say whether a name is this machine's own."""
    if name.rpartition(".")[2] == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _is_held(port: Port, question: OpenQuestion) -> bool:
    return isinstance(await port.look(question.conversation), HeldBy)


# ----------------------------------------------------------------------------------------------------------------------
# One conversation, as a request names it


async def read_named(request: Request, site: Site, read: Callable[[ConversationStore, str], T]) -> T:
    """Return what is read, in a thread, of the conversation of the address.

    Raises:
        HTTPException: There is none (404). Where others are kept is not told here.
        StoreError: The store cannot say now, or cannot read it.
    """
    id = request.path_params["id"]  # noqa: A001  the wire's word
    try:
        return await site.board.port.apart(lambda store: read(store, id))
    except NoConversation:
        raise HTTPException(404, "There is no conversation with this id.") from None


def begun(store: ConversationStore, id: str) -> Iterator[Part]:
    """Read a conversation part by part: the first one now, the others in the thread that asks for them."""
    parts = store.parts_sync(id)
    return chain([next(parts)], parts)
