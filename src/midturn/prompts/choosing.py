"""Which options a typed line means: numbers as in the list, or names."""

from __future__ import annotations

import re
from typing import TypeAlias

from midturn.core.question.answer_type import MultiSelectType, SelectOption, folded
from midturn.prompts.accept import NotAccepted
from midturn.prompts.content import one_line, scalar_text

SelectOptions: TypeAlias = tuple[SelectOption, ...]

_NUMBER = re.compile(r"(\d{1,4})(\.?)", re.ASCII)
_NUMBERS = re.compile(r"(\d{1,4}\.?(\s*-\s*\d{1,4})?[\s,]*)+", re.ASCII)
_AROUND_DASH = re.compile(r"\s*-\s*")
_RANGE = re.compile(r"(\d{1,4})\s*-\s*(\d{1,4})", re.ASCII)


def choose(typed: str, options: SelectOptions) -> int:
    """Return the place of the one option that is meant: `2` or `2.` by number, `=2` or anything else by name.

    Raises:
        NotAccepted: Nothing is meant, or a number that is the name of another option.
    """
    named = _named(typed.removeprefix("="), options)
    number = _NUMBER.fullmatch(typed)
    place = int(number[1]) - 1 if number else None
    if place is None or not 0 <= place < len(options):
        if named is None:
            raise NotAccepted([f"{one_line(typed)} is not an option; type a number from 1 to {len(options)}, or ? for help."])
        return named
    if named is not None and named != place and number and not number[2]:
        raise NotAccepted([f"{typed} is a number and a name here: type {typed}. for the number, ={typed} for the name."])
    return place


def choose_many(typed: str, options: SelectOptions) -> frozenset[int]:
    """Return the places that are meant: `all`, `none`, or numbers, ranges and names with commas between.

    Raises:
        NotAccepted: A part means nothing.
    """
    word = typed.casefold()
    if word in {"all", "none"} and _named(typed, options) is None:
        return frozenset(range(len(options))) if word == "all" else frozenset()
    if _named(typed, options) is not None:
        return frozenset({choose(typed, options)})
    parts = [part.strip() for part in typed.split(",")]
    if _NUMBERS.fullmatch(typed) or all(_named(word, options) is not None for word in typed.replace(",", " ").split()):
        parts = _AROUND_DASH.sub("-", typed).replace(",", " ").split()
    return frozenset(place for part in parts if part for place in _part(part, options))


def bounds(kind: MultiSelectType) -> str:
    """Say how many may be chosen, where that is limited."""
    most = len(kind.options) + kind.allow_other
    if kind.max is None or kind.max >= most:
        return f"choose {kind.min} or more" if kind.min else ""
    if kind.min == kind.max:
        return f"choose {kind.min}"
    return f"choose {kind.min} to {kind.max}" if kind.min else f"choose up to {kind.max}"


def is_option(typed: str, options: SelectOptions) -> bool:
    """Tell whether typed words name an option."""
    return _named(typed, options) is not None


def _part(part: str, options: SelectOptions) -> list[int]:
    span = _RANGE.fullmatch(part)
    if span is None or _named(part, options) is not None:
        return [choose(part, options)]
    first, last = int(span[1]), int(span[2])
    if not 1 <= first <= last <= len(options):
        raise NotAccepted([f"{part} is not a range of numbers from 1 to {len(options)}."])
    return list(range(first - 1, last))


def _named(typed: str, options: SelectOptions) -> int | None:
    wanted = folded(typed)
    return next((place for place, option in enumerate(options) if folded(scalar_text(option.value)) == wanted), None)
