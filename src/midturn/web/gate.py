"""Who may: the one place that says so. Every request passes these, in this order.

1. Its connection is its user's own, where the system tells: no other user's, and no tool's or agent's (`security.peer_credentials`).
2. It asks for the page under a name of its own (`Names`), once.
3. A write was sent by a page of ours, or by a program that is no browser.
4. Its body is small enough.
5. A person is behind it (`Access`): one with a sign-in, one whom a proxy names that shows its secret, or one whom the program around
   the page knows.

A sign-in is a cookie. A name that no other server of this machine has keeps it to ourselves. An address is shared by all of them, whatever
their port: there the cookie opens an empty page, and everything else takes the key that the page's script sends in a header.
"""

from __future__ import annotations

import inspect
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midturn.http_body import Bodies, BodyLimits, BodyRefused, admit
from midturn.http_server import connection_of
from midturn.question.text import canonical_name, check_text_or_none
from midturn.security.peer_credentials import Doubt
from midturn.web.body import FORM, problem, read_fields
from midturn.web.keyring import Keyring, SignIn

MOST_BYTES: Final = 2 * 1024 * 1024
KEY_HEADER: Final = "x-midturn-key"
KEY_FIELD: Final = "midturn_key"
PROXY_SECRET_HEADER: Final = "x-midturn-proxy-secret"  # noqa: S105  its name
WhoIsIt: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
Peers: TypeAlias = Literal["own", "forwarded", "any"]
_LOG = logging.getLogger("midturn.web")
_SHARED: Final = "midturn.shared_name"
_READS: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Names(Struct, frozen=True):
    """The names under which the page may be asked for, with their ports: its own ones, and those that it shares with other servers."""

    own: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()

    def __contains__(self, host: object) -> bool:
        return host in self.own or host in self.shared


def is_shared(host: str) -> bool:
    """Say whether other servers of the same machine have this name too, whose cookies ignore ports: an address, or `localhost`."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


# What a request has to be -----------------------------------------------------------------------------------------------------


class RequestGate:
    """Refuses connections that are not their user's own, requests under a foreign name, writes of other sites, bodies that are too large.

    `names` None leaves those to the program around it. Of `peers`, "forwarded" takes those, too, of which the system does not tell whose
    they are, and "any" asks nothing, where a proxy or a program stands in front.
    """

    def __init__(self, app: ASGIApp, names: Names | None, peers: Peers = "any", limits: BodyLimits | None = None) -> None:
        self._app = app
        self._names = names
        self._peers = peers
        self._bodies = Bodies(limits or BodyLimits(bytes=MOST_BYTES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = await self._doubted(scope) or self._refusal(scope, Headers(scope=scope))
        app = self._app if refusal is None else refusal
        async with self._bodies.limited(scope, receive) as limited:
            await app(scope, limited, _leaving(send))

    async def _doubted(self, scope: Scope) -> Response | None:
        connection = None if self._peers == "any" else connection_of(scope)
        doubt = await connection.doubt() if connection else None
        if doubt is None or (doubt.forwarded and self._peers == "forwarded"):
            return None
        return _refused(scope, 403, "not_your_own", told(doubt))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not scope["query_string"].isascii():  # whatever is not ASCII is escaped in an address
            return _refused(scope, 400, "not_readable", "This is not a valid address.")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or (self._names is not None and hosts[0].lower() not in self._names):
            return _refused(scope, 421, "not_here", "This page is not here under that name: the Host is not its own.")
        scope[_SHARED] = self._names is not None and hosts[0].lower() in self._names.shared
        if scope["method"] not in _READS and not self._comes_from_here(headers, hosts[0]):
            said = "Another site sent this, so nothing was done. Open the page itself, and try there."
            return _refused(scope, 403, "another_site", said)
        if _announced(headers) > MOST_BYTES:
            return too_large(scope)
        return None

    def _comes_from_here(self, headers: Headers, host: str) -> bool:
        """Say whether a write was sent by a page of ours, or by a program that is not a browser.

        A browser always says where a write comes from: in `Sec-Fetch-Site`, which no page can set, or, an older one, in `Origin`. (Under
        our referrer policy the latter is `null` for our own forms.) Only a program says neither, and no page can send JSON like one.
        """
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        named = origin not in (None, "null")
        if named and not self._is_ours(_split(origin or ""), host) and (self._names is not None or site is None):
            return False
        if site is not None:
            return site == "same-origin"
        return named or (origin is None and _media_type(headers) == "application/json")

    def _is_ours(self, origin: SplitResult, host: str) -> bool:
        ours = {host.lower()} if self._names is None else self._names
        return origin.scheme in {"http", "https"} and origin.netloc.lower() in ours


def has_shared_name(scope: Scope) -> bool:
    """Say whether a request came under a name that the page shares with other servers, which are sent its cookie."""
    return bool(scope.get(_SHARED))


def told(doubt: Doubt) -> str:
    """Say why a connection is refused, and what to do."""
    forwarded = " If it comes from your own browser through SSH or into a container, start `midturn serve --forwarded`."
    return (
        f"This page does not answer that program: {doubt.why}. Open the page in a browser that you have started yourself, not through an "
        f"agent or a tool.{forwarded if doubt.forwarded else ''}"
    )


# Who is behind it ---------------------------------------------------------------------------------------------------------------


class Visitor(Struct, frozen=True):
    """A person who may see the page and answer.

    Args:
        name: Recorded with their answers, where it is known.
        sign_in: Which of the sign-ins here it is.
    """

    name: str | None = None
    sign_in: SignIn | None = None


class Access(Protocol):
    """Tells who is there."""

    async def visitor(self, request: Request) -> Visitor | None:
        """Return who it is; None for a visitor who may see nothing."""
        ...

    def still(self, visitor: Visitor) -> bool:
        """Say whether who was there may still see what changes."""
        ...


def _is_name(name: str) -> bool:
    """Return whether a visitor can be known by this name: an empty one, or one with control characters, names no one."""
    try:
        canonical_name(name)
    except ValueError as error:
        _LOG.warning("a visitor is a stranger: %s", error)
        return False
    return True


class ProgramAccess:
    """The program around the page knows its people: `user(request)` names them; None, or an empty name, is a stranger."""

    def __init__(self, user: WhoIsIt) -> None:
        self._user = user

    async def visitor(self, request: Request) -> Visitor | None:
        """Ask the program."""
        said = self._user(request)
        name = await said if inspect.isawaitable(said) else said
        check_text_or_none("user(request)", name)
        return Visitor(name) if name is not None and _is_name(name) else None

    def still(self, visitor: Visitor) -> bool:
        """Ask again at the next request, which every stream comes to after a while."""
        del visitor
        return True


class HeaderAccess:
    """A proxy that has signed people in names them in a header, and shows a `secret`; None where no one else reaches us, over a socket."""

    def __init__(self, header: str, secret: str | None) -> None:
        self._header = header
        self._secret = None if secret is None else secret.encode()

    async def visitor(self, request: Request) -> Visitor | None:
        """Read the header."""
        shown = request.headers.getlist(PROXY_SECRET_HEADER)
        if self._secret is not None and not (len(shown) == 1 and compare_digest(shown[0].encode("utf-8", "replace"), self._secret)):
            return None
        names = request.headers.getlist(self._header)
        return Visitor(names[0]) if len(names) == 1 and _is_name(names[0]) else None

    def still(self, visitor: Visitor) -> bool:
        """Ask again at the next request, as above."""
        del visitor
        return True


class CookieAccess:
    """Who opened a one-time code has a sign-in. `name` is who that is taken to be."""

    def __init__(self, keyring: Keyring, *, cookie: str, name: str | None = None, secure: bool = False) -> None:
        self.keyring = keyring
        self.cookie = cookie
        self.secure = secure
        self._name = name

    async def visitor(self, request: Request) -> Visitor | None:
        """Look for a sign-in: by its key, or, under a name of our own, by its cookie."""
        sign_in = self.keyring.by_key(await _key(request))
        if sign_in is None and not has_shared_name(request.scope):
            found = self.by_cookie(request)
            sign_in = None if found is None or found.needs_key else found
        return Visitor(self._name, sign_in) if sign_in else None

    def still(self, visitor: Visitor) -> bool:
        """Say whether the sign-in holds."""
        return visitor.sign_in is not None and self.keyring.holds(visitor.sign_in.id)

    def by_cookie(self, request: Request) -> SignIn | None:
        """Return the sign-in of the cookie alone: at a shared name it opens the empty page, and nothing else."""
        return self.keyring.by_token(request.cookies.get(self.cookie, ""))


async def admitted(request: Request, access: Access) -> Visitor | None:
    """Return who is behind a request, and count the connection no more among those of strangers."""
    visitor = await access.visitor(request)
    if visitor:
        admit(request.scope)
        if connection := connection_of(request.scope):
            connection.release()
    return visitor


async def _key(request: Request) -> str:
    """Return the key that a request shows: in the header of the script, or in a field of a page that was opened without one."""
    if KEY_HEADER in request.headers:
        return request.headers[KEY_HEADER]
    if request.method != "POST" or not has_shared_name(request.scope) or _media_type(request.headers) != FORM:
        return ""
    return (await read_fields(request)).one(KEY_FIELD) or ""


# Refusals, and what every response leaves with ------------------------------------------------------------------------------------


def _split(origin: str) -> SplitResult:
    """Read an origin; None for anything else."""
    try:
        return urlsplit(origin)
    except ValueError:
        return SplitResult("", "", "", "", "")


def too_large(scope: Scope) -> Response:
    """Say that a body is too large."""
    return _refused(scope, 413, "too_large", f"This is too much: a request holds at most {MOST_BYTES // 1024 // 1024} MiB.")


def body_refused(scope: Scope, refused: BodyRefused) -> Response:
    """Say why a body was not read to its end, and close the connection: the rest of the body may still arrive."""
    response = _refused(scope, refused.status, refused.error, refused.message)
    response.headers["Connection"] = "close"
    return response


def is_for_programs(scope: Scope) -> bool:
    """Say whether a request is one of the API's, whose errors are JSON."""
    return scope["path"].removeprefix(scope.get("root_path", "")).startswith("/api/")


def _refused(scope: Scope, status: int, error: str, message: str) -> Response:
    if is_for_programs(scope):
        return problem(status, error, message)
    return PlainTextResponse(f"{message}\n", status)


def _leaving(send: Send) -> Send:
    """Add the headers that every response has."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return with_headers


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _announced(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < len(str(MOST_BYTES)) + 3 else MOST_BYTES + 1
