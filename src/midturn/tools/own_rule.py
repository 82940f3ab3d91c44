"""A tool's own rule for an answer, beyond the answer's type."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Check: TypeAlias = Callable[[T], str | Awaitable[str | None] | None]
"""A rule: None where it holds, else the sentence that the person is shown."""


async def refused(check: Check[T], value: T) -> str | None:
    """Return what a rule says against an answer."""
    said = check(value)
    return await said if inspect.isawaitable(said) else said
