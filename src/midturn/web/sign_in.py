"""Signing in and out: a one-time code, from an address or typed, is sent by POST and becomes a sign-in; the page of strangers."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from midturn.web.app_state import Site
from midturn.web.body import FORM, problem, read_fields
from midturn.web.gate import KEY_HEADER, CookieAccess, Visitor, has_shared_name, is_for_programs
from midturn.web.keyring import SIGN_IN_SECONDS, Entered
from midturn.web.pages import frame
from midturn.web.templating import KEY_IN_FORMS, page

_AGAIN: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>…</title></head></html>'
)
_BAD_CODE: Final = "This code is used, too old, or mistyped. Get a new one."
_LONGEST_NAME: Final = 200


async def enter(request: Request, access: CookieAccess) -> Response:
    """Show a page that sends the code of the address (GET), or redeem a code (POST).

    A GET or HEAD changes nothing: link previews and scanners of mail and chat programs open every address that they see.
    """
    if request.method != "POST":
        return _confirmation(request, access)
    sent = await read_fields(request)
    shared = has_shared_name(request.scope)
    entered = access.keyring.redeem(sent.one("code") or "", request.headers.get("user-agent", "")[:_LONGEST_NAME], needs_key=shared)
    if entered is None:
        return _page(request, status=401, problem=_BAD_CODE)
    to = _here(request, sent.one("to") or "")
    if shared and sent.one("bare"):
        return _Bare(to, entered)
    response = page(request, "shell.html", {"key": entered.key, "to": to}) if shared else RedirectResponse(to, 303)
    path = f"{_base(request)}/"
    response.set_cookie(access.cookie, entered.token, SIGN_IN_SECONDS, path=path, httponly=True, samesite="strict", secure=access.secure)
    return response


def _confirmation(request: Request, access: CookieAccess) -> Response:
    """Return the page whose button redeems the code of the address; without a code in it, the page that takes one."""
    code = request.query_params.get("code", "")
    if not code:
        return _page(request, status=200)
    if not access.keyring.knows(code):
        return _page(request, status=401, problem=_BAD_CODE)
    to = _here(request, request.query_params.get("to", ""))
    return page(request, "enter.html", {"title": "Sign in", "code": code, "to": to})


async def leave(request: Request, visitor: Visitor, site: Site) -> Response:
    """Sign out: this device, or the one that is named. Its streams end."""
    access = site.access
    if not isinstance(access, CookieAccess) or visitor.sign_in is None:
        return await stranger(request, site)
    meant = dict(await _sent(request)).get("device") or visitor.sign_in.id
    access.keyring.forget(meant)
    if site.push:
        site.push.forget(meant)
    site.board.feed.look()
    if meant != visitor.sign_in.id:
        return RedirectResponse(f"{_base(request)}/devices", 303)
    response = _page(request, status=200, problem="You are signed out.")
    response.delete_cookie(access.cookie, path=f"{_base(request)}/")
    return response


async def devices(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show where one is signed in."""
    signed_in = site.access.keyring.sign_ins() if isinstance(site.access, CookieAccess) else []
    return page(request, "devices.html", {**await frame(site, visitor, "Devices"), "devices": signed_in, "own": visitor.sign_in})


async def stranger(request: Request, site: Site) -> Response:
    """Answer a visitor who may see nothing."""
    if is_for_programs(request.scope):
        return problem(401, "not_signed_in", "Nobody is signed in here.")
    access = site.access
    if not isinstance(access, CookieAccess):
        return page(
            request, "message.html", {"title": "Not signed in", "text": "Sign in to the application that this page belongs to."}, 401
        )
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(_AGAIN)  # a link from elsewhere carries no cookie of ours; the same address from here does
    if request.method == "GET" and KEY_HEADER not in request.headers and has_shared_name(request.scope) and access.by_cookie(request):
        return page(request, "shell.html", {"key": "", "to": _here(request, _address(request))})
    kept = await _kept(request)
    return _page(request, status=401, kept=kept)


class _Bare(Response):
    """A page that a browser without scripts opens with a code of its own: it shows its key in each form, since nothing else can."""

    def __init__(self, to: str, entered: Entered) -> None:
        super().__init__()
        self._to, self._entered = to, entered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as if the page itself had been asked for."""
        path, _, query = self._to.partition("?")
        key = self._entered.key.encode()
        headers = [*scope["headers"], (KEY_HEADER.encode(), key)]
        asked = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": headers}
        await scope["app"]({**scope, **asked, KEY_IN_FORMS: self._entered.key}, receive, send)


def _here(request: Request, to: str) -> str:
    """Return where the visitor wanted to go, if that is a page of ours, else the first one."""
    base = _base(request)
    is_ours = to.startswith(f"{base}/") and not to.startswith((f"{base}//", f"{base}/enter", f"{base}/leave"))
    return to if is_ours and to.isascii() and to.isprintable() and "\\" not in to else f"{base}/"


def _address(request: Request) -> str:
    """Return what was asked for, with what was searched for there; a code is part of no address."""
    query = str(request.url.query) if request.method == "GET" and "code" not in request.query_params else ""
    return f"{request.url.path}?{query}" if query else request.url.path


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


async def _kept(request: Request) -> list[tuple[str, str]]:
    """Return what was typed into a form of ours before the sign-in ran out, to be sent again; a secret is not sent back."""
    return [(name, value) for name, value in await _sent(request) if name != "secret"]


async def _sent(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form; none where nothing of the kind was sent."""
    is_form = request.method == "POST" and request.headers.get("content-type", "").startswith(FORM)
    return (await read_fields(request)).pairs() if is_form else []


def _page(request: Request, *, status: int, problem: str = "", kept: list[tuple[str, str]] | None = None) -> HTMLResponse:
    values = {"title": "Sign in", "problem": problem, "kept": kept or [], "here": request.url.path, "to": _here(request, _address(request))}
    return page(request, "sign_in.html", values, status)
