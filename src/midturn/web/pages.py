"""The pages, one file each."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from midturn.errors import AlreadyAnswered, MidturnError, NotAllowed, NotOpen, PersonNeeded, Problem, QuestionError, StoreError
from midturn.events.open_question import OpenQuestion, holds_secret
from midturn.events.transcript import WordsEntry, told
from midturn.events.types import Event
from midturn.inbox.open_questions import MOST, Board, Waiting
from midturn.stores.answer_service import Receipt
from midturn.stores.conversation import turns_in
from midturn.stores.export import JpFiles, export_jp, export_jsonl, export_markdown
from midturn.stores.log_tail import Part
from midturn.stores.response_times import people_sums
from midturn.terminal.prompts.changes import FileChanges, change_in
from midturn.turn.view import no_question
from midturn.web.answering import PageVisit
from midturn.web.app_state import Site
from midturn.web.body import Fields, read_fields
from midturn.web.cards import MANY, Wanted, names_of
from midturn.web.changes import kept_diff
from midturn.web.closed import Closed, begun, read_named, recorded, secret_elsewhere, unrecorded
from midturn.web.controls import FormPage, PageAgain, ShownPage
from midturn.web.conversation_cache import NEWEST, fitting
from midturn.web.gate import Visitor
from midturn.web.schema_fields import reshapes
from midturn.web.statistics import columns, curve, sums, waits
from midturn.web.templating import page
from midturn.web.timeline import excerpt

# ----------------------------------------------------------------------------------------------------------------------
# The first page: what is open, grouped by conversation


class Group(Struct, frozen=True):
    """The open questions of one conversation."""

    conversation: str
    title: str
    questions: list[OpenQuestion]


_SHOWN = 50
"""How many questions are on a page of the inbox."""


async def waiting(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show what is open, a page of it; only the list, or how many there are, where the script asks for that."""
    board, part = site.board, request.query_params.get("part")
    if part == "group":
        asked = await board.waiting_in(request.query_params.get("conversation", ""))
        return page(request, "list.html", {"groups": await grouped(board, asked), "count": len(asked), **_WHOLE})
    number = request.query_params.get("page", "")
    seen = board.seen
    place = int(number) if re.fullmatch("[1-9][0-9]{0,4}", number) else 1
    found = await board.waiting(max(MOST, place * _SHOWN))
    if part == "count":
        return PlainTextResponse(found.count)
    wanted = Wanted.of(request.query_params, visitor.name)
    values = await _one_page(board, found, wanted, place)
    if part == "list":
        return page(request, "list.html", values)
    done = await recorded(board.port, request.query_params.get("done", ""))
    more = {"done": done, "next": _next(found, done), "seen": seen, "wanted": wanted, **_to_filter_by(found)}
    return page(request, "inbox.html", {**values, **await frame(site, visitor, "Inbox", found), **more})


_WHOLE = {"number": 1, "pages": 1, "is_filtered": False, "filtered": ""}


def _next(found: Waiting, done: Closed | None) -> OpenQuestion | None:
    """Return the question to go on with: of the same conversation, where that asks more, else the oldest."""
    if done is None:
        return None
    same = (question for question in found.questions if question.conversation == done.conversation and question.id != done.id)
    return next(same, next((question for question in found.questions if question.id != done.id), None))


def _to_filter_by(found: Waiting) -> dict[str, object]:
    names = sorted({name for question in found.questions for name in names_of(question)})
    return {"names": names, "is_many": len(found.questions) > MANY, "has_people": any(each.whose for each in found.questions)}


async def _one_page(board: Board, found: Waiting, wanted: Wanted, place: int) -> dict[str, object]:
    """Return the questions of a page, the last one where there are fewer pages; titles are read of no others."""
    questions = _by_conversation(wanted.among(found.questions))
    pages = max(1, -(-len(questions) // _SHOWN))
    shown = min(place, pages)
    groups = await grouped(board, questions[(shown - 1) * _SHOWN : shown * _SHOWN])
    given = {"q": wanted.words, "who": wanted.who, "mine": "yes" if wanted.mine else ""}
    query = "".join(f"&{name}={quote(value, safe='')}" for name, value in given.items() if value)
    values = {"groups": groups, "count": found.count, "number": shown, "pages": pages, "has_more": found.has_more}
    return {**values, "is_filtered": not wanted.is_all, "filtered": query}


def _by_conversation(questions: Iterable[OpenQuestion]) -> list[OpenQuestion]:
    """Put questions of one conversation together, where the oldest of them stands."""
    found: dict[str, list[OpenQuestion]] = {}
    for question in questions:
        found.setdefault(question.conversation, []).append(question)
    return [question for of_one in found.values() for question in of_one]


async def grouped(board: Board, questions: Iterable[OpenQuestion]) -> list[Group]:
    """Group questions by conversation; a conversation stands where its oldest question does."""
    together = {conversation: list(asked) for conversation, asked in groupby(_by_conversation(questions), attrgetter("conversation"))}
    titles = await board.titles(together)
    return [Group(conversation, titles[conversation], asked) for conversation, asked in together.items()]


async def frame(site: Site, visitor: Visitor, title: str, found: Waiting | None = None) -> dict[str, object]:
    """Return what the frame around every page shows; `found` is what is open, where that was read already."""
    waits = (found or await site.board.waiting()).count
    push_key = site.push.keys.public if site.push else ""
    return {"title": title, "here": title, "waiting": waits, "visitor": visitor, "signs_in": site.signs_in, "push_key": push_key}


# ----------------------------------------------------------------------------------------------------------------------
# Pictures of who answers what, and how long it takes; each with its numbers


async def stats(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show the sums of the newest conversations."""
    every = await site.library.newest()
    added = sums(fact for one in every for fact in one.asked)
    people = people_sums(fact for one in every for fact in one.waited)
    pictures = {"curve": curve(added), "hours": columns(added), "waits": waits(added)}
    values = {"people": people, "sums": added, **pictures, "conversations": len(every), "is_all": len(every) < NEWEST}
    return page(request, "stats.html", {**await frame(site, visitor, "Stats"), **values})


# ----------------------------------------------------------------------------------------------------------------------
# The conversations: a list to search, one to read, and files to take away


_PAGE = 50
_FORMATS = {"markdown": ("md", "text/markdown; charset=utf-8"), "jsonl": ("jsonl", "application/jsonl"), "jp": ("zip", "application/zip")}


async def conversations(request: Request, visitor: Visitor, site: Site) -> Response:
    """List conversations, the newest first."""
    words, label = request.query_params.get("q", ""), request.query_params.get("label", "")
    before = request.query_params.get("before", "")
    if words or label:
        every = [one for one in fitting(await site.library.newest(), words, label) if not before or one.id < before]
        left = f"{len(every) - _PAGE} more" if len(every) > _PAGE else ""
    else:
        every = await site.library.newest_before(before, _PAGE + 1)
        left = "Older ones" if before else f"{await site.library.count() - _PAGE} more"
    values = {
        **await frame(site, visitor, "Conversations"),
        "found": every[:_PAGE],
        "more": every[_PAGE - 1].id if len(every) > _PAGE else "",
        "left": left,
        "words": words,
        "label": label,
        "labels": sorted({label} - {""} | {name for one in every for name in one.labels}),
    }
    return page(request, "conversations.html", values)


async def conversation(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show the last turns of a conversation, or those before one of them; only the timeline where the script asks for that."""
    number = request.query_params.get("before", "")
    before = int(number) if re.fullmatch("[1-9][0-9]{0,8}", number) else None
    read = await read_named(request, site, lambda store, id: excerpt(store, id, before))  # noqa: A006  the wire's word
    open_ids = {question.request.event_id for question in await site.board.waiting_in(read.id)}
    values = {"conversation": read, "open_ids": open_ids}
    if request.query_params.get("part") == "timeline":
        return page(request, "timeline.html", values)
    return page(request, "conversation.html", {**await frame(site, visitor, "Conversation"), **values})


async def export(request: Request, visitor: Visitor, site: Site) -> Response:
    """Return a conversation as a file."""
    del visitor
    form = request.path_params["form"]
    if form not in _FORMATS:
        raise HTTPException(404, f"There is no format {form!r}: choose {', '.join(_FORMATS)}.")
    id = request.path_params["id"]  # noqa: A001  the wire's word
    parts = await read_named(request, site, begun)
    suffix, media_type = _FORMATS[form]
    name = "".join(islice((letter for letter in id if letter.isascii() and letter.isalnum()), 64)) or "conversation"
    headers = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
    return StreamingResponse(_exported(parts, form), media_type=media_type, headers=headers)


def _exported(parts: Iterator[Part], form: str) -> Iterator[bytes]:
    """Yield the file; it runs in a thread."""
    first = next(parts)
    every = chain([first], parts)
    match form:
        case "markdown":
            yield from (text.encode() for text in export_markdown(turns_in(every), first.metadata.title))
        case "jsonl":
            yield from export_jsonl(line for part in every for line in part.lines)
        case _:
            yield _packed(export_jp([line for part in every for line in part.lines], first.metadata.to_json()))


def _packed(files: JpFiles) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.named().items():
            archive.writestr(name, content)
    return packed.getvalue()


# ----------------------------------------------------------------------------------------------------------------------
# The page of one question, and what is sent from it


class Before(Struct, frozen=True):
    """What was said before a question: the last exchange."""

    asked: str = ""
    said: str = ""
    who: str = ""


class _Visit(Struct, frozen=True):
    """A visitor at the address of a question."""

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
    return await _shown(visit, found, came_to, _Refused(200, sent, ()) if reshapes(sent.one("act")) else None)


_NOTES = ("pass", "take-back")


async def _next_page(visit: _Visit, found: OpenQuestion, sent: Fields, *, stays: bool) -> str:
    """Return where the visitor goes on: after Back to the question that is asked again; it `stays` where others have to say yes, too."""
    base = str(visit.request.scope.get("root_path", "")).rstrip("/")
    if stays:
        return f"{base}/q/{found.id}"
    again = await visit.site.board.asked_again(found) if sent.one("act") == "back" else None
    return f"{base}/?done={found.id}" if again is None else f"{base}/q/{again.id}"


async def _shown(visit: _Visit, found: OpenQuestion, shown: ShownPage, refused: _Refused | None = None) -> Response:
    waiting = await visit.site.board.waiting()
    values = {
        **await frame(visit.site, visit.visitor, "Question", waiting),
        "question": found,
        "voters": partial(_voters, visit.site),
        "alike": len(alike(found, waiting.questions)),
        "shown": shown,
        "kind": type(shown).__name__,
        "problems": refused.problems if refused else [Problem("", found.problem)] if found.problem else (),
        "reply": refused.sent.text("reply") if refused else "",
        "reason": refused.sent.text("reason") if refused else "",
        "before": await _before(visit.site, found),
        "change": await asyncio.to_thread(_change, visit.site, shown),
        "lines_page": _lines_page(visit.request),
        "conversation_title": (await visit.site.board.titles([found.conversation]))[found.conversation],
    }
    return page(visit.request, "question.html", values, refused.status if refused else 200)


def _change(site: Site, shown: ShownPage) -> FileChanges | None:
    """Return what a question would change, where its context is a diff."""
    context = shown.asked.context if isinstance(shown, FormPage) else None
    return change_in(context, kept_diff(site.root)) if context else None


def _lines_page(request: Request) -> int:
    number = request.query_params.get("lines", "")
    return int(number) if re.fullmatch("[1-9][0-9]{0,6}", number) else 1


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
    asked, said, who = "", "", ""
    for entry in told(turn):
        if entry.event.event_id == found.request.event_id:
            break
        if isinstance(entry, WordsEntry) and entry.kind == "request":
            asked, said, who = entry.text, "", entry.author or ""
        elif isinstance(entry, WordsEntry) and entry.kind == "message" and entry.text:
            said = entry.text
    return Before(asked, said, who)


# ----------------------------------------------------------------------------------------------------------------------
# Several alike questions in one act: each is shown in full first, and each is answered and recorded by itself


MOST_ALIKE: Final = 20
"""How many alike questions are shown, and answered, in one act."""
_SENT: Final = ("act", "answer", "other", "empty", "reason")
_ACTS: Final = ("approve", "refuse", "answer", "skip", None)


class _Outcome(Struct, frozen=True):
    """What became of one of several answers: `votes` where others have to say yes, too; `why` it was not recorded, or empty."""

    question: OpenQuestion
    votes: str = ""
    why: str = ""


def alike(question: OpenQuestion, others: Iterable[OpenQuestion]) -> list[OpenQuestion]:
    """Return a question with those that the same answer may fit: the same tool asks the same kind of thing, maybe in other words.

    A question of a form, a secret, a result and a review are answered by themselves.
    """
    if question.kind not in ("tool", "run") or question.form is not None or holds_secret(question):
        return [question]
    same = [each for each in others if each.id != question.id and _likeness(each) == _likeness(question)]
    return [question, *same[: MOST_ALIKE - 1]]


def _likeness(question: OpenQuestion) -> object:
    asker = question.asker.name if question.asker else ""
    asked = question.question
    return question.kind, question.tool, question.source, asker, question.question_id, question.form, asked.answer_type, asked.optional


async def several(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show a question with those that are alike, or answer those of them that were chosen."""
    found = await site.board.find(request.path_params["id"])
    if found is None:
        return await _closed(_Visit(request, visitor, site))
    waits = await site.board.waiting()
    every = alike(found, waits.questions)
    values = {
        **await frame(site, visitor, "Questions", waits),
        "question": found,
        "voters": partial(_voters, site),
        "every": (),
        "outcomes": (),
        "problems": (),
        "reason": "",
    }
    if request.method == "GET":
        return page(request, "several.html", {**values, "every": await _in_full(site, visitor, every)})
    sent = await read_fields(request)
    problems, outcomes = await _all_answered(site, visitor, [each for each in every if each.id in sent.all("question")], sent)
    if problems:
        shown = await _in_full(site, visitor, every)
        return page(request, "several.html", {**values, "every": shown, "problems": problems, "reason": sent.text("reason")}, 422)
    return page(request, "several.html", {**values, "outcomes": outcomes})


async def _in_full(site: Site, visitor: Visitor, every: Iterable[OpenQuestion]) -> list[tuple[OpenQuestion, ShownPage]]:
    """Return each question with what its own page shows of it; what was answered meanwhile is left out."""
    found: list[tuple[OpenQuestion, ShownPage]] = []
    for each in every:
        with suppress(AlreadyAnswered, NotOpen):
            found.append((each, await PageVisit(site, each, visitor).shown()))
    return found


def _voters(site: Site, question: OpenQuestion) -> list[str]:
    """Return who has said yes; of somebody who is not in the configuration any more, that they have left."""
    now = site.board.port.store.admission.people if question.request.configured else None
    names = question.whose.voters if question.whose else ()
    return [f"{name} (has left)" if now and now.people and not now.has_person(name) else name for name in names]


async def _all_answered(
    site: Site, visitor: Visitor, chosen: Sequence[OpenQuestion], sent: Fields
) -> tuple[Sequence[Problem], Sequence[_Outcome]]:
    """Answer one question after the other as its own page does; what does not fit the first of them, none is given."""
    if not chosen or sent.one("act") not in _ACTS:
        return [Problem("", "Choose at least one question, and an answer.")], ()
    outcomes: list[_Outcome] = []
    for each in chosen:
        fields = Fields({name: sent.all(name) for name in _SENT if name in sent} | {"about": sent.all(f"about-{each.id}")})
        try:
            came_to = await PageVisit(site, each, visitor).act(fields)
            outcomes.append(_Outcome(each, votes=came_to.votes if isinstance(came_to, Receipt) else ""))
        except PageAgain as misfit:
            if not outcomes:
                return misfit.problems, ()
            outcomes.append(_Outcome(each, why=" ".join(problem.message for problem in misfit.problems)))
        except (AlreadyAnswered, NotOpen, NotAllowed, StoreError, PersonNeeded) as error:
            outcomes.append(_Outcome(each, why=str(error)))
    return (), outcomes
