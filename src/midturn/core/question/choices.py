"""Checking what was chosen from options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeGuard, cast

from midturn.core.json_value import Json, Scalar, json_equal, shown
from midturn.core.question.answer_type import MultiSelectType, SelectOption, SelectType, folded
from midturn.errors import AnswerError, Problem

_LISTED = 8  # options in a message


def chosen(kind: SelectType | MultiSelectType, value: Json, pointer: str = "") -> Json:
    """Return the option that `value` is, as it was declared, or the person's own words where they are allowed.

    Raises:
        AnswerError: It is neither.
    """
    if _is_scalar(value):
        for option in kind.options:
            if json_equal(option.value, value):
                return option.value
    elif kind.allow_other and _is_other(value):
        return value
    return _refuse(f"{shown(value)} is none of the options. Choose {_allowed(kind)}.{_nearest(kind.options, value)}", pointer)


def all_chosen(kind: MultiSelectType, value: Json) -> list[Json]:
    """Return the chosen options in the order in which they were declared, the person's own words last.

    Raises:
        AnswerError: It is not a list of options without repeats, or one of too few or too many.
    """
    if not isinstance(value, list | tuple):
        return _refuse(f"the answer must be an array of options, not {shown(value)}.")
    items = [chosen(kind, item, f"/{place}") for place, item in enumerate(cast("Sequence[Json]", value))]
    ordered: list[Json] = [
        option.value for option in kind.options if any(_is_scalar(item) and json_equal(item, option.value) for item in items)
    ]
    own_words = [item for item in items if not _is_scalar(item)]
    if len(ordered) + min(len(own_words), 1) < len(items):
        return _refuse("the answer names a choice twice. Name each once, and at most one `other`.")
    most = len(kind.options) + kind.allow_other if kind.max is None else kind.max
    if not kind.min <= len(items) <= most:
        return _refuse(f"{len(items)} {'choice is' if len(items) == 1 else 'choices are'} given; {_between(kind.min, most)} allowed.")
    return ordered + own_words


def option_of(options: Sequence[SelectOption], words: str) -> Scalar | None:
    """Return the option whose label these words are: exactly, or after NFKC, case folding and trimming."""
    exact = next((option.value for option in options if option.label == words), None)
    return exact if exact is not None else next((option.value for option in options if folded(option.label) == folded(words)), None)


def _is_scalar(value: Json) -> TypeGuard[Scalar]:
    return isinstance(value, (bool, int, float, str))


def _is_other(value: Json) -> bool:
    """Tell whether this is `{"other": "<text>"}` with something in it."""
    if not isinstance(value, Mapping) or set(value) != {"other"}:
        return False
    words = value["other"]
    return isinstance(words, str) and bool(words.strip())


def _allowed(kind: SelectType | MultiSelectType) -> str:
    """List the options, as many as a message bears."""
    first = ", ".join(shown(option.value) for option in kind.options[:_LISTED])
    more = f" … ({len(kind.options)} options)" if len(kind.options) > _LISTED else ""
    return f"{first}{more}" + (', or {"other": "<text>"}' if kind.allow_other else "")


def _nearest(options: Sequence[SelectOption], value: Json) -> str:
    """Name the option that was probably meant."""
    meant = option_of(options, SelectOption(value).label) if _is_scalar(value) else None
    return "" if meant is None else f" Did you mean {shown(meant)}?"


def _between(least: int, most: int) -> str:
    if least < most:
        return f"{least} to {most} are"
    return f"exactly {least} {'is' if least == 1 else 'are'}"


def _refuse(message: str, pointer: str = "") -> NoReturn:
    raise AnswerError([Problem(pointer, message)])
