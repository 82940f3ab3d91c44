"""What all pages of one inbox share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response

from midturn.question.answer import Answered
from midturn.record.open_question import OpenQuestion
from midturn.web.board import Board
from midturn.web.gate import Access, Visitor
from midturn.web.library import Library
from midturn.web.repeats import Repeats
from midturn.web.resuming import Vault

if TYPE_CHECKING:
    from midturn.web.push import Push  # its libraries are an extra


class Resumer(Protocol):
    """Goes on with turns of which a question was answered."""

    def begin(self) -> None:
        """Look for such turns from now on."""
        ...

    def nudge(self) -> None:
        """Look for such turns now."""
        ...

    async def give(self, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None) -> None:
        """Go on with a turn, and hand it what was typed, secrets among it."""
        ...

    def waits_for(self, question: OpenQuestion) -> bool:
        """Say whether a turn that runs here waits for the answer to a question, and can be given a secret."""
        ...

    async def stop(self) -> None:
        """Stop: a step that runs may finish, its turn stays open."""
        ...


class Site(Struct, frozen=True, kw_only=True):
    """`resumer` is None where turns are left to others; `signs_in` says whether the sign-in is ours, too (else the program's).

    `notifying` runs beside the pages; `push` is there where browsers are told whose page is closed.
    `secrets`: True takes them over any line, False over none; None where no one else can read them.
    `root` is the workspace, where tools keep a diff that is too long for its question.
    `elsewhere` says where a secret is answered that is not taken here; `{id}` stands for the question.
    """

    board: Board
    library: Library
    access: Access
    resumer: Resumer | None = None
    title: str = "midturn"
    signs_in: bool = False
    secrets: bool | None = None
    notifying: Callable[[Board], Coroutine[Any, Any, None]] | None = None
    push: Push | None = None
    elsewhere: str = "Answer it where the turn runs, in its program or at its terminal."
    root: Path | None = None
    vault: Vault = field(default_factory=Vault)
    repeats: Repeats = field(default_factory=Repeats)


Handler = Callable[[Request, Visitor], Awaitable[Response]]
