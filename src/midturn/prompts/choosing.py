"""Which options a typed line means at a prompt in lines, and what is said where it means none."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from midturn.core.question import choosing
from midturn.core.question.answer_type import MultiSelectType
from midturn.core.question.choosing import NotChosen, SelectOptions, named_option
from midturn.prompts.accept import NotAccepted
from midturn.prompts.content import one_line


def choose(typed: str, options: SelectOptions) -> int:
    """Return the place of the one option that is meant (see `midturn.core.question.choosing`).

    Raises:
        NotAccepted: Nothing is meant, or a number that is the name of another option.
    """
    with _said(options):
        return choosing.choose(typed, options)


def choose_many(typed: str, options: SelectOptions) -> frozenset[int]:
    """Return the places that are meant (see `midturn.core.question.choosing`).

    Raises:
        NotAccepted: A part means nothing.
    """
    with _said(options):
        return choosing.choose_many(typed, options)


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
    return named_option(typed, options) is not None


@contextmanager
def _said(options: SelectOptions) -> Generator[None]:
    try:
        yield
    except NotChosen as error:
        typed = one_line(error.typed)
        if error.is_both:
            said = f"{typed} is a number and a name here: type {typed}. for the number, ={typed} for the name."
        elif error.is_range:
            said = f"{typed} is not a range of numbers from 1 to {len(options)}."
        else:
            said = f"{typed} is not an option; type a number from 1 to {len(options)}, or ? for help."
        raise NotAccepted([said]) from None
