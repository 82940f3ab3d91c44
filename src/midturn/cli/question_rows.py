"""Rows that describe an open question in a list: the asker, the subject, and the possible answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, LiteralString, TextIO

from msgspec.structs import replace

from midturn.cli.output import (
    QUOTED,
    Shown,
    drawn,
    joined,
    line,
    moment,
    presented,
    room_behind,
    table,
)
from midturn.clock import now
from midturn.errors import QuestionError, StoreError
from midturn.events import types as ev
from midturn.events.open_question import SHORT_DIGEST, AskingAgent, OpenQuestion, holds_secret
from midturn.events.prompt import CallSubject, Prompt, ResultSubject, Subject
from midturn.events.transcript import ApprovalEntry, RequestEntry, transcript_entries
from midturn.events.types import ToolCall
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    PersistedType,
    SecretType,
    SelectType,
    When,
    has_previews,
)
from midturn.question.form import Form
from midturn.question.json_text import compact
from midturn.question.people import time_left
from midturn.question.walker import Cancelled
from midturn.stores.port import titles
from midturn.terminal.answer_notice import (
    answer_text,
    decision_text,
    reply_text,
    who_answered,
    who_decided,
)
from midturn.terminal.prompts.body import ROWS_SHOWN, context_lines, subject_lines
from midturn.turn.view import TurnView, why_superseded

if TYPE_CHECKING:
    from midturn.cli.command_context import CommandContext
    from midturn.question.question import Question
    from midturn.stores.watching import StoreChange
    from midturn.terminal.rendering import Drawing

_MAX_OPTIONS = 9
_MAX_ROW_LENGTH = 300  # maximum length of a row in a list, in characters


_PREVIEWS = "The options have previews. To see them, use `midturn answer` or the page."


def question_rows(
    question: OpenQuestion, stream: TextIO | None = None
) -> list[tuple[Shown, Shown]]:
    """Return the rows of a question: its ID and text, and the subject below them.

    The subject is formatted as in a prompt if `stream` is a suitable terminal.
    """
    text = line("{}", question.question.text)
    head = line("{} asks: {}{}", question.source.header, text, _of_form(question))
    allowed = _allowed(question)
    problem = (
        [line("An earlier answer was not accepted: {}", _shortened(question.problem))]
        if question.problem
        else []
    )
    until = (
        [line("Answer by {} ({}).", *_until(question, question.deadline))]
        if question.deadline
        else []
    )
    options = [line("[{}]", allowed)] if allowed else []
    options += (
        [line(_PREVIEWS)]
        if question.kind == "tool" and has_previews(question.question.answer_type)
        else []
    )
    assigned = question.whose.line if question.whose else ""
    whose = [line("{}.", f"{assigned[0].upper()}{assigned[1:]}")] if assigned else []
    whose += (
        [line("{}.", question.whose.not_told)] if question.whose and question.whose.not_told else []
    )
    below = [
        *listed(question, stream),
        *whose,
        *until,
        *problem,
        *options,
        *confirming(question),
        *_always_row(question),
    ]
    below += _rest_of_form(question)
    return [(line("{}", question.id), head), *((line(""), about) for about in below)]


def confirming(question: OpenQuestion) -> list[Shown]:
    """Return the command that approves only the displayed version.

    Return no rows if other people cannot change the question before it is approved.
    """
    if not question.needs_digest or (
        question.edit is not None and not question.edit.is_checked
    ):  # the question cannot be approved yet
        return []
    return [
        line(
            "To approve this version: midturn answer {} yes --digest {}",
            question.id,
            question.digest[:SHORT_DIGEST],
        )
    ]


def _until(question: OpenQuestion, deadline: str) -> tuple[str, str]:
    """Return the deadline and the remaining time."""
    return f"{datetime.fromisoformat(deadline).astimezone():%Y-%m-%d %H:%M:%S}", time_left(
        now(), question.asked_at, deadline
    )


def place_of(question: OpenQuestion) -> int:
    """Return the position of a question in its form, from 1."""
    ids = [asked.get("id") for asked in question.form.questions] if question.form else []
    return ids.index(question.question_id) + 1 if question.question_id in ids else 1


def _of_form(question: OpenQuestion) -> Shown:
    """Return the question's position in the form, or an empty string for a single question."""
    if question.form is None:
        return line("")
    if question.kind == "review":
        return line(" (review of a form with {} questions)", question.form.total)
    return line(" (question {} of {} in a form)", place_of(question), question.form.total)


def _always_row(question: OpenQuestion) -> list[Shown]:
    return [line("{}: {}", word, _shortened(kept)) for word, kept in _always(question)]


def _always(question: OpenQuestion) -> Sequence[tuple[str, str]]:
    """Return the standing permissions that the agent offers, each with the word to type."""
    offered = question.asker.always if question.asker and question.kind == "run" else ()
    return [
        ("always" if len(offered) == 1 else f"always {number}", kept)
        for number, kept in enumerate(offered, 1)
    ]


def _allowed(question: OpenQuestion) -> str:
    """Return a summary of the possible answers."""
    if question.kind in ("run", "deliver"):
        return " | ".join(("y", "n", *(word for word, _ in _always(question)), '{"edit": …}'))
    if question.kind == "review":
        return "y | --reply TEXT"
    if isinstance(question.question.answer_type, SecretType):
        return "a secret: omit VALUE and answer at a terminal"
    skips = "null" if question.question.optional else ""
    named = _options(question.question.answer_type) or "VALUE"
    return " | ".join(part for part in (named, skips, _whole_form(question)) if part)


def _options(kind: PersistedType) -> str:
    match kind:
        case BooleanType():
            return "y | n"
        case SelectType() | MultiSelectType():
            named = [
                f"{number} {option.label}"
                for number, option in enumerate(kind.options[:_MAX_OPTIONS], 1)
            ]
            rest = [f"… {len(kind.options)} in all"] if len(kind.options) > _MAX_OPTIONS else []
            return _shortened(
                " | ".join([*named, *rest, *(["--other TEXT"] if kind.allow_other else [])])
            )
        case _:
            return ""


def _whole_form(question: OpenQuestion) -> str:
    """Return a template for an object that answers the remaining questions of a form.

    Return an empty string if the form asks for a secret.
    """
    if question.form is None or question.kind != "tool" or holds_secret(question):
        return ""
    left = _questions(question.form)[place_of(question) - 1 :]
    return f"{{{', '.join(f'{compact(asked.id)}: …' for asked in left)}}}" if len(left) > 1 else ""


def _rest_of_form(question: OpenQuestion) -> list[Shown]:
    """Return the later questions of a form, each with its position, options and condition."""
    if question.form is None or question.kind != "tool":
        return []
    rest = list(enumerate(_questions(question.form), 1))[place_of(question) :]
    return [
        line("{}. {}{}{}", number, asked.text, _options_suffix(asked), _marks(asked))
        for number, asked in rest
    ]


def _options_suffix(question: Question[Any]) -> Shown:
    options = _options(question.answer_type)
    return line(" [{}]", options) if options else line("")


def _marks(question: Question[Any]) -> Shown:
    """Return the condition of a question, and whether it is optional."""
    marks = [
        *([_condition(question.when)] if question.when else []),
        *(["optional"] if question.optional else []),
    ]
    return line(" ({})", joined(", ", marks)) if marks else line("")


def _condition(when: When) -> str:
    return f"if {compact(when.question_id)} is {compact(when.equals)}"


def _questions(form: ev.FormAuthored) -> Sequence[Question[Any]]:
    """Return the questions in a form, or `()` if this version cannot read them."""
    try:
        return Form.from_record(list[Mapping[str, Any]](form.questions)).questions
    except QuestionError:
        return ()


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_ROW_LENGTH else f"{text[:_MAX_ROW_LENGTH]}…"


# --------------------------------------------------------------------------------------------------
# Rows for the subject of a question, each after a gutter: file changes, the arguments of a call, or
# a result


_MAX_LISTED_ROWS = 8


def listed(question: OpenQuestion, stream: TextIO | None = None) -> list[Shown]:
    """Return the first rows of the subject, for a list of questions."""
    rows = _drawn(question, stream, room_behind(question.id, stream))
    if rows is None:
        lines = _about(question)
        rows = [
            _quoted(text if len(text) <= _MAX_ROW_LENGTH else f"{text[:_MAX_ROW_LENGTH]}…")
            for text in lines
        ]
    more = len(rows) - _MAX_LISTED_ROWS
    left_out = (
        [line("({} more line{}; to see all: `midturn answer ID`)", more, "" if more == 1 else "s")]
        if more > 0
        else []
    )
    return [*rows[:_MAX_LISTED_ROWS], *left_out]


def answered(question: OpenQuestion, stream: TextIO | None = None) -> list[Shown]:
    """Return the subject of an answered yes/no question, or `[]` for other questions."""
    if not isinstance(question.question.answer_type, BooleanType):
        return []
    rows = _drawn(question, stream, room_behind("", stream))
    if rows is None:
        rows = list(map(_quoted, _about(question)))
    more = len(rows) - ROWS_SHOWN
    left_out = [line("({} more lines not shown)", more)] if more > 0 else []
    return [*rows[:ROWS_SHOWN], *left_out]


def _drawn(question: OpenQuestion, stream: TextIO | None, width: int) -> list[Shown] | None:
    """Draw the subject as in a prompt. Return None if plain text is configured."""
    prompt = _prompt(question)
    draws = drawing(stream) if prompt and (prompt.question.context or prompt.subject) else None
    if draws is None or prompt is None:
        return None
    if prompt.kind == "deliver":  # a result is shown as the context
        prompt = replace(prompt, question=replace(prompt.question, context=None))
    return [drawn(row) for row in draws.prompt(prompt, width)]


def _quoted(text: str) -> Shown:
    return presented(f"{QUOTED}{text}".rstrip())


def _about(question: OpenQuestion) -> list[str]:
    """Return the lines of the subject as in a prompt, without code fences."""
    prompt = _prompt(question)
    if prompt is None:
        return []
    context = [text for text in context_lines(prompt) if not text.lstrip().startswith("```")]
    return [
        *subject_lines(prompt),
        *(context if question.kind != "deliver" else ()),
    ]  # a result is shown as the context


def _prompt(question: OpenQuestion) -> Prompt | None:
    """Return the prompt for a question, or None if the question is invalid or from a
    newer version.
    """
    try:
        asked = question.question.asked(question.question_id)
    except QuestionError:
        return None
    return Prompt(
        question=asked,
        kind=question.kind,
        subject=_subject(question),
        tool=question.tool,
        arguments=question.arguments,
    )


def _subject(question: OpenQuestion) -> Subject | None:
    call = ToolCall("", "", question.tool, question.arguments)
    match question.kind:
        case "run":
            return CallSubject(call)
        case "deliver":
            return ResultSubject(call, question.content or "", is_error=bool(question.is_error))
        case _:
            return None


# --------------------------------------------------------------------------------------------------
# Outcome of a closed question: the answer, the responder, and the reason


_AT_TERMINAL = "(answered at its terminal)"


def how_closed(events: Sequence[ev.Event], question: str) -> str:
    """Return the outcome of a closed question as text, or an empty string if it is unknown.

    `question` is the event ID of the question.
    """
    turn = TurnView.of(events, question)
    if elsewhere := why_superseded(turn, question):
        return f"({elsewhere})"
    asked = next(
        (entry for entry in transcript_entries(turn.events) if entry.event.event_id == question),
        None,
    )
    if isinstance(asked, ApprovalEntry):
        decision = next((line for line in asked.thread if line.state != "waiting"), None)
        return (
            f"{decision_text(decision)}  {who_decided(decision) or _AT_TERMINAL}"
            if decision
            else ""
        )
    response = asked.response if isinstance(asked, RequestEntry) else None
    if not isinstance(asked, RequestEntry) or response is None:
        return ""
    if response.outcome != "cancelled":
        return f"{answer_text(asked.event, response)}  {_who(response)}"
    return (
        reply_text(_reply_words(events, asked.event, response))
        if response.reason == "reply"
        else ""
    )


def _reply_words(
    events: Sequence[ev.Event], request: ev.InquiryRequest, decision: ev.InquiryCancelled
) -> str:
    """Return the text of a reply.

    It is recorded in the metadata or in the call's result.
    """
    reply = (decision.metadata or {}).get("reply")
    if reply is not None:
        return str(reply or "")
    result = next(
        (result for result in ev.call_results(events) if result.call == request.call), None
    )
    cancelled = Cancelled.read(result.content) if result else None
    return (cancelled.reply if cancelled else None) or ""


def _who(decision: ev.InquiryAnswered | ev.InquiryRedacted) -> str:
    who: ev.AnsweredBy | None = decision.answered_by
    reason = decision.reason if decision.outcome == "answered" else None
    at_terminal = who is None or (who.by == "user" and who.via in (None, "terminal"))
    because = who_answered(who, reason)
    return f"{_AT_TERMINAL} {because}".rstrip() if at_terminal else because


def drawing(stream: TextIO | None) -> Drawing | None:
    """Return the renderer for the terminal of `stream`.

    Return None if `stream` is not a terminal or if plain text is configured.
    """
    if stream is None or not stream.isatty():
        return None
    from midturn.cli.loading import (
        settings_if_right,
    )  # imported lazily: not needed for other output
    from midturn.terminal.capabilities import choose_mode

    settings = settings_if_right()
    if choose_mode(settings.prompt.mode if settings else "auto", os.environ) == "plain":
        return None
    from midturn.terminal.rendering import Drawing

    return Drawing(stream)


# --------------------------------------------------------------------------------------------------
# Lists of questions with their conversations, and of changes


# maximum number of conversations whose titles are read; for further conversations, only the IDs are
# displayed
_MAX_TITLES = 100


def inbox_rows(place: CommandContext, questions: Sequence[OpenQuestion]) -> list[Shown]:
    """Return the rows of all questions."""
    titled = _titles(place, questions)
    return table(
        [
            row
            for question in questions
            for row in _placed_rows(question, titled.get(question.conversation, ""))
        ]
    )


def news(
    place: CommandContext, change: StoreChange, question: OpenQuestion | None
) -> Iterable[Shown]:
    """Return the rows that describe a change to a question."""
    text = question.question.text if question else ""
    match change.kind:
        case "asked" | "changed" if question:
            return table(
                _placed_rows(question, _titles(place, [question]).get(change.conversation, ""))
            )
        case "answered" | "withdrawn":
            return table([(line("{}", change.id), line("{}  {}", text, _closing(place, change)))])
        case "turn_ended":
            return [line("The turn of conversation {} has ended.", change.conversation)]
        case _:
            return []


def _closing(place: CommandContext, change: StoreChange) -> Shown:
    """Return the outcome of a closed question as text, if its conversation can still be read."""
    description = ""
    with suppress(StoreError):
        description = how_closed(
            place.store.read_sync(change.conversation).events, change.id.rpartition("-")[2]
        )
    return presented(description or f"({change.kind})")


def _placed_rows(question: OpenQuestion, title: str = "") -> list[tuple[Shown, Shown]]:
    named = line(" ({})", title) if title else line("")
    where = line(
        "in conversation {}, since {}{}", question.conversation, moment(question.asked_at), named
    )
    return [*question_rows(question, sys.stdout), (line(""), where), *_from(question.asker)]


def _titles(place: CommandContext, questions: Sequence[OpenQuestion]) -> dict[str, str]:
    """Return the titles of the conversations with these questions, by conversation ID."""
    asking = list(dict.fromkeys(question.conversation for question in questions))[:_MAX_TITLES]
    return place.run(titles(place.port, asking))


def _from(asker: AskingAgent | None) -> list[tuple[Shown, Shown]]:
    """Return rows about another agent: where it runs, and whether it is still waiting."""
    if asker is None:
        return []
    session = line(", session {}", asker.session) if asker.session else line("")
    waits = line(_waits(asker))
    more = (
        line("; further questions were rejected because it asked too many")
        if asker.refused
        else line("")
    )
    message = [(line(""), line("it said: {}", asker.said))] if asker.said else []
    return [
        (line(""), line("from {}{}; {}{}", asker.cwd or asker.name, session, waits, more)),
        *message,
    ]


def _waits(asker: AskingAgent) -> LiteralString:
    if asker.waits:
        return "it is waiting"
    if asker.cancelled:
        return "it cancelled its call"
    return (
        "it continued without an answer"
        if asker.left and asker.process
        else "its process has ended"
    )
