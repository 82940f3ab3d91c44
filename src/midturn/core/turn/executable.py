"""What a program is given as its arguments: nothing that does something where it is shown, whoever shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from midturn.core.json_value import Json, pointer_to

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All controls but the ends of lines and tabs, which texts need."""


def control_problem(arguments: Json) -> str | None:
    """Say where a call's arguments have a control character; None where they have none."""
    return next((f"{pointer or 'the text'} has the control character U+{ord(found):04X}" for pointer, found in _controls(arguments)), None)


def _controls(arguments: Json) -> Iterator[tuple[str, str]]:
    """Yield where a control character stands, and which; of a key, the pointer is that of its object."""
    todo: list[tuple[str, Json]] = [("", arguments)]
    while todo:
        pointer, value = todo.pop()
        match value:
            case str():
                if found := _CONTROL.search(value):
                    yield pointer, found[0]
            case Mapping():
                yield from ((pointer or "/", found[0]) for key in value if (found := _CONTROL.search(key)))
                todo += [(pointer_to(pointer, key), member) for key, member in value.items()]
            case list() | tuple():
                todo += [(pointer_to(pointer, place), member) for place, member in enumerate(value)]
            case _:
                pass
