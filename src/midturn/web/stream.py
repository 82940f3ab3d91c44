"""What happens, as it happens: server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from midturn.web.access import Visitor
from midturn.web.site import Site

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LONGEST = 600.0  # seconds after which one comes back, and has to be signed in still


async def events(request: Request, visitor: Visitor, site: Site) -> Response:
    """Stream what changes from now on, or from where somebody was cut off; where too much has passed since, begin with what is open."""
    del visitor
    await site.board.fresh()
    feed = site.board.feed
    seen = request.headers.get("last-event-id")
    place = feed.last if seen is None else feed.place(seen)

    async def stream() -> AsyncGenerator[bytes]:
        yield b"retry: 1000\n\n"
        if place is None:
            for question in site.board.open:
                yield feed.wire("asked", question.to_json())
        begun = time.monotonic()
        async for change in feed.follow(feed.last if place is None else place):
            yield b": still here\n\n" if change is None else change.wire
            if time.monotonic() - begun >= _LONGEST:
                return

    return StreamingResponse(stream(), media_type="text/event-stream", headers=_HEADERS)
