"""An open question in a listing: who asks what, what is decided about, and which answers there are."""

from __future__ import annotations

import msgspec

from midturn.cli.shown import Shown, line
from midturn.core.question.answer_type import BooleanType, MultiSelectType, SelectType
from midturn.core.stream import OpenQuestion

_MOST_OPTIONS = 9
_LONGEST = 300  # characters of a call that is shown in a list


def question_rows(question: OpenQuestion) -> list[tuple[Shown, Shown]]:
    """Return the id with the question, and below it what is decided about."""
    form = line(" (a form of {} questions)", question.form.total) if question.form else line("")
    asked = line("{} asks: {}{}", question.source.header, question.question.text, form)
    return [(line("{}", question.id), asked), *((line(""), line("{}", about)) for about in _about(question))]


def _about(question: OpenQuestion) -> list[str]:
    """Say what is decided about: the arguments of a call that is to be approved, the options that there are."""
    arguments = [_shortened(msgspec.json.encode(question.arguments).decode())] if question.kind == "run" else []
    always = _always(question)
    kept = [f"always: {always}"] if always else []
    return [*arguments, *([f"[{allowed}]"] if (allowed := _allowed(question)) else []), *kept]


def _always(question: OpenQuestion) -> str:
    """Say what the agent that asks keeps of a yes, where it offers that."""
    return _shortened(question.asker.always) if question.asker and question.kind == "run" else ""


def _allowed(question: OpenQuestion) -> str:
    """Name the answers that there are, where they can be named."""
    if question.kind in ("run", "deliver"):
        return 'y | n | always | {"edit": …}' if _always(question) else 'y | n | {"edit": …}'
    match question.question.answer_type:
        case BooleanType():
            return "y | n"
        case SelectType() | MultiSelectType() as kind:
            named = [f"{number} {option.label}" for number, option in enumerate(kind.options[:_MOST_OPTIONS], 1)]
            rest = [f"… {len(kind.options)} in all"] if len(kind.options) > _MOST_OPTIONS else []
            return _shortened(" | ".join([*named, *rest, *(["--other TEXT"] if kind.allow_other else [])]))
        case _:
            return ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
