"""Signing in with a one-time code, signing out, and the page for strangers."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from midturn.web.app_state import AppState
from midturn.web.body import FORM, problem, read_fields
from midturn.web.keyring import SIGN_IN_SECONDS, SignInSecrets
from midturn.web.pages import frame
from midturn.web.request_checks import (
    KEY_HEADER,
    CookieAccess,
    Visitor,
    has_shared_name,
    is_for_programs,
)
from midturn.web.templating import KEY_IN_FORMS, page

_RELOAD_PAGE: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh"'
    ' content="0"><title>…</title></head></html>'
)
_BAD_CODE: Final = "That code didn't work. It may be expired or already used."
MAX_DEVICE_CHARS: Final = 200


async def enter(request: Request, access: CookieAccess) -> Response:
    """Show a page that submits the code in the URL (GET), or redeem a code (POST).

    GET and HEAD do not change anything, because link previews and virus scanners open every URL.
    """
    if request.method != "POST":
        return _confirmation(request, access)
    sent = await read_fields(request)
    shared = has_shared_name(request.scope)
    entered = access.keyring.redeem(
        sent.one("code") or "",
        request.headers.get("user-agent", "")[:MAX_DEVICE_CHARS],
        needs_key=shared,
    )
    if entered is None:
        return _page(request, status=401, problem=_BAD_CODE)
    to = _local_target(request, sent.one("to") or "")
    if shared and sent.one("bare"):
        return _ScriptlessPage(to, entered)
    response = (
        page(request, "shell.html", {"key": entered.key, "to": to})
        if shared
        else RedirectResponse(to, 303)
    )
    path = f"{_base(request)}/"
    response.set_cookie(
        access.cookie,
        entered.token,
        SIGN_IN_SECONDS,
        path=path,
        httponly=True,
        samesite="strict",
        secure=access.secure,
    )
    return response


def _confirmation(request: Request, access: CookieAccess) -> Response:
    """Return a page with a button that redeems the code in the URL, or a page with a field for the
    code if the URL contains none.
    """
    code = request.query_params.get("code", "")
    if not code:
        return _page(request, status=200)
    if not access.keyring.knows(code):
        return _page(request, status=401, problem=_BAD_CODE)
    to = _local_target(request, request.query_params.get("to", ""))
    return page(request, "enter.html", {"title": "Sign in", "code": code, "to": to})


async def leave(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Sign out this device or another device, and end the device's event streams."""
    access = site.access
    if not isinstance(access, CookieAccess) or visitor.sign_in is None:
        return await stranger(request, site)
    meant = dict(await _form_fields(request)).get("device") or visitor.sign_in.id
    access.keyring.forget(meant)
    if site.push:
        site.push.forget(meant)
    site.board.feed.look()
    if meant != visitor.sign_in.id:
        return RedirectResponse(f"{_base(request)}/devices", 303)
    response = _page(request, status=200, problem="You are signed out.")
    response.delete_cookie(access.cookie, path=f"{_base(request)}/")
    return response


async def devices(request: Request, visitor: Visitor, site: AppState) -> Response:
    """List the signed-in devices."""
    signed_in = site.access.keyring.sign_ins() if isinstance(site.access, CookieAccess) else []
    return page(
        request,
        "devices.html",
        {**await frame(site, visitor, "Devices"), "devices": signed_in, "own": visitor.sign_in},
    )


async def stranger(request: Request, site: AppState) -> Response:
    """Return the response for a visitor who is not signed in."""
    if is_for_programs(request.scope):
        return problem(401, "not_signed_in", "Not signed in.")
    access = site.access
    if not isinstance(access, CookieAccess):
        return page(
            request,
            "message.html",
            {
                "title": "Not signed in",
                "text": "Sign in to the application that this page is part of.",
            },
            401,
        )
    # the browser does not send SameSite=Strict cookies after a link from another site, but it sends
    # them with a reload
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(_RELOAD_PAGE)
    if (
        request.method == "GET"
        and KEY_HEADER not in request.headers
        and has_shared_name(request.scope)
        and access.by_cookie(request)
    ):
        return page(
            request, "shell.html", {"key": "", "to": _local_target(request, _address(request))}
        )
    kept = await _unsent_fields(request)
    return _page(request, status=401, kept=kept)


class _ScriptlessPage(Response):
    """Response to a sign-in from a browser with JavaScript disabled: the requested page. Each form
    on the page contains the sign-in key, because no script can send it.
    """

    def __init__(self, to: str, entered: SignInSecrets) -> None:
        super().__init__()
        self._to, self._entered = to, entered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond as if the browser had requested the page `to`."""
        path, _, query = self._to.partition("?")
        key = self._entered.key.encode()
        headers = [*scope["headers"], (KEY_HEADER.encode(), key)]
        asked = {
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        await scope["app"]({**scope, **asked, KEY_IN_FORMS: self._entered.key}, receive, send)


def _local_target(request: Request, to: str) -> str:
    """Return the requested URL if it is a page of this server, otherwise the inbox."""
    base = _base(request)
    is_ours = to.startswith(f"{base}/") and not to.startswith(
        (f"{base}//", f"{base}/enter", f"{base}/leave")
    )
    return to if is_ours and to.isascii() and to.isprintable() and "\\" not in to else f"{base}/"


def _address(request: Request) -> str:
    """Return the requested path and query. The query is omitted if it contains a sign-in code."""
    query = (
        str(request.url.query)
        if request.method == "GET" and "code" not in request.query_params
        else ""
    )
    return f"{request.url.path}?{query}" if query else request.url.path


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


async def _unsent_fields(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form that was submitted after the sign-in expired, without secrets."""
    return [(name, value) for name, value in await _form_fields(request) if name != "secret"]


async def _form_fields(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a submitted form, or nothing if no form was submitted."""
    is_form = request.method == "POST" and request.headers.get("content-type", "").startswith(FORM)
    return (await read_fields(request)).pairs() if is_form else []


def _page(
    request: Request, *, status: int, problem: str = "", kept: list[tuple[str, str]] | None = None
) -> HTMLResponse:
    values = {
        "title": "Sign in",
        "problem": problem,
        "kept": kept or [],
        "here": request.url.path,
        "to": _local_target(request, _address(request)),
    }
    return page(request, "sign_in.html", values, status)
