"""An open question in a listing: who asks what, what is decided about, and which answers there are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, LiteralString, TextIO

from msgspec.structs import replace

from midturn.cli.output import QUOTED, Shown, drawn, joined, line, moment, presented, room_behind, table
from midturn.clock import now
from midturn.errors import QuestionError, StoreError
from midturn.events import types as ev
from midturn.events.open_question import SHORT_DIGEST, Asker, OpenQuestion, holds_secret
from midturn.events.prompt import CallSubject, Prompt, ResultSubject, Subject
from midturn.events.transcript import ApprovalEntry, RequestEntry, told
from midturn.events.types import ToolCall
from midturn.question.answer_type import BooleanType, MultiSelectType, PersistedType, SecretType, SelectType, When, has_previews
from midturn.question.form import Form
from midturn.question.json_text import compact
from midturn.question.people import time_left
from midturn.question.walker import Cancelled
from midturn.stores.port import titles
from midturn.terminal.answer_notice import answer_text, decision_text, reply_text, who_answered, who_decided
from midturn.terminal.prompts.body import ROWS_SHOWN, context_lines, subject_lines
from midturn.turn.view import TurnView, why_superseded

if TYPE_CHECKING:
    from midturn.cli.command_context import Place
    from midturn.question.question import Question
    from midturn.stores.watching import StoreChange
    from midturn.terminal.rendering import Drawing

_MOST_OPTIONS = 9
_LONGEST = 300  # characters of one row of a list


_PREVIEWS = "The options have previews: `midturn answer` shows them, and so does the page."


def question_rows(question: OpenQuestion, stream: TextIO | None = None) -> list[tuple[Shown, Shown]]:
    """Return the id with the question, and below it what is decided about, drawn where it is for a `stream` to a terminal that can."""
    said = line("{}", question.question.text)
    head = line("{} asks: {}{}", question.source.header, said, _of_form(question))
    allowed = _allowed(question)
    problem = [line("An earlier answer was not accepted: {}", _shortened(question.problem))] if question.problem else []
    until = [line("To be answered by {} ({}).", *_until(question, question.deadline))] if question.deadline else []
    options = [line("[{}]", allowed)] if allowed else []
    options += [line(_PREVIEWS)] if question.kind == "tool" and has_previews(question.question.answer_type) else []
    whose = [line("It is {}.", question.whose.line)] if question.whose and question.whose.line else []
    whose += [line("{}.", question.whose.not_told)] if question.whose and question.whose.not_told else []
    below = [*listed(question, stream), *whose, *until, *problem, *options, *confirming(question), *_always_row(question)]
    below += _rest_of_form(question)
    return [(line("{}", question.id), head), *((line(""), about) for about in below)]


def confirming(question: OpenQuestion) -> list[Shown]:
    """Return how to say yes to exactly what is shown, if somebody else may change it before the answer arrives."""
    if not question.needs_digest or (question.edit is not None and not question.edit.is_checked):  # nobody can say yes yet
        return []
    return [line("Yes to exactly this: midturn answer {} yes --digest {}", question.id, question.digest[:SHORT_DIGEST])]


def _until(question: OpenQuestion, deadline: str) -> tuple[str, str]:
    """Say until when an answer counts, and how long that is."""
    return f"{datetime.fromisoformat(deadline).astimezone():%Y-%m-%d %H:%M:%S}", time_left(now(), question.asked_at, deadline)


def place_of(question: OpenQuestion) -> int:
    """Return which question of its form it is, counted from 1."""
    ids = [one.get("id") for one in question.form.questions] if question.form else []
    return ids.index(question.question_id) + 1 if question.question_id in ids else 1


def _of_form(question: OpenQuestion) -> Shown:
    """Say of which form it is a question; nothing where it is asked alone."""
    if question.form is None:
        return line("")
    if question.kind == "review":
        return line(" (the answers to a form of {} questions)", question.form.total)
    return line(" (question {} of a form of {})", place_of(question), question.form.total)


def _always_row(question: OpenQuestion) -> list[Shown]:
    return [line("{}: {}", word, _shortened(kept)) for word, kept in _always(question)]


def _always(question: OpenQuestion) -> Sequence[tuple[str, str]]:
    """Return what the agent that asks offers to keep of a yes, each with what is typed for it."""
    offered = question.asker.always if question.asker and question.kind == "run" else ()
    return [("always" if len(offered) == 1 else f"always {number}", kept) for number, kept in enumerate(offered, 1)]


def _allowed(question: OpenQuestion) -> str:
    """Name the answers that there are, where they can be named."""
    if question.kind in ("run", "deliver"):
        return " | ".join(("y", "n", *(word for word, _ in _always(question)), '{"edit": …}'))
    if question.kind == "review":
        return "y | --reply TEXT"
    if isinstance(question.question.answer_type, SecretType):
        return "a secret: without a VALUE, at a terminal"
    skips = "null" if question.question.optional else ""
    named = _options(question.question.answer_type) or "VALUE"
    return " | ".join(part for part in (named, skips, _whole_form(question)) if part)


def _options(kind: PersistedType) -> str:
    match kind:
        case BooleanType():
            return "y | n"
        case SelectType() | MultiSelectType():
            named = [f"{number} {option.label}" for number, option in enumerate(kind.options[:_MOST_OPTIONS], 1)]
            rest = [f"… {len(kind.options)} in all"] if len(kind.options) > _MOST_OPTIONS else []
            return _shortened(" | ".join([*named, *rest, *(["--other TEXT"] if kind.allow_other else [])]))
        case _:
            return ""


def _whole_form(question: OpenQuestion) -> str:
    """Show the map that answers all that is left of a form; a form with a secret is answered where its turn runs."""
    if question.form is None or question.kind != "tool" or holds_secret(question):
        return ""
    left = _questions(question.form)[place_of(question) - 1 :]
    return f"{{{', '.join(f'{compact(one.id)}: …' for one in left)}}}" if len(left) > 1 else ""


def _rest_of_form(question: OpenQuestion) -> list[Shown]:
    """Return what a form asks behind this question, each with its place, its answers, and when it is asked at all."""
    if question.form is None or question.kind != "tool":
        return []
    rest = list(enumerate(_questions(question.form), 1))[place_of(question) :]
    return [line("{}. {}{}{}", at, one.text, _options_behind(one), _mark(one)) for at, one in rest]


def _options_behind(question: Question[Any]) -> Shown:
    options = _options(question.answer_type)
    return line(" [{}]", options) if options else line("")


def _mark(question: Question[Any]) -> Shown:
    """Say that a question may be skipped, or under which answer it is asked."""
    marks = [*([_if(question.when)] if question.when else []), *(["optional"] if question.optional else [])]
    return line(" ({})", joined(", ", marks)) if marks else line("")


def _if(when: When) -> str:
    return f"if {compact(when.question_id)} is {compact(when.equals)}"


def _questions(form: ev.FormAuthored) -> Sequence[Question[Any]]:
    """Read the questions of a form; none of one that this version cannot read."""
    try:
        return Form.from_record(list[Mapping[str, Any]](form.questions)).questions
    except QuestionError:
        return ()


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


# ----------------------------------------------------------------------------------------------------------------------
# Subject of an open question, line by line behind a gutter: the change, the call with its arguments, the result


_LISTED = 8  # lines of one question in a list of many


def listed(question: OpenQuestion, stream: TextIO | None = None) -> list[Shown]:
    """Return the beginning of what a question is about, for a list in which it is one of many."""
    rows = _drawn(question, stream, room_behind(question.id, stream))
    if rows is None:
        lines = _about(question)
        rows = [_quoted(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…") for text in lines]
    more = len(rows) - _LISTED
    left_out = [line("({} more line{}: `midturn answer ID` shows them)", more, "" if more == 1 else "s")] if more > 0 else []
    return [*rows[:_LISTED], *left_out]


def answered(question: OpenQuestion, stream: TextIO | None = None) -> list[Shown]:
    """Return what a yes or a no was said to; of other answers the words say enough."""
    if not isinstance(question.question.answer_type, BooleanType):
        return []
    rows = _drawn(question, stream, room_behind("", stream))
    if rows is None:
        rows = list(map(_quoted, _about(question)))
    more = len(rows) - ROWS_SHOWN
    left_out = [line("({} more lines are not shown)", more)] if more > 0 else []
    return [*rows[:ROWS_SHOWN], *left_out]


def _drawn(question: OpenQuestion, stream: TextIO | None, width: int) -> list[Shown] | None:
    """Draw what a question is about as its prompt does; None where it is not drawn but listed."""
    prompt = _prompt(question)
    draws = drawing(stream) if prompt and (prompt.question.context or prompt.subject) else None
    if draws is None or prompt is None:
        return None
    if prompt.kind == "deliver":  # a result is its own context
        prompt = replace(prompt, question=replace(prompt.question, context=None))
    return [drawn(row) for row in draws.prompt(prompt, width)]


def _quoted(text: str) -> Shown:
    return presented(f"{QUOTED}{text}".rstrip())


def _about(question: OpenQuestion) -> list[str]:
    """Return all lines, as a prompt shows them but without the marks that fence code in."""
    prompt = _prompt(question)
    if prompt is None:
        return []
    context = [text for text in context_lines(prompt) if not text.lstrip().startswith("```")]
    return [*subject_lines(prompt), *(context if question.kind != "deliver" else ())]  # a result is its own context


def _prompt(question: OpenQuestion) -> Prompt | None:
    """Return the prompt that would ask it; None for a question of a newer version, or a damaged one."""
    try:
        asked = question.question.asked(question.question_id)
    except QuestionError:
        return None
    return Prompt(question=asked, kind=question.kind, subject=_subject(question), tool=question.tool, arguments=question.arguments)


def _subject(question: OpenQuestion) -> Subject | None:
    call = ToolCall("", "", question.tool, question.arguments)
    match question.kind:
        case "run":
            return CallSubject(call)
        case "deliver":
            return ResultSubject(call, question.content or "", is_error=bool(question.is_error))
        case _:
            return None


# ----------------------------------------------------------------------------------------------------------------------
# Closing of a question as a row of a listing: the answer, its giver, and the reason


_HERE = "(answered at its terminal)"


def how_closed(events: Sequence[ev.Event], question: str) -> str:
    """Say how the question whose request is the event `question` was closed; empty where its events do not tell."""
    turn = TurnView.of(events, question)
    if elsewhere := why_superseded(turn, question):
        return f"({elsewhere})"
    asked = next((entry for entry in told(turn.events) if entry.event.event_id == question), None)
    if isinstance(asked, ApprovalEntry):
        decision = next((line for line in asked.thread if line.state != "waiting"), None)
        return f"{decision_text(decision)}  {who_decided(decision) or _HERE}" if decision else ""
    response = asked.response if isinstance(asked, RequestEntry) else None
    if not isinstance(asked, RequestEntry) or response is None:
        return ""
    if response.outcome != "cancelled":
        return f"{answer_text(asked.event, response)}  {_who(response)}"
    return reply_text(_said(events, asked.event, response)) if response.reason == "reply" else ""


def _said(events: Sequence[ev.Event], request: ev.InquiryRequest, decision: ev.InquiryCancelled) -> str:
    """Return what was said in place of an answer: it stands there, or in the result of the call."""
    said = (decision.metadata or {}).get("reply")
    if said is not None:
        return str(said or "")
    result = next((result for result in ev.call_results(events) if result.call == request.call), None)
    cancelled = Cancelled.read(result.content) if result else None
    return (cancelled.reply if cancelled else None) or ""


def _who(decision: ev.InquiryAnswered | ev.InquiryRedacted) -> str:
    who: ev.AnsweredBy | None = decision.answered_by
    reason = decision.reason if decision.outcome == "answered" else None
    here = who is None or (who.by == "user" and who.via in (None, "terminal"))
    because = who_answered(who, reason)
    return f"{_HERE} {because}".rstrip() if here else because


def drawing(stream: TextIO | None) -> Drawing | None:
    """Return what draws on the terminal that `stream` goes to; None where it goes elsewhere, or plain lines are wanted."""
    if stream is None or not stream.isatty():
        return None
    from midturn.cli.loading import settings_if_right  # what is printed elsewhere needs no configuration, and loads nothing that draws
    from midturn.terminal.capabilities import choose_mode

    settings = settings_if_right()
    if choose_mode(settings.prompt.mode if settings else "auto", os.environ) == "plain":
        return None
    from midturn.terminal.rendering import Drawing

    return Drawing(stream)


# ----------------------------------------------------------------------------------------------------------------------
# The questions of a place, with where and for whom they wait, and what becomes of them


_MOST_TITLES = 100  # conversations whose titles are shown; of more than these only the id is


def inbox_rows(place: Place, questions: Sequence[OpenQuestion]) -> list[Shown]:
    """Return the rows of all of them, each below the other."""
    titled = _titles(place, questions)
    return table([row for question in questions for row in _placed_rows(question, titled.get(question.conversation, ""))])


def news(place: Place, change: StoreChange, question: OpenQuestion | None) -> Iterable[Shown]:
    """Return what a change of a question is, in rows."""
    text = question.question.text if question else ""
    match change.kind:
        case "asked" | "changed" if question:
            return table(_placed_rows(question, _titles(place, [question]).get(change.conversation, "")))
        case "answered" | "withdrawn":
            return table([(line("{}", change.id), line("{}  {}", text, _closed(place, change)))])
        case "turn_ended":
            return [line("The turn of conversation {} has ended.", change.conversation)]
        case _:
            return []


def _closed(place: Place, change: StoreChange) -> Shown:
    """Say how a question was closed; where its conversation is gone meanwhile, only that it was."""
    said = ""
    with suppress(StoreError):
        said = how_closed(place.store.read_sync(change.conversation).events, change.id.rpartition("-")[2])
    return presented(said or f"({change.kind})")


def _placed_rows(question: OpenQuestion, title: str = "") -> list[tuple[Shown, Shown]]:
    named = line(" ({})", title) if title else line("")
    where = line("in conversation {}, since {}{}", question.conversation, moment(question.asked_at), named)
    return [*question_rows(question, sys.stdout), (line(""), where), *_from(question.asker)]


def _titles(place: Place, questions: Sequence[OpenQuestion]) -> dict[str, str]:
    """Return the titles of the conversations that ask."""
    asking = list(dict.fromkeys(question.conversation for question in questions))[:_MOST_TITLES]
    return place.run(titles(place.port, asking))


def _from(asker: Asker | None) -> list[tuple[Shown, Shown]]:
    """Say from where another agent asks, and whether it still waits."""
    if asker is None:
        return []
    session = line(", session {}", asker.session) if asker.session else line("")
    waits = line(_waits(asker))
    more = line("; more of its questions were not taken, since it asked so many") if asker.refused else line("")
    said = [(line(""), line("it said: {}", asker.said))] if asker.said else []
    return [(line(""), line("from {}{}; {}{}", asker.cwd or asker.name, session, waits, more)), *said]


def _waits(asker: Asker) -> LiteralString:
    if asker.waits:
        return "it waits"
    if asker.cancelled:
        return "it has cancelled its call"
    return "it was told that this stays open" if asker.left and asker.process else "its process is gone"
