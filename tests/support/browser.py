"""Helpers for browser tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from playwright.sync_api import Page

T = TypeVar("T")
Elsewhere: TypeAlias = Callable[[Coroutine[Any, Any, T]], T]
"""Runs a coroutine in a separate event loop, in another thread."""


def enter(page: Page, entrance: str) -> None:
    """Open an address with a sign-in code and press the button on its page."""
    page.goto(entrance)
    page.get_by_role("button", name="Sign in").click()
