"""The page of one question, and what is sent from it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from midturn.core.events import ChatRequest, ChatResponse, Event
from midturn.core.stream import OpenQuestion, holds_secret
from midturn.errors import AlreadyAnswered, MidturnError, NeedsAdoption, NotOpen, Problem, QuestionError, StoreLocked
from midturn.store.outside_answers import Receipt
from midturn.web.access import Visitor
from midturn.web.answering import Answering, PageAgain, ShownPage
from midturn.web.body import Fields, read_fields
from midturn.web.closed import recorded
from midturn.web.pages.waiting import frame
from midturn.web.secret_rule import secret_elsewhere
from midturn.web.site import Site
from midturn.web.templating import page


class Before(Struct, frozen=True):
    """What was said before a question: the last exchange."""

    asked: str = ""
    said: str = ""


async def question(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show a question, or take what was sent from its page."""
    id = request.path_params["id"]  # noqa: A001  the wire's word
    found = await site.board.find(id)
    if found is None:
        return await _closed(request, visitor, site, status=404)
    elsewhere = await secret_elsewhere(request, site, found) if holds_secret(found) else ""
    answering = Answering(site, found, visitor, elsewhere)
    try:
        if request.method == "POST":
            return await _sent(request, visitor, site, answering, found)
        return await _shown(request, visitor, site, found, await answering.shown())
    except (AlreadyAnswered, NotOpen) as closed_meanwhile:
        return await _closed(request, visitor, site, status=410, problem=str(closed_meanwhile))
    except QuestionError as error:
        return page(request, "message.html", {**frame(site, visitor, "Question"), "text": str(error)}, 422)


async def _sent(request: Request, visitor: Visitor, site: Site, answering: Answering, found: OpenQuestion) -> Response:
    sent = await read_fields(request)
    try:
        came_to = await answering.act(sent)
    except PageAgain as misfit:
        return await _shown(request, visitor, site, found, misfit.shown, problems=misfit.problems, sent=sent, status=422)
    except NeedsAdoption as foreign:
        problems = (Problem("", site.about_adopting(foreign)),)
        shown = await answering.shown(sent.text("walk"), sent)
        return await _shown(request, visitor, site, found, shown, problems=problems, sent=sent, status=409)
    except (AlreadyAnswered, NotOpen, StoreLocked) as error:
        await site.board.look()
        status = 409 if isinstance(error, AlreadyAnswered) else 410
        return await _closed(request, visitor, site, status=status, sent=sent, problem=str(error))
    if isinstance(came_to, Receipt):
        return RedirectResponse(await _next_page(request, site, found, sent), 303)
    return await _shown(request, visitor, site, found, came_to)


async def _next_page(request: Request, site: Site, found: OpenQuestion, sent: Fields) -> str:
    """Return where somebody goes on: after Back at what is on record, to the question that is asked again."""
    base = str(request.scope.get("root_path", "")).rstrip("/")
    again = await site.board.asked_again(found) if sent.one("act") == "back" else None
    return f"{base}/?done={found.id}" if again is None else f"{base}/q/{again.id}"


async def _shown(  # noqa: PLR0913  what a page shows
    request: Request,
    visitor: Visitor,
    site: Site,
    found: OpenQuestion,
    shown: ShownPage,
    *,
    problems: Sequence[Problem] = (),
    sent: Fields | None = None,
    status: int = 200,
) -> Response:
    values = {
        **frame(site, visitor, "Question"),
        "question": found,
        "shown": shown,
        "kind": type(shown).__name__,
        "problems": problems,
        "reply": sent.text("reply") if sent else "",
        "reason": sent.text("reason") if sent else "",
        "before": await _before(site, found),
        "conversation_title": await site.board.title(found.conversation),
    }
    return page(request, "question.html", values, status)


async def _closed(
    request: Request, visitor: Visitor, site: Site, *, status: int, sent: Fields | None = None, problem: str = ""
) -> Response:
    found = await recorded(site.board.port, request.path_params["id"])
    kept = [text for name in ("answer", "other", "reply", "reason", "edited") if sent and (text := sent.text(name))]
    values = {**frame(site, visitor, "Closed"), "closed": found, "kept": kept, "problem": problem}
    return page(request, "closed.html", values, status if found is None or status != 404 else 200)  # noqa: PLR2004


async def _before(site: Site, found: OpenQuestion) -> Before:
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
