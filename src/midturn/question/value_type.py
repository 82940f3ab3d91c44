"""The choice between msgspec and Pydantic for a Python type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import get_args, get_type_hints

from midturn.question.python_types import PlainType, ValueType


def value_type(annotation: object) -> ValueType:
    """Return how a type is described and read; the same object for the same type, for some take a while to make.

    Raises:
        TypeError: Pydantic is needed to read it, and is not installed or refuses it.
    """
    try:
        return _made_once(annotation)
    except TypeError:  # it has no hash, or cannot be read: then this says so
        return _made(annotation)


def _made(annotation: object) -> ValueType:
    if not _needs_pydantic(annotation):
        return PlainType(annotation)
    from midturn.question.pydantic_type import PydanticType

    return PydanticType(annotation)


_made_once = lru_cache(maxsize=256)(_made)


def _needs_pydantic(annotation: object) -> bool:
    """Say whether Pydantic has to read this type: a model, a `Field` or a constraint of `annotated_types` in it."""
    return any(map(_is_pydantic, _parts(annotation, set())))


def _is_pydantic(part: object) -> bool:
    return hasattr(part, "__pydantic_validator__") or type(part).__module__.partition(".")[0] in ("pydantic", "annotated_types")


def _parts(annotation: object, seen: set[int]) -> Iterator[object]:
    """Walk through a type and everything that it is made of."""
    if id(annotation) in seen:
        return
    seen.add(id(annotation))
    yield annotation
    yield from getattr(annotation, "__metadata__", ())
    inside: Sequence[object] = get_args(annotation)
    if isinstance(annotation, type) and hasattr(annotation, "__annotations__") and not hasattr(annotation, "__pydantic_validator__"):
        inside = list(get_type_hints(annotation, include_extras=True).values())
    for part in inside:
        yield from _parts(part, seen)
