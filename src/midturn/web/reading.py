"""One conversation, as a request names it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

from midturn.errors import StoreError
from midturn.store.conversation import Conversation
from midturn.web.site import Site


async def read_named(request: Request, site: Site) -> Conversation:
    """Read the conversation of the address.

    Raises:
        HTTPException: There is none (404). Where others are kept is nobody's business here.
        StoreError: The store cannot say now, or cannot read it.
    """
    id = request.path_params["id"]  # noqa: A001  the wire's word
    try:
        return await site.board.port.read(id)
    except StoreError:
        if id in await site.board.port.ids():
            raise
        raise HTTPException(404, "There is no conversation with this id.") from None
