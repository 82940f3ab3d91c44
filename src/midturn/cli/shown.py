"""Text that may go to a terminal: words of ours, and what came from outside through the one sink.

The types make sure of it: what is printed is a literal of this program, or a `Shown`. Only this module and `layout`, which cuts shown text
into rows, make one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import LiteralString

from midturn.core.visible import exact, exact_block, prose, worded


class Shown(str):
    """Text in which nothing acts on a terminal."""

    __slots__ = ()


def line(template: LiteralString, *fields: object) -> Shown:
    """Fill a template of ours (`{}` for each field); a field that is not `Shown` becomes one line in which every character is seen."""
    return Shown(template.format(*(field if isinstance(field, Shown) else exact(str(field)) for field in fields)))


def block(text: str) -> Shown:
    """Show several lines as they are (diffs, errors, results)."""
    return Shown(exact_block(text))


def spoken(text: str) -> Shown:
    """Show what a person or a model said."""
    return Shown(prose(text))


def asked(text: str) -> Shown:
    """Show the text of a question in one line: words for people, with the joiners that they need."""
    return Shown(worded(text))


def presented(text: str) -> Shown:
    """Take over what a presenter of a prompt has made fit to be shown; to show it once more would write its codes twice."""
    return Shown(text)


def joined(separator: LiteralString, parts: Iterable[str]) -> Shown:
    """Join parts; those that are not `Shown` are shown as one line each."""
    return Shown(separator.join(part if isinstance(part, Shown) else exact(part) for part in parts))
