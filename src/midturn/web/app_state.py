"""What all pages of one inbox share; an answer that is sent again, since its sender did not hear what became of it, is recorded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response

from midturn.events.open_question import OpenQuestion
from midturn.inbox.open_questions import Board
from midturn.inbox.resuming import Vault
from midturn.question.json_value import Json, canonical
from midturn.question.reply import Answered
from midturn.web.body import problem
from midturn.web.conversation_cache import Library
from midturn.web.gate import Access, Visitor

if TYPE_CHECKING:
    from midturn.web.push import Push  # its libraries are an extra


Name: TypeAlias = tuple[str, str, str]
"""Whose answer it is, to which question, and the key."""
_KEPT: Final = 1_000
_DONE: Final = 200


class Repeats:
    """Remembers what became of the last answers that came with a key of their sender: who sends one again hears the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Name, tuple[bytes, asyncio.Task[Response]]] = OrderedDict()

    async def once(
        self, name: tuple[str, str, str], body: Mapping[str, Json], work: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Do work once under a name, however often it is asked for; another body under the same name is refused."""
        written = canonical(body)
        kept, task = self._kept.get(name, (b"", None))
        if task is not None and kept != written:
            return problem(422, "key_reused", "This Idempotency-Key was sent with another answer. Nothing was recorded.", problems=[])
        if task is None:
            task = asyncio.create_task(work())
            self._kept[name] = written, task
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        response = await asyncio.shield(task)
        if response.status_code != _DONE:  # it may be sent again, and fit then
            self._kept.pop(name, None)
        return Response(response.body, response.status_code, media_type=response.media_type)


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
