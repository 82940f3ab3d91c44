"""What stands above a question: its context and what an approval is about, behind a gutter."""

from __future__ import annotations

import re
from typing import assert_never

from midturn.core.json_value import Json
from midturn.core.prompt import AnswersSubject, CallSubject, Prompt, ResultSubject
from midturn.core.visible import exact, prose
from midturn.prompts.answer_text import value_text
from midturn.prompts.cells import cut_rows, hang, wrap
from midturn.prompts.content import TAB_STOP, one_line, pretty, shown_lines, split_lines

ROWS_SHOWN = 120
PLAIN_GUTTER = "| "

_ESCAPED_BREAK = re.compile(r"(\\[^n])|\\n(?!\"?,?$)")


def context_lines(prompt: Prompt) -> list[str]:
    """Return the lines of the question's context, fit to be shown: prose as prose, code and diffs character by character."""
    lines: list[str] = []
    in_code = False
    for line in split_lines((prompt.question.context or "").rstrip("\n")):
        in_code ^= line.lstrip().startswith("```")
        lines.append(exact(line.expandtabs(TAB_STOP)) if in_code else prose(line))
    return lines if prompt.question.context else []


def subject_lines(prompt: Prompt) -> list[str]:
    """Return the lines of what is to be approved: arguments, a result, or all answers of a form."""
    match prompt.subject:
        case None:
            return []
        case CallSubject(call):
            return argument_lines(call.arguments)
        case ResultSubject(content=content, is_error=is_error):
            return [*(["(the tool reports an error)"] if is_error else []), *shown_lines(content.rstrip("\n"))]
        case AnswersSubject():
            return _answer_lines(prompt.subject)
        case _ as other:
            assert_never(other)


def argument_lines(arguments: Json) -> list[str]:
    r"""Show arguments as JSON that can be read back; a line break inside a string ends the line after its `\n`."""
    lines: list[str] = []
    for line in pretty(arguments).split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")) + 4)
        first, *more = _ESCAPED_BREAK.sub(_break_after, line).split("\0")
        lines += [exact(first), *(indent + exact(part) for part in more)]
    return lines


def body_rows(prompt: Prompt, width: int, gutter: str) -> list[str]:
    """Wrap context and subject into rows behind a gutter: prose at its spaces, what is approved character by character."""
    room = max(1, width - len(gutter))
    context = [row for line in context_lines(prompt) for row in wrap(line, room)]
    exactly = [row for line in subject_lines(prompt) for row in cut_rows(line, room)]
    between = [""] if context and exactly else []
    return [(gutter + row).rstrip(" ") for row in (*context, *between, *exactly)]


def question_rows(prompt: Prompt, width: int) -> list[str]:
    """Wrap the question; what does not fit into the first row stands indented."""
    return hang(one_line(prompt.question.text), width, "  ")


def more_rows(sign: str, cut: int, keys: str, width: int) -> list[str]:
    """Say that something was cut off, and which keys show it."""
    return hang(f"{sign} {cut} more rows not shown; {keys} views them", width, "  ") if cut else []


def _answer_lines(subject: AnswersSubject) -> list[str]:
    """Show what was answered; a question that was never asked, because of its `when`, is left out."""
    answers = subject.answers
    return [
        f"{one_line(question.text)} {value_text(question, answers[question.id])}"
        for question in subject.questions
        if question.id in answers and (answers[question.id] is not None or question.optional)
    ]


def _break_after(match: re.Match[str]) -> str:
    return match[0] if match[1] else f"{match[0]}\0"
