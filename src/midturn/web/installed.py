"""The page as an installed web app: manifest, service worker, push subscriptions, and the buttons
of notifications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from midturn.errors import (
    AlreadyAnswered,
    AnswerError,
    NotAllowed,
    NotOpen,
    PersonNeeded,
    Problem,
    StoreError,
)
from midturn.web.answering import PageVisit
from midturn.web.api import closed_response, invalid_answer, not_open_response, problem
from midturn.web.app_state import AppState
from midturn.web.body import read_object
from midturn.web.closed import rejection_of
from midturn.web.controls import PageAgain
from midturn.web.request_checks import Visitor, has_shared_name
from midturn.web.templating import STATIC, version

if TYPE_CHECKING:
    from midturn.web.push import ButtonAction, Push  # needs an extra

_THEME_COLOR = "#1f6f5c"
_PUSH_UNAVAILABLE = (
    "Push notifications need a page with a permanent address: its own host name, or the address"
    " that --url sets."
)


async def manifest(request: Request) -> Response:
    """Return the web app manifest."""
    del request
    files = f"static/{version()}"
    sizes = [
        {
            "src": f"{files}/icon-{size}.png",
            "sizes": f"{size}x{size}",
            "type": "image/png",
            "purpose": "any",
        }
        for size in (192, 512)
    ]
    told = {
        "id": "./",
        "name": "midturn",
        "short_name": "midturn",
        "description": "Questions of your agents",
        "start_url": "./",
        "scope": "./",
        "display": "standalone",
        "background_color": _THEME_COLOR,
        "theme_color": _THEME_COLOR,
        "icons": [*sizes, {"src": f"{files}/icon.svg", "sizes": "any", "type": "image/svg+xml"}],
    }
    return JSONResponse(
        told, media_type="application/manifest+json", headers={"Cache-Control": "no-cache"}
    )


async def worker(request: Request) -> Response:
    """Return the service worker. Browsers check regularly whether it has changed."""
    del request
    return FileResponse(
        str(STATIC / "worker.js"),
        media_type="text/javascript; charset=utf-8",
        headers={"Cache-Control": "no-cache"},
    )


def available_push(request: Request, site: AppState) -> Push | None:
    """Return the push sender. Return None for a shared host name, because other servers with this
    name could show notifications.
    """
    return None if has_shared_name(request.scope) else site.push


async def subscribe(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Add or remove a browser that receives notifications."""
    push = available_push(request, site)
    if push is None:
        return problem(404, "not_here", _PUSH_UNAVAILABLE)
    body = await read_object(request)
    match body:
        case {"subscription": Mapping() as subscription}:
            try:
                push.keys.add(subscription, visitor)
            except AnswerError as error:
                return invalid_answer(error.problems)
        case {"forget": str(endpoint)}:
            push.keys.remove(endpoint=endpoint)
        case _:
            return invalid_answer(
                [Problem("", "must have a `subscription`, or the endpoint to `forget`.")]
            )
    return JSONResponse({})


async def press(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Record the answer of a notification button, with the same checks as on the page of the
    question.
    """
    push = available_push(request, site)
    token = (await read_object(request)).get("token")
    pressed = push.pressed(token, visitor) if push and isinstance(token, str) else None
    if pressed is None:
        return problem(
            410,
            "closed",
            "This button has expired. Nothing was recorded. Open the page to see the current"
            " questions.",
        )
    found = await site.board.find(pressed.question)
    if found is None:
        return await not_open_response(pressed.question, site)
    return await _answered(pressed, PageVisit(site, found, visitor), site)


async def _answered(pressed: ButtonAction, visit: PageVisit, site: AppState) -> Response:
    try:
        await visit.act(pressed.sent)
    except PageAgain as error:
        return invalid_answer(error.problems)
    except (AlreadyAnswered, NotOpen) as meanwhile:
        await site.board.look_again()
        return await closed_response(pressed.question, meanwhile, site)
    except (StoreError, PersonNeeded, NotAllowed) as error:
        why = rejection_of(error)
        return problem(why.status, why.error, why.message)
    return JSONResponse({"id": pressed.question})
