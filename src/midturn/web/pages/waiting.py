"""The first page: what is open, grouped by conversation."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from midturn.core.stream import OpenQuestion
from midturn.web.board import Board
from midturn.web.closed import recorded
from midturn.web.gate import Visitor
from midturn.web.site import Site
from midturn.web.templating import page


class Group(Struct, frozen=True):
    """The open questions of one conversation."""

    conversation: str
    title: str
    questions: list[OpenQuestion]


async def waiting(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show what is open; only the list where the script asks for that."""
    board = site.board
    await board.fresh()
    groups = await grouped(board, board.open)
    values = {"groups": groups, "count": len(board.open)}
    if request.query_params.get("part") == "list":
        return page(request, "list.html", values)
    if request.query_params.get("part") == "group":
        wanted = request.query_params.get("conversation")
        return page(request, "list.html", {"groups": [group for group in groups if group.conversation == wanted]})
    done = await recorded(board.port, request.query_params.get("done", ""))
    return page(request, "inbox.html", {**values, **frame(site, visitor, "Inbox"), "done": done})


async def grouped(board: Board, questions: Iterable[OpenQuestion]) -> list[Group]:
    """Group questions by conversation; a conversation stands where its oldest question does."""
    groups: dict[str, Group] = {}
    for question in questions:
        if question.conversation not in groups:
            title = await board.title(question.conversation)
            groups[question.conversation] = Group(question.conversation, title, [])
        groups[question.conversation].questions.append(question)
    return list(groups.values())


def frame(site: Site, visitor: Visitor, title: str) -> dict[str, object]:
    """Return what the frame around every page shows."""
    return {"title": title, "here": title, "waiting": len(site.board.open), "visitor": visitor, "signs_in": site.signs_in}
