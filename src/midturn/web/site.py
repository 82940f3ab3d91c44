"""What all pages of one inbox share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from midturn.web.access import Access, Visitor
from midturn.web.board import Board
from midturn.web.library import Library


class Resumer(Protocol):
    """Goes on with turns of which a question was answered."""

    def begin(self) -> None:
        """Look for such turns from now on."""
        ...

    def nudge(self) -> None:
        """Look for such turns now."""
        ...

    async def stop(self) -> None:
        """Stop: a step that runs may finish, its turn stays open."""
        ...


class Site(Struct, frozen=True, kw_only=True):
    """`resumer` is None where turns are left to others; `is_ours` says whether the sign-in is ours, too (else the program's)."""

    board: Board
    library: Library
    access: Access
    resumer: Resumer | None = None
    title: str = "midturn"
    signs_in: bool = False


Handler = Callable[[Request, Visitor], Awaitable[Response]]
