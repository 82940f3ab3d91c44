"""Request authorization. Every request passes these checks, in this order.

1. The connection belongs to the user who runs the server, if the system can identify its owner.
   Connections from other users, and from processes that a tool or agent started, are rejected
   (`security.peer_credentials`).
2. The `Host` header contains one of the allowed names (`HostNames`).
3. A write comes from the page itself, or from a program that is not a browser.
4. The body does not exceed the size limit.
5. The visitor is known (`Access`): signed in, named by a trusted proxy, or named by the surrounding
   program.

The browser stores a sign-in as a cookie. Browsers send a cookie to all ports of a host. If the page
has its own host name, no other server receives the cookie. If other servers share the host name,
such as an IP address, the cookie only opens an empty page. All other requests need a key, which the
page's script sends in a header.
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
from midturn.security.peer_credentials import PeerRejected
from midturn.web.body import FORM, problem, read_fields
from midturn.web.keyring import Keyring, SignIn

MAX_BODY_BYTES: Final = 2 * 1024 * 1024
KEY_HEADER: Final = "x-midturn-key"
KEY_FIELD: Final = "midturn_key"
PROXY_SECRET_HEADER: Final = "x-midturn-proxy-secret"  # noqa: S105  a name, not a secret
WhoIsIt: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
Peers: TypeAlias = Literal["own", "forwarded", "any"]
_LOG = logging.getLogger("midturn.web")
_SHARED_NAME: Final = "midturn.shared_name"
_READS: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
    " manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors"
    " 'none'"
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


class HostNames(Struct, frozen=True):
    """Allowed values of the `Host` header. `own` are the names that belong only to this server.
    `shared` are the names that other servers also use.
    """

    own: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()

    def __contains__(self, host: object) -> bool:
        return host in self.own or host in self.shared


def is_shared(host: str) -> bool:
    """Return whether other servers on this machine have the same host name, as for an IP address or
    `localhost`.
    """
    name = urlsplit(f"//{host}").hostname or ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


# Checks of requests
# --------------------------------------------------------------------------------------------------


class RequestGate:
    """Rejects connections from other users, unknown host names, writes from other sites, and large
    bodies.

    Args:
        app: The application.
        names: Allowed host names. None if the surrounding program checks them.
        peers: "own" accepts only the user's connections. "forwarded" also accepts connections whose
            owner is unknown. "any" accepts all connections.
        limits: Limits of request bodies.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: HostNames | None,
        peers: Peers = "any",
        limits: BodyLimits | None = None,
    ) -> None:
        self._app = app
        self._names = names
        self._peers = peers
        self._bodies = Bodies(limits or BodyLimits(bytes=MAX_BODY_BYTES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or reject it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = await self._check_connection(scope) or self._refusal(scope, Headers(scope=scope))
        app = self._app if refusal is None else refusal
        async with self._bodies.limited(scope, receive) as limited:
            await app(scope, limited, _with_security_headers(send))

    async def _check_connection(self, scope: Scope) -> Response | None:
        connection = None if self._peers == "any" else connection_of(scope)
        doubt = await connection.doubt() if connection else None
        if doubt is None or (doubt.forwarded and self._peers == "forwarded"):
            return None
        return _refused(scope, 403, "not_your_own", rejection_text(doubt))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not scope["query_string"].isascii():  # valid URLs are ASCII
            return _refused(scope, 400, "not_readable", "The URL is invalid.")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or (self._names is not None and hosts[0].lower() not in self._names):
            return _refused(scope, 421, "not_here", "This server does not accept this host name.")
        scope[_SHARED_NAME] = self._names is not None and hosts[0].lower() in self._names.shared
        if scope["method"] not in _READS and not self._comes_from_here(headers, hosts[0]):
            said = (
                "The request came from another site and was rejected. Open the page itself and try"
                " again."
            )
            return _refused(scope, 403, "another_site", said)
        if _content_length(headers) > MAX_BODY_BYTES:
            return too_large(scope)
        return None

    def _comes_from_here(self, headers: Headers, host: str) -> bool:
        """Return whether a write comes from the page itself, or from a program that is not a
        browser.

        A browser always sends the origin of a write: in `Sec-Fetch-Site`, which scripts cannot set,
        or in `Origin` if the browser is old. With the page's referrer policy, `Origin` is `null`
        for the page's own forms. A request without both headers comes from a program. Its body must
        be JSON, because HTML forms cannot send JSON.
        """
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        named = origin not in (None, "null")
        if (
            named
            and not self._is_ours(_split(origin or ""), host)
            and (self._names is not None or site is None)
        ):
            return False
        if site is not None:
            return site == "same-origin"
        return named or (origin is None and _media_type(headers) == "application/json")

    def _is_ours(self, origin: SplitResult, host: str) -> bool:
        ours = {host.lower()} if self._names is None else self._names
        return origin.scheme in {"http", "https"} and origin.netloc.lower() in ours


def has_shared_name(scope: Scope) -> bool:
    """Return whether other servers share the host name of the request, and therefore receive its
    cookie.
    """
    return bool(scope.get(_SHARED_NAME))


def rejection_text(doubt: PeerRejected) -> str:
    """Return why a connection is rejected, and what the user can do."""
    forwarded = (
        " If it comes from your own browser through SSH or into a container, start `midturn serve"
        " --forwarded`."
    )
    return (
        f"This page does not accept requests from this program: {doubt.why}. Open the page in a browser that you"
        " have started yourself, not through an agent or a"
        f" tool.{forwarded if doubt.forwarded else ''}"
    )


# Visitors
# --------------------------------------------------------------------------------------------------


class Visitor(Struct, frozen=True):
    """A person who may see the page and answer.

    Args:
        name: Name that is recorded with answers. None if unknown.
        sign_in: The visitor's sign-in, if midturn signed the visitor in.
    """

    name: str | None = None
    sign_in: SignIn | None = None


class Access(Protocol):
    """Identifies visitors."""

    async def visitor(self, request: Request) -> Visitor | None:
        """Return the visitor, or None for a stranger."""
        ...

    def still(self, visitor: Visitor) -> bool:
        """Return whether a visitor may still receive changes."""
        ...


def _is_name(name: str) -> bool:
    """Return whether a visitor can have this name. Empty names and names with control characters
    are invalid.
    """
    try:
        canonical_name(name)
    except ValueError as error:
        _LOG.warning("a visitor was rejected: %s", error)
        return False
    return True


class ProgramAccess:
    """The surrounding program identifies visitors. `user(request)` returns a name, or None or an
    empty string for a stranger.
    """

    def __init__(self, user: WhoIsIt) -> None:
        self._user = user

    async def visitor(self, request: Request) -> Visitor | None:
        """Return the visitor whose name `user(request)` returns."""
        said = self._user(request)
        name = await said if inspect.isawaitable(said) else said
        check_text_or_none("user(request)", name)
        return Visitor(name) if name is not None and _is_name(name) else None

    def still(self, visitor: Visitor) -> bool:
        """Return True, because streams end regularly and the next request is checked again."""
        del visitor
        return True


class HeaderAccess:
    """A proxy signs people in. It sends the person's name in a header, together with `secret`.
    `secret` is None if only the proxy can connect, over a Unix socket.
    """

    def __init__(self, header: str, secret: str | None) -> None:
        self._header = header
        self._secret = None if secret is None else secret.encode()

    async def visitor(self, request: Request) -> Visitor | None:
        """Read the name from the header."""
        shown = request.headers.getlist(PROXY_SECRET_HEADER)
        if self._secret is not None and not (
            len(shown) == 1 and compare_digest(shown[0].encode("utf-8", "replace"), self._secret)
        ):
            return None
        names = request.headers.getlist(self._header)
        return Visitor(names[0]) if len(names) == 1 and _is_name(names[0]) else None

    def still(self, visitor: Visitor) -> bool:
        """Return True, because streams end regularly and the next request is checked again."""
        del visitor
        return True


class CookieAccess:
    """Visitors sign in with a one-time code. Their answers are recorded under `name`."""

    def __init__(
        self, keyring: Keyring, *, cookie: str, name: str | None = None, secure: bool = False
    ) -> None:
        self.keyring = keyring
        self.cookie = cookie
        self.secure = secure
        self._name = name

    async def visitor(self, request: Request) -> Visitor | None:
        """Return the visitor whose sign-in the key in the request identifies. If the host name
        belongs only to this server, the cookie also identifies a sign-in.
        """
        sign_in = self.keyring.by_key(await _key(request))
        if sign_in is None and not has_shared_name(request.scope):
            found = self.by_cookie(request)
            sign_in = None if found is None or found.needs_key else found
        return Visitor(self._name, sign_in) if sign_in else None

    def still(self, visitor: Visitor) -> bool:
        """Return whether the sign-in is still valid."""
        return visitor.sign_in is not None and self.keyring.holds(visitor.sign_in.id)

    def by_cookie(self, request: Request) -> SignIn | None:
        """Return the sign-in that the cookie identifies. It is not enough for a shared host name."""
        return self.keyring.by_token(request.cookies.get(self.cookie, ""))


async def admitted(request: Request, access: Access) -> Visitor | None:
    """Return the visitor. If the visitor is known, the limits for connections from strangers no
    longer apply.
    """
    visitor = await access.visitor(request)
    if visitor:
        admit(request.scope)
        if connection := connection_of(request.scope):
            connection.release()
    return visitor


async def _key(request: Request) -> str:
    """Return the key from a header or, without JavaScript, from a form field of the request."""
    if KEY_HEADER in request.headers:
        return request.headers[KEY_HEADER]
    if (
        request.method != "POST"
        or not has_shared_name(request.scope)
        or _media_type(request.headers) != FORM
    ):
        return ""
    return (await read_fields(request)).one(KEY_FIELD) or ""


# Rejections, and headers that every response has
# --------------------------------------------------------------------------------------------------


def _split(origin: str) -> SplitResult:
    """Parse an origin. All parts of an invalid origin are empty."""
    try:
        return urlsplit(origin)
    except ValueError:
        return SplitResult("", "", "", "", "")


def too_large(scope: Scope) -> Response:
    """Return the response for a body that is too large."""
    return _refused(
        scope,
        413,
        "too_large",
        f"The request is too large. The limit is {MAX_BODY_BYTES // 1024 // 1024} MiB.",
    )


def body_refused(scope: Scope, refused: BodyRefused) -> Response:
    """Return the response for a rejected body. It closes the connection, because the rest of the
    body may still arrive.
    """
    response = _refused(scope, refused.status, refused.error, refused.message)
    response.headers["Connection"] = "close"
    return response


def is_for_programs(scope: Scope) -> bool:
    """Return whether a request is for the API. The API returns errors as JSON."""
    return scope["path"].removeprefix(scope.get("root_path", "")).startswith("/api/")


def _refused(scope: Scope, status: int, error: str, message: str) -> Response:
    if is_for_programs(scope):
        return problem(status, error, message)
    return PlainTextResponse(f"{message}\n", status)


def _with_security_headers(send: Send) -> Send:
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


def _content_length(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return (
        int(length)
        if length.isascii() and length.isdecimal() and len(length) < len(str(MAX_BODY_BYTES)) + 3
        else MAX_BODY_BYTES + 1
    )
