"""The page of one question, and what is sent from it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from midturn.core.events import ChatRequest, ChatResponse, Event
from midturn.core.stream import OpenQuestion, holds_secret
from midturn.core.turn.closed import no_question
from midturn.errors import AlreadyAnswered, MidturnError, NotAllowed, NotOpen, PersonNeeded, Problem, QuestionError, StoreError
from midturn.store.outside_answers import Receipt
from midturn.web.answering import Answering
from midturn.web.body import Fields, read_fields
from midturn.web.closed import recorded
from midturn.web.gate import Visitor
from midturn.web.pages.waiting import frame
from midturn.web.question_pages import PageAgain, ShownPage
from midturn.web.secret_rule import secret_elsewhere
from midturn.web.site import Site
from midturn.web.templating import page
from midturn.web.unrecorded import unrecorded


class Before(Struct, frozen=True):
    """What was said before a question: the last exchange."""

    asked: str = ""
    said: str = ""


class _Visit(Struct, frozen=True):
    """Somebody at the address of a question."""

    request: Request
    visitor: Visitor
    site: Site


class _Refused(Struct, frozen=True):
    """What was sent from the page and did not do, and why."""

    status: int
    sent: Fields
    problems: Sequence[Problem]


async def question(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show a question, or take what was sent from its page."""
    visit = _Visit(request, visitor, site)
    found = await site.board.find(request.path_params["id"])
    if found is None:
        return await _closed(visit, await read_fields(request) if request.method == "POST" else None)
    elsewhere = await secret_elsewhere(request, site, found) if holds_secret(found) else ""
    answering = Answering(site, found, visitor, elsewhere)
    try:
        if request.method == "POST":
            return await _sent(visit, answering, found)
        return await _shown(visit, found, await answering.shown())
    except (AlreadyAnswered, NotOpen) as closed_meanwhile:
        return await _closed(visit, why=closed_meanwhile)
    except QuestionError as error:
        return page(request, "message.html", {**frame(site, visitor, "Question"), "text": str(error)}, 422)


async def _sent(visit: _Visit, answering: Answering, found: OpenQuestion) -> Response:
    sent = await read_fields(visit.request)
    try:
        came_to = await answering.act(sent)
    except PageAgain as misfit:
        return await _shown(visit, found, misfit.shown, _Refused(422, sent, misfit.problems))
    except (AlreadyAnswered, NotOpen) as error:
        await visit.site.board.look_again()
        return await _closed(visit, sent, error)
    except (StoreError, PersonNeeded, NotAllowed) as error:
        why = unrecorded(error)
        shown = await answering.shown(sent.text("walk"), sent)
        return await _shown(visit, found, shown, _Refused(why.status, sent, [Problem("", why.message)]))
    if isinstance(came_to, Receipt):
        return RedirectResponse(await _next_page(visit, found, sent), 303)
    return await _shown(visit, found, came_to)


async def _next_page(visit: _Visit, found: OpenQuestion, sent: Fields) -> str:
    """Return where somebody goes on: after Back at what is on record, to the question that is asked again."""
    base = str(visit.request.scope.get("root_path", "")).rstrip("/")
    again = await visit.site.board.asked_again(found) if sent.one("act") == "back" else None
    return f"{base}/?done={found.id}" if again is None else f"{base}/q/{again.id}"


async def _shown(visit: _Visit, found: OpenQuestion, shown: ShownPage, refused: _Refused | None = None) -> Response:
    values = {
        **frame(visit.site, visit.visitor, "Question"),
        "question": found,
        "shown": shown,
        "kind": type(shown).__name__,
        "problems": refused.problems if refused else [Problem("", found.problem)] if found.problem else (),
        "reply": refused.sent.text("reply") if refused else "",
        "reason": refused.sent.text("reason") if refused else "",
        "before": await _before(visit.site, found),
        "conversation_title": await visit.site.board.title(found.conversation),
    }
    return page(visit.request, "question.html", values, refused.status if refused else 200)


async def _closed(visit: _Visit, sent: Fields | None = None, why: AlreadyAnswered | NotOpen | None = None) -> Response:
    """Show how a question was closed; to what was `sent` all the same, why it was not recorded."""
    id = visit.request.path_params["id"]  # noqa: A001  the wire's word
    found = await recorded(visit.site.board.port, id)
    why = why or (found.why if found else no_question(id))
    kept = [text for name in ("answer", "other", "reply", "reason", "edited") if sent and (text := sent.text(name))]
    values = {**frame(visit.site, visit.visitor, "Closed"), "closed": found, "kept": kept, "why": why, "is_late": sent is not None}
    if found is None:
        return page(visit.request, "closed.html", values, 404)
    return page(visit.request, "closed.html", values, 200 if sent is None else 409 if isinstance(why, AlreadyAnswered) else 410)


async def _before(site: Site, found: OpenQuestion) -> Before:
    if found.asker:  # an agent of somebody else keeps its conversation to itself: nothing of it was said here
        return Before()
    try:
        turn = await site.board.port.last_turn(found.conversation)
    except MidturnError:  # the question can be answered without it
        return Before()
    return _exchange(turn, found)


def _exchange(turn: Sequence[Event], found: OpenQuestion) -> Before:
    asked, said = "", ""
    for event in turn:
        if event.event_id == found.request.event_id:
            break
        if isinstance(event, ChatRequest):
            asked, said = event.content, ""
        elif isinstance(event, ChatResponse) and event.message:
            said = event.message
    return Before(asked, said)
