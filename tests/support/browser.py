"""What tests in a browser share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Elsewhere: TypeAlias = Callable[[Coroutine[Any, Any, T]], T]
"""Runs something in a loop of its own, in another thread."""
