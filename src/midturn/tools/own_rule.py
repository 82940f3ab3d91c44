"""A tool's own rule for an answer, beyond the answer's type."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, cast

T = TypeVar("T")
Check: TypeAlias = Callable[[T], str | Awaitable[str | None] | None]
"""A rule: None where it holds, else the sentence that the person is shown."""


async def refused(check: Check[T], value: T) -> str | None:
    """Return what a rule says against an answer.

    Raises:
        TypeError: It says it in something that is no sentence.
    """
    said = check(value)
    sentence = await said if inspect.isawaitable(said) else said
    if sentence is None or isinstance(cast("object", sentence), str):
        return sentence
    raise TypeError(f"`check` returned a `{type(sentence).__name__}`; it returns None, or the sentence that the person is shown.")
