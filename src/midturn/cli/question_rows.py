"""An open question in a listing: who asks what, what is decided about, and which answers there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midturn.cli.shown import Shown, asked, joined, line
from midturn.core.events import AskedForm
from midturn.core.json_text import compact
from midturn.core.question import Question, When
from midturn.core.question.answer_type import BooleanType, MultiSelectType, PersistedType, SecretType, SelectType
from midturn.core.stream import OpenQuestion, holds_secret
from midturn.errors import QuestionError

_MOST_OPTIONS = 9
_LONGEST = 300  # characters of one row of a list


def question_rows(question: OpenQuestion) -> list[tuple[Shown, Shown]]:
    """Return the id with the question, and below it what is decided about."""
    from midturn.cli.decided_about import listed  # takes what prompts show: an empty inbox does without

    said = asked(question.question.text) if question.kind == "tool" else line("{}", question.question.text)
    head = line("{} asks: {}{}", question.source.header, said, _of_form(question))
    allowed = _allowed(question)
    problem = [line("An earlier answer was not accepted: {}", _shortened(question.problem))] if question.problem else []
    below = [*listed(question), *problem, *([line("[{}]", allowed)] if allowed else []), *_always_row(question), *_rest_of_form(question)]
    return [(line("{}", question.id), head), *((line(""), about) for about in below)]


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


def _questions(form: AskedForm) -> Sequence[Question[Any]]:
    """Read the questions of a form; none of one that this version cannot read."""
    from midturn.core.form import Form  # most questions are asked alone

    try:
        return Form.from_json(list[Mapping[str, Any]](form.questions)).questions
    except QuestionError:
        return ()


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
