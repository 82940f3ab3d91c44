"""The body above a question: its context and the subject of an approval, behind a gutter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import assert_never, cast

from msgspec import UNSET

from midturn.events.prompt import CallSubject, FormSubject, Prompt, ResultSubject, reviewed_places
from midturn.events.types import ToolCall
from midturn.question.answer_type import MultiSelectType, SelectOption, SelectType
from midturn.question.json_text import compact
from midturn.question.json_value import Json
from midturn.question.text import exact, prose
from midturn.terminal.prompts.answer_text import value_text
from midturn.terminal.prompts.cells import continued_rows, continued_words, hang, wrap
from midturn.terminal.prompts.changes import FileChanges, change_of
from midturn.terminal.prompts.keys import DIFFS, code_line, diff_line, label, one_line, pretty, preview_lines, question_line, shown_lines

ROWS_SHOWN = 120
PLAIN_GUTTER = "| "
QUOTE = "> "
"""Prefix of a reviewer's words, behind the gutter."""

INDENT = "    "
CREATES_FILES = "fs_create_file"

_LONGEST_IN_A_ROW = 60


def own_context(prompt: Prompt) -> str:
    """Return the question's context without what a reviewer said, which stands at its beginning."""
    context = prompt.question.context or ""
    return context.removeprefix(prompt.verdict).lstrip("\n") if prompt.verdict else context


def verdict_lines(prompt: Prompt) -> list[str]:
    """Return what a reviewer said, character by character: nothing in it can look like something else on the screen."""
    return shown_lines(prompt.verdict.rstrip("\n")) if prompt.verdict else []


def context_lines(prompt: Prompt) -> list[str]:
    """Return the lines of the question's context, fit to be shown: prose as prose, code and diffs character by character."""
    context = own_context(prompt)
    lines: list[str] = []
    shown: Callable[[str], str] | None = None
    for line in context.rstrip("\n").split("\n"):
        if line.lstrip().startswith("```"):
            shown = None if shown else diff_line if line.strip(" `\r") in DIFFS else code_line
            lines.append(exact(line.removesuffix("\r")))
        else:
            lines.append(shown(line) if shown else prose(line.removesuffix("\r")))
    return lines if context else []


def subject_lines(prompt: Prompt) -> list[str]:
    """Return the lines of what is to be approved: arguments, a result, or all answers of a form."""
    match prompt.subject:
        case None:
            return []
        case CallSubject(call, original) if original is UNSET and _has_difference(prompt) and _is_new_file(call):
            return _new_file(call)[:1]  # the context has the difference to the file that is there
        case CallSubject(call):
            return argument_lines(call)
        case ResultSubject(content=content, is_error=is_error, images=images):
            pictures = [f"(and a picture: {image.media_type})" for image in images]
            return [*(["(the tool reports an error)"] if is_error else []), *shown_lines(content.rstrip("\n")), *pictures]
        case FormSubject():
            return _answer_lines(prompt.subject)
        case _ as other:
            assert_never(other)


def _has_difference(prompt: Prompt) -> bool:
    """Whether the context shows a difference, and so what would be written."""
    return any(line.lstrip().startswith("```") and line.strip(" `\r") in DIFFS for line in own_context(prompt).split("\n"))


def argument_lines(call: ToolCall) -> list[str]:
    """Show what a call would do: a new file and an edit of files as a diff, other arguments by name, text as text."""
    arguments = call.arguments
    if not isinstance(arguments, Mapping):
        return [exact(line) for line in pretty(arguments).split("\n")]
    if _is_new_file(call):
        return _new_file(call)
    if change := change_of(arguments):
        return [*_named_lines(change.rest), *change.lines]
    return _named_lines(arguments)


def change_of_call(call: ToolCall) -> FileChanges | None:
    """Return the change that the arguments of a call are shown as; None if they are shown by name."""
    return None if _is_new_file(call) else change_of(call.arguments)


def exact_lines(call: ToolCall) -> list[str]:
    """Show the arguments of a call by name, as they are sent."""
    arguments = call.arguments
    return _named_lines(arguments) if isinstance(arguments, Mapping) else argument_lines(call)


def _named_lines(arguments: Mapping[str, Json]) -> list[str]:
    return [line for name, value in arguments.items() for line in _argument(one_line(name), value)]


def _is_new_file(call: ToolCall) -> bool:
    arguments = call.arguments
    if call.name != CREATES_FILES or not isinstance(arguments, Mapping) or set(arguments) != {"path", "content"}:
        return False
    return all(isinstance(one, str) for one in arguments.values())


def _new_file(call: ToolCall) -> list[str]:
    """Show a file that does not exist yet as what is added."""
    path, content = (str(cast("Mapping[str, Json]", call.arguments)[name]) for name in ("path", "content"))
    lines = content.removesuffix("\n").split("\n") if content else []
    size = f"{len(lines)} line{'' if len(lines) == 1 else 's'}, {len(content.encode(errors='replace'))} bytes"
    ends = [] if content.endswith("\n") or not content else ["\\ no line break at the end"]
    return [f"{exact(path)} ({size})", *(f"+{code_line(line)}" for line in lines), *ends]


def _argument(name: str, value: Json) -> list[str]:
    """Show one argument: a text of several lines below its name, all else behind it."""
    if isinstance(value, str) and (_is_plain(value) or "\n" in value):
        if "\n" not in value:
            return [f"{name}: {exact(value)}"]
        return [f"{name}:", *(f"{INDENT}{line}" for line in shown_lines(value.removesuffix("\n")))]
    first, *more = pretty(value).split("\n")
    if not more or len(compact(value)) <= _LONGEST_IN_A_ROW:
        return [f"{name}: {exact(compact(value))}"]
    return [f"{name}: {exact(first)}", *(exact(line) for line in more)]


def body_rows(prompt: Prompt, width: int, gutter: str) -> list[str]:
    """Wrap context and subject into rows behind a gutter: prose and answers at their spaces, what is approved character by character."""
    room = max(1, width - len(gutter))
    quoted = [row for line in verdict_lines(prompt) for row in continued_rows(line, max(1, room - len(QUOTE)))]
    context = [row for line in context_lines(prompt) for row in wrap(line, room)]
    broken = continued_words if isinstance(prompt.subject, FormSubject) else continued_rows
    exactly = [row for line in subject_lines(prompt) for row in broken(line, room)]
    said = [*(QUOTE + row for row in quoted), *([""] if quoted and (context or exactly) else [])]
    between = [""] if context and exactly else []
    return [(gutter + row).rstrip(" ") for row in (*said, *context, *between, *exactly)]


def preview_rows(prompt: Prompt, width: int, gutter: str, most: int | None = None) -> list[str]:
    """Return the previews of all options, each below its label and behind a gutter.

    Args:
        prompt: The prompt.
        width: Width in cells.
        gutter: Start of each row of a preview.
        most: Maximum number of rows of one preview.
    """
    kind = prompt.question.answer_type
    options = kind.options if isinstance(kind, SelectType | MultiSelectType) else ()
    rows: list[str] = []
    for option in options:
        if option.preview:
            rows += [*hang(f"{label(option)}:", width, "  "), *preview_of(option, width, gutter, most)]
    return rows


def preview_of(option: SelectOption, width: int, gutter: str, most: int | None = None) -> list[str]:
    """Return the preview of an option in rows behind a gutter, at most `most` of them."""
    room = max(1, width - len(gutter))
    rows = [f"{gutter}{part}".rstrip(" ") for line in preview_lines(option) for part in continued_rows(line, room)]
    return rows if most is None or len(rows) <= most else [*rows[: most - 1], f"{gutter}... {len(rows) - most + 1} more rows"]


def question_rows(prompt: Prompt, width: int) -> list[str]:
    """Wrap the question; what does not fit into the first row stands indented."""
    return hang(question_line(prompt), width, "  ")


def rows_shown(count: int, height: int = 0) -> int:
    """Return how many of `count` rows are shown above a question.

    All are shown if they take at most two thirds of a screen with `height` rows, and else a third of it, so that the question does not come
    after a flood. Without a screen, the limit is `ROWS_SHOWN`.
    """
    if not height:
        return min(count, ROWS_SHOWN)
    return count if count <= height * 2 // 3 else max(1, height // 3)


def more_rows(sign: str, cut: int, keys: str, width: int) -> list[str]:
    """Say that something was cut off, and which keys show it."""
    return hang(f"{sign} {cut} more lines, {keys} to view", width, "  ") if cut else []


def _is_plain(text: str) -> bool:
    """Tell whether a text needs no quotes to be seen whole, and to be told from a number or `true`."""
    if text != text.strip() or not text:
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def _answer_lines(subject: FormSubject) -> list[str]:
    """Show what was answered; a question that was never asked, because of its `when`, is left out."""
    return [f"{number}. {_answer_line(subject, place)}" for number, place in enumerate(reviewed_places(subject), 1)]


def _answer_line(subject: FormSubject, place: int) -> str:
    question = subject.questions[place]
    return f"{one_line(question.text)} {value_text(question, subject.answers[question.id])}"
