"""The page as an application of its own: its manifest, its worker, and what the worker sends (subscriptions, and pressed buttons)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from midturn.errors import AlreadyAnswered, AnswerError, NotAllowed, NotOpen, PersonNeeded, Problem, StoreError
from midturn.web.answering import PageVisit
from midturn.web.api import gone, late, misfit, problem
from midturn.web.app_state import Site
from midturn.web.body import read_object
from midturn.web.closed import unrecorded
from midturn.web.controls import PageAgain
from midturn.web.gate import Visitor, has_shared_name
from midturn.web.templating import STATIC, version

if TYPE_CHECKING:
    from midturn.web.push import Pressed, Push  # its libraries are an extra

_COLOUR = "#1f6f5c"
_NOT_HERE = "Notifications of a closed page are sent only where its address stays: under its own name, or the one of --url."


async def manifest(request: Request) -> Response:
    """Say what the page is called and looks like where it is installed."""
    del request
    files = f"static/{version()}"
    sizes = [{"src": f"{files}/icon-{size}.png", "sizes": f"{size}x{size}", "type": "image/png", "purpose": "any"} for size in (192, 512)]
    told = {
        "id": "./",
        "name": "midturn",
        "short_name": "midturn",
        "description": "Questions of your agents",
        "start_url": "./",
        "scope": "./",
        "display": "standalone",
        "background_color": _COLOUR,
        "theme_color": _COLOUR,
        "icons": [*sizes, {"src": f"{files}/icon.svg", "sizes": "any", "type": "image/svg+xml"}],
    }
    return JSONResponse(told, media_type="application/manifest+json", headers={"Cache-Control": "no-cache"})


async def worker(request: Request) -> Response:
    """Return the script that shows notifications; browsers look now and then whether it has changed."""
    del request
    return FileResponse(str(STATIC / "worker.js"), media_type="text/javascript; charset=utf-8", headers={"Cache-Control": "no-cache"})


def push_here(request: Request, site: Site) -> Push | None:
    """Return what sends notifications, where the page's name is its own and stays; other servers could show some under a shared one."""
    return None if has_shared_name(request.scope) else site.push


async def subscribe(request: Request, visitor: Visitor, site: Site) -> Response:
    """Take or forget a browser that wants notifications."""
    push = push_here(request, site)
    if push is None:
        return problem(404, "not_here", _NOT_HERE)
    body = await read_object(request)
    match body:
        case {"subscription": Mapping() as subscription}:
            try:
                push.keys.add(subscription, visitor)
            except AnswerError as error:
                return misfit(error.problems)
        case {"forget": str(endpoint)}:
            push.keys.remove(endpoint=endpoint)
        case _:
            return misfit([Problem("", "give a `subscription`, or the endpoint to `forget`.")])
    return JSONResponse({})


async def press(request: Request, visitor: Visitor, site: Site) -> Response:
    """Take a button that was pressed in a notification: what it stands for is answered as on the question's page."""
    push = push_here(request, site)
    token = (await read_object(request)).get("token")
    pressed = push.pressed(token, visitor) if push and isinstance(token, str) else None
    if pressed is None:
        return problem(410, "closed", "This button is good no more. Nothing was recorded; open the page to see what is asked now.")
    found = await site.board.find(pressed.question)
    if found is None:
        return await gone(pressed.question, site)
    return await _answered(pressed, PageVisit(site, found, visitor), site)


async def _answered(pressed: Pressed, visit: PageVisit, site: Site) -> Response:
    try:
        await visit.act(pressed.sent)
    except PageAgain as error:
        return misfit(error.problems)
    except (AlreadyAnswered, NotOpen) as meanwhile:
        await site.board.look_again()
        return await late(pressed.question, meanwhile, site)
    except (StoreError, PersonNeeded, NotAllowed) as error:
        why = unrecorded(error)
        return problem(why.status, why.error, why.message)
    return JSONResponse({"id": pressed.question})
