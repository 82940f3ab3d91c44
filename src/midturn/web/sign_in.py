"""Signing in: a one-time code in an address, or typed, becomes a cookie; and what somebody sees who is not signed in."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from midturn.web.access import CookieAccess
from midturn.web.body import FORM, read_fields
from midturn.web.gate import is_for_programs
from midturn.web.site import Site
from midturn.web.templating import page

_AGAIN = '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>…</title></head></html>'


async def enter(request: Request, access: CookieAccess) -> Response:
    """Take a code, and lead on to the page."""
    if request.method == "POST":
        code = (await read_fields(request)).one("code") or ""
    elif request.method == "HEAD" or request.headers.get("sec-purpose") or request.headers.get("purpose"):
        return Response("A code is good once: it is not fetched in advance.\n", 403)
    else:
        code = request.query_params.get("code", "")
    token = access.keyring.redeem(code)
    if token is None:
        return _page(request, status=401, problem="This code is used, too old, or mistyped. Get a new one.")
    base = str(request.scope.get("root_path", "")).rstrip("/")
    response = RedirectResponse(f"{base}/", 303)
    response.set_cookie(access.cookie, token, path=f"{base}/", httponly=True, samesite="strict", secure=access.secure)
    return response


async def leave(request: Request, access: CookieAccess) -> Response:
    """Sign out."""
    access.keyring.forget(request.cookies.get(access.cookie, ""))
    response = _page(request, status=200, problem="You are signed out.")
    response.delete_cookie(access.cookie, path=f"{str(request.scope.get('root_path', '')).rstrip('/')}/")
    return response


async def stranger(request: Request, site: Site) -> Response:
    """Answer somebody who may see nothing."""
    if is_for_programs(request.scope):
        return JSONResponse({"error": "not_signed_in", "message": "Nobody is signed in here."}, 401)
    if not site.signs_in:
        return page(
            request, "message.html", {"title": "Not signed in", "text": "Sign in to the application that this page belongs to."}, 401
        )
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(_AGAIN)  # a link from elsewhere carries no cookie of ours; the same address from here does
    kept = await _kept(request)
    return _page(request, status=401, kept=kept)


async def _kept(request: Request) -> list[tuple[str, str]]:
    """Return what was typed into a form of ours before the sign-in ran out, to be sent again; a secret is not sent back."""
    if request.method != "POST" or not request.headers.get("content-type", "").startswith(FORM):
        return []
    return [(name, value) for name, value in (await read_fields(request)).pairs() if name != "secret"]


def _page(request: Request, *, status: int, problem: str = "", kept: list[tuple[str, str]] | None = None) -> HTMLResponse:
    return page(request, "sign_in.html", {"title": "Sign in", "problem": problem, "kept": kept or [], "here": request.url.path}, status)
