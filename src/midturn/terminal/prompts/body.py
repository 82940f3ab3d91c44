"""The rows above a question: its context and the subject of an approval. Each row begins with a
gutter, such as `| `.
"""

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
from midturn.terminal.prompts.keys import (
    DIFFS,
    code_line,
    diff_line,
    label,
    one_line,
    pretty,
    preview_lines,
    question_line,
    shown_lines,
)

ROWS_SHOWN = 120
PLAIN_GUTTER = "| "
QUOTE = "> "
"""Prefix of the rows that a reviewer model wrote, after the gutter."""

INDENT = "    "
CREATES_FILES = "fs_create_file"

_MAX_ONE_LINE_JSON = 60


def own_context(prompt: Prompt) -> str:
    """Return the question's context without the reviewer's verdict at its start."""
    context = prompt.question.context or ""
    return context.removeprefix(prompt.verdict).lstrip("\n") if prompt.verdict else context


def verdict_lines(prompt: Prompt) -> list[str]:
    """Return the reviewer's verdict with every character visible, so that the verdict cannot
    imitate other output.
    """
    return shown_lines(prompt.verdict.rstrip("\n")) if prompt.verdict else []


def context_lines(prompt: Prompt) -> list[str]:
    """Return the displayable lines of the context: prose unchanged, code and diffs with every
    character visible.
    """
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
    """Return the lines of the subject of an approval: arguments, a result, or the answers of a
    form.
    """
    match prompt.subject:
        case None:
            return []
        case CallSubject(call, original) if (
            original is UNSET and _has_difference(prompt) and _is_new_file(call)
        ):
            return _new_file(call)[:1]  # the context shows the diff to the existing file
        case CallSubject(call):
            return argument_lines(call)
        case ResultSubject(content=content, is_error=is_error, images=images):
            pictures = [f"(and a picture: {image.media_type})" for image in images]
            return [
                *(["(the tool reports an error)"] if is_error else []),
                *shown_lines(content.rstrip("\n")),
                *pictures,
            ]
        case FormSubject():
            return _answer_lines(prompt.subject)
        case _ as other:
            assert_never(other)


def _has_difference(prompt: Prompt) -> bool:
    """Return whether the context contains a diff, which shows the content to be written."""
    return any(
        line.lstrip().startswith("```") and line.strip(" `\r") in DIFFS
        for line in own_context(prompt).split("\n")
    )


def argument_lines(call: ToolCall) -> list[str]:
    """Return the lines of a call's arguments: file changes as a diff, other arguments by name."""
    arguments = call.arguments
    if not isinstance(arguments, Mapping):
        return [exact(line) for line in pretty(arguments).split("\n")]
    if _is_new_file(call):
        return _new_file(call)
    if change := change_of(arguments):
        return [*_named_lines(change.rest), *change.lines]
    return _named_lines(arguments)


def change_of_call(call: ToolCall) -> FileChanges | None:
    """Return the file change that is displayed instead of the arguments, or None if the arguments
    are displayed by name.
    """
    return None if _is_new_file(call) else change_of(call.arguments)


def exact_lines(call: ToolCall) -> list[str]:
    """Return a call's arguments by name, exactly as they are sent."""
    arguments = call.arguments
    return _named_lines(arguments) if isinstance(arguments, Mapping) else argument_lines(call)


def _named_lines(arguments: Mapping[str, Json]) -> list[str]:
    return [line for name, value in arguments.items() for line in _argument(one_line(name), value)]


def _is_new_file(call: ToolCall) -> bool:
    arguments = call.arguments
    if (
        call.name != CREATES_FILES
        or not isinstance(arguments, Mapping)
        or set(arguments) != {"path", "content"}
    ):
        return False
    return all(isinstance(one, str) for one in arguments.values())


def _new_file(call: ToolCall) -> list[str]:
    """Return a new file as added lines."""
    path, content = (
        str(cast("Mapping[str, Json]", call.arguments)[name]) for name in ("path", "content")
    )
    lines = content.removesuffix("\n").split("\n") if content else []
    size = (
        f"{len(lines)} line{'' if len(lines) == 1 else 's'},"
        f" {len(content.encode(errors='replace'))} bytes"
    )
    ends = [] if content.endswith("\n") or not content else ["\\ no line break at the end"]
    return [f"{exact(path)} ({size})", *(f"+{code_line(line)}" for line in lines), *ends]


def _argument(name: str, value: Json) -> list[str]:
    """Return one argument.

    Multi-line text is displayed below the name, any other value on the same line.
    """
    if isinstance(value, str) and (_is_plain(value) or "\n" in value):
        if "\n" not in value:
            return [f"{name}: {exact(value)}"]
        return [f"{name}:", *(f"{INDENT}{line}" for line in shown_lines(value.removesuffix("\n")))]
    first, *more = pretty(value).split("\n")
    if not more or len(compact(value)) <= _MAX_ONE_LINE_JSON:
        return [f"{name}: {exact(compact(value))}"]
    return [f"{name}: {exact(first)}", *(exact(line) for line in more)]


def body_rows(prompt: Prompt, width: int, gutter: str) -> list[str]:
    """Wrap context and subject into rows after a gutter.

    Prose and answers are wrapped at spaces, other subjects at any character.
    """
    room = max(1, width - len(gutter))
    quoted = [
        row
        for line in verdict_lines(prompt)
        for row in continued_rows(line, max(1, room - len(QUOTE)))
    ]
    context = [row for line in context_lines(prompt) for row in wrap(line, room)]
    broken = continued_words if isinstance(prompt.subject, FormSubject) else continued_rows
    exactly = [row for line in subject_lines(prompt) for row in broken(line, room)]
    said = [*(QUOTE + row for row in quoted), *([""] if quoted and (context or exactly) else [])]
    between = [""] if context and exactly else []
    return [(gutter + row).rstrip(" ") for row in (*said, *context, *between, *exactly)]


def preview_rows(prompt: Prompt, width: int, gutter: str, most: int | None = None) -> list[str]:
    """Return the previews of all options, each below the label of its option and after a gutter.

    Args:
        prompt: The prompt.
        width: Width in cells.
        gutter: Start of each row of a preview.
        most: Maximum number of rows of one preview. Default: no limit.
    """
    kind = prompt.question.answer_type
    options = kind.options if isinstance(kind, SelectType | MultiSelectType) else ()
    rows: list[str] = []
    for option in options:
        if option.preview:
            rows += [
                *hang(f"{label(option)}:", width, "  "),
                *preview_of(option, width, gutter, most),
            ]
    return rows


def preview_of(option: SelectOption, width: int, gutter: str, most: int | None = None) -> list[str]:
    """Return the rows of an option's preview after a gutter, at most `most`."""
    room = max(1, width - len(gutter))
    rows = [
        f"{gutter}{part}".rstrip(" ")
        for line in preview_lines(option)
        for part in continued_rows(line, room)
    ]
    return (
        rows
        if most is None or len(rows) <= most
        else [*rows[: most - 1], f"{gutter}... {len(rows) - most + 1} more rows"]
    )


def question_rows(prompt: Prompt, width: int) -> list[str]:
    """Wrap the question. The second and later rows are indented."""
    return hang(question_line(prompt), width, "  ")


def rows_shown(count: int, height: int = 0) -> int:
    """Return the number of rows, out of `count`, that are printed above a question.

    All rows are printed if they take at most two thirds of a screen with `height` rows. Otherwise
    one third of the screen is used, so that the question stays visible. Without a screen, the limit
    is `ROWS_SHOWN`.
    """
    if not height:
        return min(count, ROWS_SHOWN)
    return count if count <= height * 2 // 3 else max(1, height // 3)


def more_rows(sign: str, cut: int, keys: str, width: int) -> list[str]:
    """Return a note that rows were left out, with the keys that show them."""
    return hang(f"{sign} {cut} more lines, {keys} to view", width, "  ") if cut else []


def _is_plain(text: str) -> bool:
    """Return whether a text can be displayed without quotes.

    Text needs quotes if it is empty, starts or ends with a space, or is valid JSON, such as `12` or
    `true`.
    """
    if text != text.strip() or not text:
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def _answer_lines(subject: FormSubject) -> list[str]:
    """Return the answers in a form, without questions that their `when` skipped."""
    return [
        f"{number}. {_answer_line(subject, place)}"
        for number, place in enumerate(reviewed_places(subject), 1)
    ]


def _answer_line(subject: FormSubject, place: int) -> str:
    question = subject.questions[place]
    return f"{one_line(question.text)} {value_text(question, subject.answers[question.id])}"
