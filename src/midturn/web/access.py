"""Who may see the page: whoever holds the cookie, whoever a proxy names, or whoever the program around it says."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from msgspec import Struct
from starlette.requests import Request

from midturn.core.plain_text import check_text_or_none
from midturn.web.keyring import Keyring

WhoIsIt: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]


class Visitor(Struct, frozen=True):
    """Somebody who may see the page and answer; `name` is recorded with their answers, where it is known."""

    name: str | None = None


class Access(Protocol):
    """Tells who is there."""

    async def visitor(self, request: Request) -> Visitor | None:
        """Return who it is; None for somebody who may see nothing."""
        ...


class ProgramAccess:
    """The program around the page knows its people: `user(request)` names them, and None is nobody."""

    def __init__(self, user: WhoIsIt) -> None:
        self._user = user

    async def visitor(self, request: Request) -> Visitor | None:
        """Ask the program."""
        said = self._user(request)
        name = await said if inspect.isawaitable(said) else said
        check_text_or_none("user(request)", name)
        return None if name is None else Visitor(name)


class HeaderAccess:
    """A proxy that has signed people in names them in a header, which nobody else can set."""

    def __init__(self, header: str) -> None:
        self._header = header

    async def visitor(self, request: Request) -> Visitor | None:
        """Read the header."""
        names = request.headers.getlist(self._header)
        return Visitor(names[0]) if len(names) == 1 and names[0].strip() else None


class CookieAccess:
    """Whoever opened a one-time code has a cookie. `name` is who that is taken to be."""

    def __init__(self, keyring: Keyring, *, cookie: str, name: str | None = None, secure: bool = False) -> None:
        self.keyring = keyring
        self.cookie = cookie
        self.secure = secure
        self._name = name

    async def visitor(self, request: Request) -> Visitor | None:
        """Look for a cookie that is known."""
        token = request.cookies.get(self.cookie)
        return Visitor(self._name) if token and self.keyring.knows(token) else None
