"""The pages, one file each."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter

from markupsafe import Markup
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from midturn.errors import AlreadyAnswered, MidturnError, NotAllowed, NotOpen, PersonNeeded, Problem, QuestionError, StoreError
from midturn.record.events import ChatRequest, ChatResponse, Event
from midturn.record.open_question import OpenQuestion, holds_secret
from midturn.record.waited import people_sums
from midturn.store.conversation import Conversation
from midturn.store.export import export_jp, export_jsonl, export_markdown
from midturn.store.outside_answers import Receipt
from midturn.turn.view import no_question
from midturn.web.answering import PageVisit
from midturn.web.board import MOST, Board, Waiting
from midturn.web.body import Fields, read_fields
from midturn.web.closed import read_named, recorded, secret_elsewhere, unrecorded
from midturn.web.controls import PageAgain, ShownPage
from midturn.web.gate import Visitor
from midturn.web.library import NEWEST, Sums, fitting, sums
from midturn.web.site import Site
from midturn.web.templating import page
from midturn.web.timeline import timeline

# ----------------------------------------------------------------------------------------------------------------------
# The first page: what is open, grouped by conversation


class Group(Struct, frozen=True):
    """The open questions of one conversation."""

    conversation: str
    title: str
    questions: list[OpenQuestion]


_SHOWN = 100
"""How many questions are on a page of the inbox."""


async def waiting(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show what is open, a page of it; only the list where the script asks for that."""
    board = site.board
    if request.query_params.get("part") == "group":
        asked = await board.waiting_in(request.query_params.get("conversation", ""))
        return page(request, "list.html", {"groups": await grouped(board, asked), "count": len(asked), "number": 1, "pages": 1})
    number = request.query_params.get("page", "")
    wanted = int(number) if re.fullmatch("[1-9][0-9]{0,4}", number) else 1
    found = await board.waiting(max(MOST, wanted * _SHOWN))
    values = await _one_page(board, found, wanted)
    if request.query_params.get("part") == "list":
        return page(request, "list.html", values)
    done = await recorded(board.port, request.query_params.get("done", ""))
    return page(request, "inbox.html", {**values, **await frame(site, visitor, "Inbox", found), "done": done})


async def _one_page(board: Board, found: Waiting, wanted: int) -> dict[str, object]:
    """Return the questions of a page, the last one where there are fewer pages; titles are read of no others."""
    questions = _by_conversation(found.questions)
    pages = max(1, -(-len(questions) // _SHOWN))
    shown = min(wanted, pages)
    groups = await grouped(board, questions[(shown - 1) * _SHOWN : shown * _SHOWN])
    return {"groups": groups, "count": found.count, "number": shown, "pages": pages, "has_more": found.has_more}


def _by_conversation(questions: Iterable[OpenQuestion]) -> list[OpenQuestion]:
    """Put questions of one conversation together, where the oldest of them stands."""
    found: dict[str, list[OpenQuestion]] = {}
    for question in questions:
        found.setdefault(question.conversation, []).append(question)
    return [question for of_one in found.values() for question in of_one]


async def grouped(board: Board, questions: Iterable[OpenQuestion]) -> list[Group]:
    """Group questions by conversation; a conversation stands where its oldest question does."""
    together = groupby(_by_conversation(questions), attrgetter("conversation"))
    return [Group(conversation, await board.title(conversation), list(asked)) for conversation, asked in together]


async def frame(site: Site, visitor: Visitor, title: str, found: Waiting | None = None) -> dict[str, object]:
    """Return what the frame around every page shows; `found` is what is open, where that was read already."""
    waits = (found or await site.board.waiting()).count
    return {"title": title, "here": title, "waiting": waits, "visitor": visitor, "signs_in": site.signs_in}


# ----------------------------------------------------------------------------------------------------------------------
# Pictures of who answers what, and how long it takes; each with its numbers


_WIDTH, _HEIGHT = 600, 120


async def stats(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show the sums of the newest conversations."""
    every = await site.library.newest()
    added = sums(fact for one in every for fact in one.asked)
    people = people_sums(fact for one in every for fact in one.waited)
    values = {"people": people, "sums": added, "curve": _curve(added), "conversations": len(every), "is_all": len(every) < NEWEST}
    return page(request, "stats.html", {**await frame(site, visitor, "Stats"), **values})


def _curve(added: Sums) -> Markup:
    """Draw how many were open, day by day, as steps: what was open stays open until the next day's count."""
    highest = max((count for _, count in added.days), default=0) or 1
    step = _WIDTH / len(added.days)
    points = [f"0,{_HEIGHT}"]
    for place, (_, count) in enumerate(added.days):
        height = round(_HEIGHT - count / highest * (_HEIGHT - 4), 1)
        points += [f"{place * step:.1f},{height}", f"{(place + 1) * step:.1f},{height}"]
    points.append(f"{_WIDTH},{_HEIGHT}")
    return Markup(
        '<svg class="curve" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true"><polygon points="{}"/></svg>'
    ).format(_WIDTH, _HEIGHT, " ".join(points))


# ----------------------------------------------------------------------------------------------------------------------
# The conversations: a list to search, one to read, and files to take away


_PAGE = 50
_TURNS = 50  # of a long conversation; the others are a link away
_FORMATS = {"markdown": ("md", "text/markdown; charset=utf-8"), "jsonl": ("jsonl", "application/jsonl"), "jp": ("zip", "application/zip")}


async def conversations(request: Request, visitor: Visitor, site: Site) -> Response:
    """List conversations, the newest first."""
    words, label = request.query_params.get("q", ""), request.query_params.get("label", "")
    before = request.query_params.get("before", "")
    every = await site.library.newest()
    found = [one for one in fitting(every, words, label) if not before or one.id < before]
    values = {
        **await frame(site, visitor, "Conversations"),
        "found": found[:_PAGE],
        "more": found[_PAGE - 1].id if len(found) > _PAGE else "",
        "words": words,
        "label": label,
        "labels": sorted({name for one in every for name in one.labels}),
    }
    return page(request, "conversations.html", values)


async def conversation(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show one conversation; only its timeline where the script asks for that."""
    read = await read_named(request, site)
    turns = timeline(read.turns)
    shown = turns if "all" in request.query_params else turns[-_TURNS:]
    open_ids = {question.request.event_id for question in await site.board.waiting_in(read.id)}
    values = {"conversation": read, "turns": shown, "hidden": len(turns) - len(shown), "open_ids": open_ids}
    if request.query_params.get("part") == "timeline":
        return page(request, "timeline.html", values)
    is_open = bool(turns) and not turns[-1].status
    heading = read.title or read.id
    return page(
        request, "conversation.html", {**await frame(site, visitor, "Conversation"), **values, "heading": heading, "is_open": is_open}
    )


async def export(request: Request, visitor: Visitor, site: Site) -> Response:
    """Return a conversation as a file."""
    del visitor
    form = request.path_params["form"]
    if form not in _FORMATS:
        raise HTTPException(404, f"There is no format {form!r}: choose {', '.join(_FORMATS)}.")
    read = await read_named(request, site)
    suffix, media_type = _FORMATS[form]
    name = "".join(islice((letter for letter in read.id if letter.isascii() and letter.isalnum()), 64)) or "conversation"
    headers = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
    return Response(await _exported(read, form, site), media_type=media_type, headers=headers)


async def _exported(read: Conversation, form: str, site: Site) -> bytes:
    if form == "markdown":
        return "".join(export_markdown(read.turns, read.metadata.title)).encode()
    lines = await site.board.port.lines(read.id)
    if form == "jsonl":
        return b"".join(export_jsonl(lines))
    files = export_jp(lines, read.metadata.to_json())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("events.json", files.events)
        archive.writestr("metadata.json", files.metadata)
    return packed.getvalue()


# ----------------------------------------------------------------------------------------------------------------------
# The page of one question, and what is sent from it


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
    answering = PageVisit(site, found, visitor, elsewhere)
    try:
        if request.method == "POST":
            return await _sent(visit, answering, found)
        return await _shown(visit, found, await answering.shown())
    except (AlreadyAnswered, NotOpen) as closed_meanwhile:
        return await _closed(visit, why=closed_meanwhile)
    except QuestionError as error:
        return page(request, "message.html", {**await frame(site, visitor, "Question"), "text": str(error)}, 422)


async def _sent(visit: _Visit, answering: PageVisit, found: OpenQuestion) -> Response:
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
        return RedirectResponse(await _next_page(visit, found, sent, stays=bool(came_to.votes) or sent.one("act") in _NOTES), 303)
    return await _shown(visit, found, came_to)


_NOTES = ("pass", "take-back")


async def _next_page(visit: _Visit, found: OpenQuestion, sent: Fields, *, stays: bool) -> str:
    """Return where the visitor goes on: after Back to the question that is asked again; it `stays` where others have to say yes, too."""
    base = str(visit.request.scope.get("root_path", "")).rstrip("/")
    if stays:
        return f"{base}/q/{found.id}"
    again = await visit.site.board.asked_again(found) if sent.one("act") == "back" else None
    return f"{base}/?done={found.id}" if again is None else f"{base}/q/{again.id}"


async def _shown(visit: _Visit, found: OpenQuestion, shown: ShownPage, refused: _Refused | None = None) -> Response:
    values = {
        **await frame(visit.site, visit.visitor, "Question"),
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
    values = {**await frame(visit.site, visit.visitor, "Closed"), "closed": found, "kept": kept, "why": why, "is_late": sent is not None}
    if found is None:
        return page(visit.request, "closed.html", values, 404)
    return page(visit.request, "closed.html", values, 200 if sent is None else 409 if isinstance(why, AlreadyAnswered) else 410)


async def _before(site: Site, found: OpenQuestion) -> Before:
    if found.asker:  # another agent keeps its conversation to itself: nothing of it was said here
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
