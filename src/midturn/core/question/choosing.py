"""Which options a typed line means: numbers as in the list, or names."""

from __future__ import annotations

import re
from typing import TypeAlias

from midturn.core.question.answer_type import SelectOption, folded

SelectOptions: TypeAlias = tuple[SelectOption, ...]

_NUMBER = re.compile(r"(\d{1,4})(\.?)", re.ASCII)
_NUMBERS = re.compile(r"(\d{1,4}\.?(\s*-\s*\d{1,4})?[\s,]*)+", re.ASCII)
_AROUND_DASH = re.compile(r"\s*-\s*")
_RANGE = re.compile(r"(\d{1,4})\s*-\s*(\d{1,4})", re.ASCII)


class NotChosen(ValueError):  # noqa: N818 (it says what happened to the text)
    """What was typed means no option: it names none, is no range of them (`is_range`), or is a number and a name (`is_both`)."""

    def __init__(self, typed: str, *, is_both: bool = False, is_range: bool = False) -> None:
        self.typed = typed
        self.is_both = is_both
        self.is_range = is_range
        super().__init__(typed)


def choose(typed: str, options: SelectOptions) -> int:
    """Return the place of the one option that is meant: `2` or `2.` by number, `=2` or anything else by name.

    Raises:
        NotChosen: Nothing is meant, or a number that is the name of another option.
    """
    named = named_option(typed.removeprefix("="), options)
    number = _NUMBER.fullmatch(typed)
    place = int(number[1]) - 1 if number else None
    if place is None or not 0 <= place < len(options):
        if named is None:
            raise NotChosen(typed)
        return named
    if named is not None and named != place and number and not number[2]:
        raise NotChosen(typed, is_both=True)
    return place


def choose_many(typed: str, options: SelectOptions) -> frozenset[int]:
    """Return the places that are meant: `all`, `none`, or numbers, ranges and names with commas between.

    Raises:
        NotChosen: A part means nothing.
    """
    word = typed.casefold()
    if word in {"all", "none"} and named_option(typed, options) is None:
        return frozenset(range(len(options))) if word == "all" else frozenset()
    if named_option(typed, options) is not None:
        return frozenset({choose(typed, options)})
    parts = [part.strip() for part in typed.split(",")]
    if _NUMBERS.fullmatch(typed) or all(named_option(word, options) is not None for word in typed.replace(",", " ").split()):
        parts = _AROUND_DASH.sub("-", typed).replace(",", " ").split()
    return frozenset(place for part in parts if part for place in _part(part, options))


def named_option(typed: str, options: SelectOptions) -> int | None:
    """Return the place of the option that typed words name."""
    wanted = folded(typed)
    return next((place for place, option in enumerate(options) if folded(option.label) == wanted), None)


def _part(part: str, options: SelectOptions) -> list[int]:
    span = _RANGE.fullmatch(part)
    if span is None or named_option(part, options) is not None:
        return [choose(part, options)]
    first, last = int(span[1]), int(span[2])
    if not 1 <= first <= last <= len(options):
        raise NotChosen(part, is_range=True)
    return list(range(first - 1, last))
