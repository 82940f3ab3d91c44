"""What happens, as it happens: server-sent events."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from midturn.web.gate import Visitor
from midturn.web.site import Site

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_STILL_HERE = b": still here\n\n"
_QUIET = 15.0  # seconds after which something is sent, so that proxies and telephones keep the line
_LONGEST = 600.0  # seconds after which one comes back: the program around us may have signed its user out


async def events(request: Request, visitor: Visitor, site: Site) -> Response:
    """Stream what changes from now on, or from where somebody was cut off; where too much has passed since, begin with what is open."""
    await site.board.fresh()
    feed = site.board.feed
    seen = request.headers.get("last-event-id")
    place = feed.last if seen is None else feed.place(seen)

    async def stream() -> AsyncGenerator[bytes]:
        yield b"retry: 1000\n\n"
        if place is None:
            for question in site.board.open:
                yield feed.wire("asked", question.to_json())
        begun = said = time.monotonic()
        async for change in feed.follow(feed.last if place is None else place):
            now = time.monotonic()
            if now - begun >= _LONGEST or not site.access.still(visitor) or server_ends():
                return
            if change is not None or now - said >= _QUIET:
                yield _STILL_HERE if change is None else change.wire
                said = now

    return StreamingResponse(stream(), media_type="text/event-stream", headers=_HEADERS)


def server_ends() -> bool:
    """Say whether the server around us has been told to end: uvicorn waits for its open responses first, and tells an application later."""
    handlers = (signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
    return any(getattr(getattr(handler, "__self__", None), "should_exit", False) is True for handler in handlers)
