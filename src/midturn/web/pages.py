"""The request handlers of all HTML pages."""

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

from midturn.errors import (
    AlreadyAnswered,
    MidturnError,
    NotAllowed,
    NotOpen,
    PersonNeeded,
    Problem,
    QuestionError,
    StoreError,
)
from midturn.events.open_question import OpenQuestion, holds_secret
from midturn.events.transcript import WordsEntry, transcript_entries
from midturn.events.types import Event
from midturn.inbox.open_questions import MOST, OpenQuestionList, Waiting
from midturn.stores.answer_service import Receipt
from midturn.stores.conversation import turns_in
from midturn.stores.export import JpFiles, export_jp, export_jsonl, export_markdown
from midturn.stores.log_tail import Part
from midturn.stores.response_times import people_sums
from midturn.terminal.prompts.changes import FileChanges, change_in
from midturn.turn.view import no_question
from midturn.web.answering import PageVisit
from midturn.web.app_state import AppState
from midturn.web.body import Fields, read_fields
from midturn.web.cards import SEARCH_FROM, QuestionFilter, search_names
from midturn.web.changes import stored_diff
from midturn.web.closed import (
    ClosedQuestion,
    open_parts,
    read_named,
    recorded,
    rejection_of,
    secret_elsewhere,
)
from midturn.web.controls import FormPage, PageAgain, ShownPage
from midturn.web.conversation_cache import NEWEST, matching
from midturn.web.request_checks import Visitor
from midturn.web.schema_fields import changes_layout
from midturn.web.statistics import columns, compute_statistics, curve, waits
from midturn.web.templating import page
from midturn.web.timeline import excerpt

# --------------------------------------------------------------------------------------------------
# Inbox: open questions, grouped by conversation


class Group(Struct, frozen=True):
    """The open questions of one conversation."""

    conversation: str
    title: str
    questions: list[OpenQuestion]


PAGE_SIZE = 50
"""Number of questions per page of the inbox."""


async def waiting(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Show a page of the inbox.

    For requests from the page's script, return only the list, one group, or the number of open
    questions.
    """
    board, part = site.board, request.query_params.get("part")
    if part == "group":
        asked = await board.waiting_in(request.query_params.get("conversation", ""))
        return page(
            request,
            "list.html",
            {"groups": await grouped(board, asked), "count": len(asked), **_SINGLE_PAGE},
        )
    number = request.query_params.get("page", "")
    seen = board.seen
    place = int(number) if re.fullmatch("[1-9][0-9]{0,4}", number) else 1
    found = await board.waiting(max(MOST, place * PAGE_SIZE))
    if part == "count":
        return PlainTextResponse(found.count)
    wanted = QuestionFilter.of(request.query_params, visitor.name)
    values = await _page_values(board, found, wanted, place)
    if part == "list":
        return page(request, "list.html", values)
    done = await recorded(board.port, request.query_params.get("done", ""))
    more = {
        "done": done,
        "next": _next_question(found, done),
        "seen": seen,
        "wanted": wanted,
        **_filter_values(found),
    }
    return page(
        request, "inbox.html", {**values, **await frame(site, visitor, "Inbox", found), **more}
    )


_SINGLE_PAGE = {"number": 1, "pages": 1, "is_filtered": False, "filtered": ""}


def _next_question(found: Waiting, done: ClosedQuestion | None) -> OpenQuestion | None:
    """Return the next question: another question of the same conversation, or the oldest one."""
    if done is None:
        return None
    same = (
        question
        for question in found.questions
        if question.conversation == done.conversation and question.id != done.id
    )
    return next(
        same, next((question for question in found.questions if question.id != done.id), None)
    )


def _filter_values(found: Waiting) -> dict[str, object]:
    names = sorted({name for question in found.questions for name in search_names(question)})
    return {
        "names": names,
        "is_many": len(found.questions) > SEARCH_FROM,
        "has_people": any(each.whose for each in found.questions),
    }


async def _page_values(
    board: OpenQuestionList, found: Waiting, wanted: QuestionFilter, place: int
) -> dict[str, object]:
    """Return the values of a page of the inbox.

    If the page number is too large, return the last page.
    """
    questions = _by_conversation(wanted.among(found.questions))
    pages = max(1, -(-len(questions) // PAGE_SIZE))
    shown = min(place, pages)
    groups = await grouped(board, questions[(shown - 1) * PAGE_SIZE : shown * PAGE_SIZE])
    given = {"q": wanted.words, "who": wanted.who, "mine": "yes" if wanted.mine else ""}
    query = "".join(f"&{name}={quote(value, safe='')}" for name, value in given.items() if value)
    values = {
        "groups": groups,
        "count": found.count,
        "number": shown,
        "pages": pages,
        "has_more": found.has_more,
    }
    return {**values, "is_filtered": not wanted.is_all, "filtered": query}


def _by_conversation(questions: Iterable[OpenQuestion]) -> list[OpenQuestion]:
    """Sort questions by conversation, in the order of each conversation's oldest question."""
    found: dict[str, list[OpenQuestion]] = {}
    for question in questions:
        found.setdefault(question.conversation, []).append(question)
    return [question for of_one in found.values() for question in of_one]


async def grouped(board: OpenQuestionList, questions: Iterable[OpenQuestion]) -> list[Group]:
    """Group questions by conversation, in the order of each conversation's oldest question."""
    together = {
        conversation: list(asked)
        for conversation, asked in groupby(_by_conversation(questions), attrgetter("conversation"))
    }
    titles = await board.titles(together)
    return [
        Group(conversation, titles[conversation], asked) for conversation, asked in together.items()
    ]


async def frame(
    site: AppState, visitor: Visitor, title: str, found: Waiting | None = None
) -> dict[str, object]:
    """Return the values for the frame around every page. `found` are the open questions, if they
    were already read.
    """
    waits = (found or await site.board.waiting()).count
    push_key = site.push.keys.public if site.push else ""
    return {
        "title": title,
        "here": title,
        "waiting": waits,
        "visitor": visitor,
        "signs_in": site.signs_in,
        "push_key": push_key,
    }


# --------------------------------------------------------------------------------------------------
# Statistics


async def stats(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Show statistics about the newest conversations."""
    every = await site.library.newest()
    added = compute_statistics(fact for one in every for fact in one.asked)
    people = people_sums(fact for one in every for fact in one.waited)
    pictures = {"curve": curve(added), "hours": columns(added), "waits": waits(added)}
    values = {
        "people": people,
        "sums": added,
        **pictures,
        "conversations": len(every),
        "is_all": len(every) < NEWEST,
    }
    return page(request, "stats.html", {**await frame(site, visitor, "Stats"), **values})


# --------------------------------------------------------------------------------------------------
# Conversations: list, timeline and exports


CONVERSATIONS_PER_PAGE = 50
_FORMATS = {
    "markdown": ("md", "text/markdown; charset=utf-8"),
    "jsonl": ("jsonl", "application/jsonl"),
    "jp": ("zip", "application/zip"),
}


async def conversations(request: Request, visitor: Visitor, site: AppState) -> Response:
    """List conversations, newest first."""
    words, label = request.query_params.get("q", ""), request.query_params.get("label", "")
    before = request.query_params.get("before", "")
    if words or label:
        every = [
            one
            for one in matching(await site.library.newest(), words, label)
            if not before or one.id < before
        ]
        left = (
            f"{len(every) - CONVERSATIONS_PER_PAGE} more"
            if len(every) > CONVERSATIONS_PER_PAGE
            else ""
        )
    else:
        every = await site.library.newest_before(before, CONVERSATIONS_PER_PAGE + 1)
        left = "Older" if before else f"{await site.library.count() - CONVERSATIONS_PER_PAGE} more"
    values = {
        **await frame(site, visitor, "Conversations"),
        "found": every[:CONVERSATIONS_PER_PAGE],
        "more": every[CONVERSATIONS_PER_PAGE - 1].id if len(every) > CONVERSATIONS_PER_PAGE else "",
        "left": left,
        "words": words,
        "label": label,
        "labels": sorted({label} - {""} | {name for one in every for name in one.labels}),
    }
    return page(request, "conversations.html", values)


async def conversation(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Show the last turns of a conversation, or the turns before a given turn. For requests from
    the page's script, return only the timeline.
    """
    number = request.query_params.get("before", "")
    before = int(number) if re.fullmatch("[1-9][0-9]{0,8}", number) else None
    read = await read_named(request, site, lambda store, id: excerpt(store, id, before))  # noqa: A006  as in the API
    open_ids = {question.request.event_id for question in await site.board.waiting_in(read.id)}
    values = {"conversation": read, "open_ids": open_ids}
    if request.query_params.get("part") == "timeline":
        return page(request, "timeline.html", values)
    return page(
        request, "conversation.html", {**await frame(site, visitor, "Conversation"), **values}
    )


async def export(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Return a conversation as a file."""
    del visitor
    form = request.path_params["form"]
    if form not in _FORMATS:
        raise HTTPException(
            404, f"Unknown format {form!r}. Allowed formats: {', '.join(_FORMATS)}."
        )
    id = request.path_params["id"]  # noqa: A001  as in the API
    parts = await read_named(request, site, open_parts)
    suffix, media_type = _FORMATS[form]
    name = (
        "".join(islice((letter for letter in id if letter.isascii() and letter.isalnum()), 64))
        or "conversation"
    )
    headers = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
    return StreamingResponse(_exported(parts, form), media_type=media_type, headers=headers)


def _exported(parts: Iterator[Part], form: str) -> Iterator[bytes]:
    """Yield the content of the file. Runs in a thread."""
    first = next(parts)
    every = chain([first], parts)
    match form:
        case "markdown":
            yield from (
                text.encode() for text in export_markdown(turns_in(every), first.metadata.title)
            )
        case "jsonl":
            yield from export_jsonl(line for part in every for line in part.lines)
        case _:
            yield _zip(
                export_jp([line for part in every for line in part.lines], first.metadata.to_json())
            )


def _zip(files: JpFiles) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.named().items():
            archive.writestr(name, content)
    return packed.getvalue()


# --------------------------------------------------------------------------------------------------
# Page of one question


class LastExchange(Struct, frozen=True):
    """The last request and reply before a question."""

    asked: str = ""
    said: str = ""
    who: str = ""


class _Visit(Struct, frozen=True):
    """A request of a visitor to the page of a question."""

    request: Request
    visitor: Visitor
    site: AppState


class _RejectedForm(Struct, frozen=True):
    """A submitted form that was rejected, with the reasons."""

    status: int
    sent: Fields
    problems: Sequence[Problem]


async def question(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Show the page of a question, or handle its submitted form."""
    visit = _Visit(request, visitor, site)
    found = await site.board.find(request.path_params["id"])
    if found is None:
        return await _render_closed(
            visit, await read_fields(request) if request.method == "POST" else None
        )
    elsewhere = await secret_elsewhere(request, site, found) if holds_secret(found) else ""
    answering = PageVisit(site, found, visitor, elsewhere)
    try:
        if request.method == "POST":
            return await _handle_post(visit, answering, found)
        return await _render(visit, found, await answering.shown())
    except (AlreadyAnswered, NotOpen) as closed_meanwhile:
        return await _render_closed(visit, why=closed_meanwhile)
    except QuestionError as error:
        return page(
            request,
            "message.html",
            {**await frame(site, visitor, "Question"), "text": str(error)},
            422,
        )


async def _handle_post(visit: _Visit, answering: PageVisit, found: OpenQuestion) -> Response:
    sent = await read_fields(visit.request)
    try:
        came_to = await answering.act(sent)
    except PageAgain as misfit:
        return await _render(visit, found, misfit.shown, _RejectedForm(422, sent, misfit.problems))
    except (AlreadyAnswered, NotOpen) as error:
        await visit.site.board.look_again()
        return await _render_closed(visit, sent, error)
    except (StoreError, PersonNeeded, NotAllowed) as error:
        why = rejection_of(error)
        shown = await answering.shown(sent.text("walk"), sent)
        return await _render(
            visit, found, shown, _RejectedForm(why.status, sent, [Problem("", why.message)])
        )
    if isinstance(came_to, Receipt):
        return RedirectResponse(
            await _next_page(
                visit, found, sent, stays=bool(came_to.votes) or sent.one("act") in _ASSIGNMENT_ACTS
            ),
            303,
        )
    return await _render(
        visit,
        found,
        came_to,
        _RejectedForm(200, sent, ()) if changes_layout(sent.one("act")) else None,
    )


_ASSIGNMENT_ACTS = ("pass", "take-back")


async def _next_page(visit: _Visit, found: OpenQuestion, sent: Fields, *, stays: bool) -> str:
    """Return the URL to redirect to. If `stays` is true, it is the page of the same question,
    because other people still have to approve.
    """
    base = str(visit.request.scope.get("root_path", "")).rstrip("/")
    if stays:
        return f"{base}/q/{found.id}"
    again = await visit.site.board.asked_again(found) if sent.one("act") == "back" else None
    return f"{base}/?done={found.id}" if again is None else f"{base}/q/{again.id}"


async def _render(
    visit: _Visit, found: OpenQuestion, shown: ShownPage, refused: _RejectedForm | None = None
) -> Response:
    waiting = await visit.site.board.waiting()
    values = {
        **await frame(visit.site, visit.visitor, "Question", waiting),
        "question": found,
        "voters": partial(_voters, visit.site),
        "alike": len(similar(found, waiting.questions)),
        "shown": shown,
        "kind": type(shown).__name__,
        "problems": (
            refused.problems if refused else [Problem("", found.problem)] if found.problem else ()
        ),
        "reply": refused.sent.text("reply") if refused else "",
        "reason": refused.sent.text("reason") if refused else "",
        "before": await _last_exchange(visit.site, found),
        "change": await asyncio.to_thread(_change, visit.site, shown),
        "lines_page": _lines_page(visit.request),
        "conversation_title": (await visit.site.board.titles([found.conversation]))[
            found.conversation
        ],
    }
    return page(visit.request, "question.html", values, refused.status if refused else 200)


def _change(site: AppState, shown: ShownPage) -> FileChanges | None:
    """Return the diff in the context of a question, or None if there is no diff."""
    context = shown.asked.context if isinstance(shown, FormPage) else None
    return change_in(context, stored_diff(site.root)) if context else None


def _lines_page(request: Request) -> int:
    number = request.query_params.get("lines", "")
    return int(number) if re.fullmatch("[1-9][0-9]{0,6}", number) else 1


async def _render_closed(
    visit: _Visit, sent: Fields | None = None, why: AlreadyAnswered | NotOpen | None = None
) -> Response:
    """Show how a question was closed. If a form was submitted (`sent`), also show why it was not
    saved.
    """
    id = visit.request.path_params["id"]  # noqa: A001  as in the API
    found = await recorded(visit.site.board.port, id)
    is_unknown = why is None and found is None
    why = why or (found.why if found else no_question(id))
    kept = [
        text
        for name in ("answer", "other", "reply", "reason", "edited")
        if sent and (text := sent.text(name))
    ]
    values = {
        **await frame(visit.site, visit.visitor, "Closed"),
        "closed": found,
        "kept": kept,
        "why": why,
        "is_late": sent is not None,
    }
    values |= {"is_unknown": is_unknown, "was_answered": isinstance(why, AlreadyAnswered)}
    if found is None:
        return page(visit.request, "closed.html", values, 404)
    return page(
        visit.request,
        "closed.html",
        values,
        200 if sent is None else 409 if isinstance(why, AlreadyAnswered) else 410,
    )


async def _last_exchange(site: AppState, found: OpenQuestion) -> LastExchange:
    if found.asker:  # another agent's conversation is not in the store
        return LastExchange()
    try:
        turn = await site.board.port.last_turn(found.conversation)
    except MidturnError:  # the page works without it
        return LastExchange()
    return _exchange_before(turn, found)


def _exchange_before(turn: Sequence[Event], found: OpenQuestion) -> LastExchange:
    asked, said, who = "", "", ""
    for entry in transcript_entries(turn):
        if entry.event.event_id == found.request.event_id:
            break
        if isinstance(entry, WordsEntry) and entry.kind == "request":
            asked, said, who = entry.text, "", entry.author or ""
        elif isinstance(entry, WordsEntry) and entry.kind == "message" and entry.text:
            said = entry.text
    return LastExchange(asked, said, who)


# --------------------------------------------------------------------------------------------------
# Several similar questions on one page. Each is shown completely, and each answer is recorded
# separately.


MAX_SIMILAR: Final = 20
"""Maximum number of similar questions that are answered together."""
_COPIED_FIELDS: Final = ("act", "answer", "other", "empty", "reason")
_ACTS: Final = ("approve", "refuse", "answer", "skip", None)


class _Outcome(Struct, frozen=True):
    """The result of one of several answers. `votes` is set if other people still have to approve.
    `why` is the reason why the answer was not saved.
    """

    question: OpenQuestion
    votes: str = ""
    why: str = ""


def similar(question: OpenQuestion, others: Iterable[OpenQuestion]) -> list[OpenQuestion]:
    """Return a question and the questions that are similar to it: they have the same tool and kind.
    Questions in forms, secrets, results and reviews are answered one at a time.
    """
    if question.kind not in ("tool", "run") or question.form is not None or holds_secret(question):
        return [question]
    same = [
        each
        for each in others
        if each.id != question.id and _similarity_key(each) == _similarity_key(question)
    ]
    return [question, *same[: MAX_SIMILAR - 1]]


def _similarity_key(question: OpenQuestion) -> object:
    asker = question.asker.name if question.asker else ""
    asked = question.question
    return (
        question.kind,
        question.tool,
        question.source,
        asker,
        question.question_id,
        question.form,
        asked.answer_type,
        asked.optional,
    )


async def several(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Show similar questions together, or answer the selected questions."""
    found = await site.board.find(request.path_params["id"])
    if found is None:
        return await _render_closed(_Visit(request, visitor, site))
    waits = await site.board.waiting()
    every = similar(found, waits.questions)
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
        return page(
            request, "several.html", {**values, "every": await _visible_pages(site, visitor, every)}
        )
    sent = await read_fields(request)
    problems, outcomes = await _answer_all(
        site, visitor, [each for each in every if each.id in sent.all("question")], sent
    )
    if problems:
        shown = await _visible_pages(site, visitor, every)
        return page(
            request,
            "several.html",
            {**values, "every": shown, "problems": problems, "reason": sent.text("reason")},
            422,
        )
    return page(request, "several.html", {**values, "outcomes": outcomes})


async def _visible_pages(
    site: AppState, visitor: Visitor, every: Iterable[OpenQuestion]
) -> list[tuple[OpenQuestion, ShownPage]]:
    """Return each question with the content of its page. Closed questions are left out."""
    found: list[tuple[OpenQuestion, ShownPage]] = []
    for each in every:
        with suppress(AlreadyAnswered, NotOpen):
            found.append((each, await PageVisit(site, each, visitor).shown()))
    return found


def _voters(site: AppState, question: OpenQuestion) -> list[str]:
    """Return the names of the people who approved. People who are no longer in the configuration
    are marked.
    """
    now = site.board.port.store.admission.people if question.request.configured else None
    names = question.whose.voters if question.whose else ()
    return [
        f"{name} (has left)" if now and now.people and not now.has_person(name) else name
        for name in names
    ]


async def _answer_all(
    site: AppState, visitor: Visitor, chosen: Sequence[OpenQuestion], sent: Fields
) -> tuple[Sequence[Problem], Sequence[_Outcome]]:
    """Answer the questions one after the other. If the answer is invalid for the first question, no
    answers are recorded.
    """
    if not chosen or sent.one("act") not in _ACTS:
        return [Problem("", "Select at least one question and an answer.")], ()
    outcomes: list[_Outcome] = []
    for each in chosen:
        fields = Fields(
            {name: sent.all(name) for name in _COPIED_FIELDS if name in sent}
            | {"about": sent.all(f"about-{each.id}")}
        )
        try:
            came_to = await PageVisit(site, each, visitor).act(fields)
            outcomes.append(
                _Outcome(each, votes=came_to.votes if isinstance(came_to, Receipt) else "")
            )
        except PageAgain as misfit:
            if not outcomes:
                return misfit.problems, ()
            outcomes.append(
                _Outcome(each, why=" ".join(problem.message for problem in misfit.problems))
            )
        except (AlreadyAnswered, NotOpen, NotAllowed, StoreError, PersonNeeded) as error:
            outcomes.append(_Outcome(each, why=str(error)))
    return (), outcomes
