"""Serves the page and an agent for one user of this machine.

A server for several users has a login instead of the token: `user` returns the user of the
session.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import midturn as mt
from midturn.integrations import agui

HERE = Path(__file__).parent
COOKIE = "agui_page"


def site(agent: mt.Agent, *, user: str, token: str) -> Starlette:
    """Return the application: the page at `/`, the agent at `/agent/`.

    Args:
        agent: The agent.
        user: Name that is recorded with messages and answers.
        token: A browser that has opened `/?token=…` once is this user.
    """

    def user_of(request: Request) -> str | None:
        given = request.cookies.get(COOKIE, "")
        return user if secrets.compare_digest(given.encode(), token.encode()) else None

    async def index(request: Request) -> Response:
        if given := request.query_params.get("token"):
            response = RedirectResponse("/", 303)
            response.set_cookie(COOKIE, given, httponly=True, samesite="strict")
            return response
        page = HERE / "page" / "index.html"
        return FileResponse(page, headers={"Content-Security-Policy": policy(page.read_text())})

    return Starlette(
        routes=[
            Route("/", index),
            Mount("/agent", agui.app(agent, user=user_of)),
            Mount("/node_modules", StaticFiles(directory=HERE / "node_modules")),
            Mount("/", StaticFiles(directory=HERE / "page")),
        ],
        # a page of another site could otherwise reach this server under a name of its own
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )


def policy(html: str) -> str:
    """Return the Content-Security-Policy of the page. The import map is its only inline script."""
    found = re.search(r'<script type="importmap">(.*?)</script>', html, re.DOTALL)
    assert found
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self';"
        " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )


def read_token(file: Path) -> str:
    """Return the token of this server. It is kept in a file, so that a browser stays signed in
    when the server is restarted.
    """
    try:
        file.touch(0o600, exist_ok=False)
    except FileExistsError:
        return file.read_text()
    file.write_text(secrets.token_urlsafe())
    return file.read_text()
