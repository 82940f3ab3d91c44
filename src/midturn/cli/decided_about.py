"""What an open question is about, line by line behind a gutter: the change, the call with its arguments, the result."""

from __future__ import annotations

from midturn.cli.layout import QUOTED
from midturn.cli.shown import Shown, line, presented
from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import BooleanType
from midturn.core.stream import OpenQuestion
from midturn.core.subject import CallSubject, ResultSubject, Subject
from midturn.core.tool_call import ToolCall
from midturn.errors import QuestionError
from midturn.prompts.body import ROWS_SHOWN, context_lines, subject_lines

_LISTED = 8  # lines of one question in a list of many
_LONGEST = 300  # characters of such a line


def listed(question: OpenQuestion) -> list[Shown]:
    """Return the beginning of what a question is about, for a list in which it is one of many."""
    lines = _about(question)
    shown = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in lines[:_LISTED]]
    more = len(lines) - len(shown)
    left_out = [line("({} more line{}: `midturn answer ID` shows them)", more, "" if more == 1 else "s")] if more else []
    return [*map(_quoted, shown), *left_out]


def answered(question: OpenQuestion) -> list[Shown]:
    """Return what a yes or a no was said to; of other answers the words say enough."""
    if not isinstance(question.question.answer_type, BooleanType):
        return []
    lines = _about(question)
    more = len(lines) - ROWS_SHOWN
    left_out = [line("({} more lines are not shown)", more)] if more > 0 else []
    return [*map(_quoted, lines[:ROWS_SHOWN]), *left_out]


def _quoted(text: str) -> Shown:
    return presented(f"{QUOTED}{text}".rstrip())


def _about(question: OpenQuestion) -> list[str]:
    """Return all lines, as a prompt shows them but without the marks that fence code in."""
    try:
        asked = question.question.asked(question.question_id)
    except QuestionError:  # of a newer version, or damaged
        return []
    prompt = Prompt(question=asked, kind=question.kind, subject=_subject(question), tool=question.tool, arguments=question.arguments)
    context = [text for text in context_lines(prompt) if not text.lstrip().startswith("```")]
    return [*subject_lines(prompt), *(context if question.kind != "deliver" else ())]  # a result is its own context


def _subject(question: OpenQuestion) -> Subject | None:
    call = ToolCall("", "", question.tool, question.arguments)
    match question.kind:
        case "run":
            return CallSubject(call)
        case "deliver":
            return ResultSubject(call, question.content or "", is_error=bool(question.is_error))
        case _:
            return None
