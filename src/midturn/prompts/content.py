"""Strings from outside, on their way to the screen: everything that a prompt shows passes the one sink here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from msgspec import UNSET, UnsetType

from midturn.prompts.cells import steady
from midturn.question.answer_type import MultiSelectType, SelectOption, SelectType
from midturn.record.prompt import Prompt
from midturn.values.json_value import Json, compact, json_equal
from midturn.values.text import exact, worded

RETURN = "⏎"
TAB = "⇥"
DIFFS = frozenset({"diff", "patch"})
"""What a block of code is called that is a diff."""

TAB_STOP = 4
_OURS = {ord(sign): f"⟨U+{ord(sign):04X}⟩" for sign in (RETURN, TAB)}
"""From outside, these signs are written as codes, too: they stand for what they do."""


def one_line(text: str) -> str:
    """Show `text` in one line; a line break becomes a return sign, a tab `⇥`. No other text is shown so."""
    return _in_one_line(text, exact)


def words_line(text: str) -> str:
    """Show words for people, such as the text of a question, in one line: as `one_line` does, with the joiners that words need."""
    return _in_one_line(text, worded)


def question_line(prompt: Prompt) -> str:
    """Show in one line what is asked; what an approval asks may name what is approved, so it is exact."""
    return (words_line if prompt.kind in ("tool", "review") else one_line)(prompt.question.text)


def _in_one_line(text: str, show: Callable[[str], str]) -> str:
    return steady(f"{RETURN} ".join(TAB.join(show(part).translate(_OURS) for part in line.split("\t")) for line in text.split("\n")))


def shown_lines(text: str) -> list[str]:
    """Show `text` line by line, as `code_line` does."""
    return [code_line(line) for line in text.split("\n")]


def code_line(line: str) -> str:
    """Show a line so that no other line looks like it: a tab is `⇥` up to the tab stop, a blank at its end is a code."""
    ends_blank = line.endswith(" ")
    shown, at = "", 0
    first, *more = (line[:-1] if ends_blank else line).split("\t")
    for part, begins in ((first, ""), *((part, TAB) for part in more)):
        shown += begins.ljust(TAB_STOP - at % TAB_STOP) if begins else ""
        at += TAB_STOP - at % TAB_STOP if begins else 0
        shown += exact(part).translate(_OURS)
        at += len(part)
    return f"{shown}⟨U+0020⟩" if ends_blank else shown


def diff_line(line: str) -> str:
    """Show a line of a diff as `code_line` does: its first column is not text."""
    return exact(line[:1]) + code_line(line[1:])


def split_lines(text: str) -> list[str]:
    """Split at the line breaks that every program agrees about; others stay, and are made visible."""
    return text.replace("\r\n", "\n").split("\n")


def label(option: SelectOption) -> str:
    """Show an option's value: a string as it is, everything else as JSON."""
    return one_line(scalar_text(option.value))


def scalar_text(value: Json) -> str:
    """Return a string as it is and everything else as JSON: what is typed to name an option."""
    return value if isinstance(value, str) else compact(value)


def description(option: SelectOption) -> str:
    """Show what an option means, in one line; empty where nothing is said."""
    return one_line(option.description or "")


def pretty(value: Json) -> str:
    """Write JSON as a person edits it."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def asked_by(prompt: Prompt) -> str:
    """Show who asks: the header as it was computed from the source, never a configured name."""
    return one_line(prompt.asked_by or prompt.tool or "midturn")


def about(prompt: Prompt) -> str:
    """Say in one line who asks what."""
    return f"{asked_by(prompt)} asks: {question_line(prompt)}"


def quoted_label(prompt: Prompt) -> str:
    """Show a configured label that differs from the header, as quoted content; else nothing."""
    return f' "{one_line(prompt.label)}"' if prompt.label and prompt.label != prompt.asked_by else ""


def initial(prompt: Prompt) -> Json | UnsetType:
    """Return what the prompt starts from: the earlier answer after Back, else the default, else `UNSET`."""
    return prompt.question.default if prompt.prefill is UNSET else prompt.prefill


def yes_no_default(prompt: Prompt) -> bool | None:
    """Return what Enter answers to a yes/no question; nothing for an approval."""
    start = initial(prompt)
    return start if isinstance(start, bool) and prompt.kind == "tool" else None


def first_other(prompt: Prompt) -> str | None:
    """Return the words of the person's own that a list starts with."""
    start = initial(prompt)
    values = cast("Sequence[Json]", start) if isinstance(start, list | tuple) else () if start is UNSET else (start,)
    return next((text for value in values if (text := other_text(value)) is not None), None)


def skipped(prompt: Prompt) -> bool:
    """Tell whether the prompt starts from an answer that was no answer: the question was skipped before, or is by default."""
    return prompt.question.optional and initial(prompt) is None


def marked(prompt: Prompt) -> frozenset[int]:
    """Return the places of the options that are marked from the start."""
    options = prompt.question.answer_type.options if isinstance(prompt.question.answer_type, SelectType | MultiSelectType) else ()
    start = initial(prompt)
    values = start if isinstance(start, list | tuple) else [] if start is UNSET else [start]
    places = (position(options, value) for value in cast("Sequence[Json]", values))
    return frozenset(place for place in places if place is not None)


def other_text(value: Json) -> str | None:
    """Return the text of `{"other": "<text>"}`, else None."""
    if isinstance(value, Mapping) and set(value) == {"other"}:
        text = value["other"]
        return text if isinstance(text, str) else None
    return None


def position(options: tuple[SelectOption, ...], value: Json) -> int | None:
    """Return where the option with this value stands, else None."""
    return next((index for index, option in enumerate(options) if json_equal(option.value, value)), None)
