"""The conversations: a list to search, one to read, and files to take away."""

from __future__ import annotations

import io
import zipfile
from itertools import islice

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from midturn.store.conversation import Conversation
from midturn.store.export import export_jp, export_jsonl, export_markdown
from midturn.web.gate import Visitor
from midturn.web.library import fitting
from midturn.web.pages.waiting import frame
from midturn.web.reading import read_named
from midturn.web.site import Site
from midturn.web.templating import page
from midturn.web.timeline import timeline

_PAGE = 50
_TURNS = 50  # of a long conversation; the others are a link away
_FORMATS = {"markdown": ("md", "text/markdown; charset=utf-8"), "jsonl": ("jsonl", "application/jsonl"), "jp": ("zip", "application/zip")}


async def conversations(request: Request, visitor: Visitor, site: Site) -> Response:
    """List conversations, the newest first."""
    await site.board.fresh()
    words, label = request.query_params.get("q", ""), request.query_params.get("label", "")
    before = request.query_params.get("before", "")
    every = await site.library.newest()
    found = [one for one in fitting(every, words, label) if not before or one.id < before]
    values = {
        **frame(site, visitor, "Conversations"),
        "found": found[:_PAGE],
        "more": found[_PAGE - 1].id if len(found) > _PAGE else "",
        "words": words,
        "label": label,
        "labels": sorted({name for one in every for name in one.labels}),
    }
    return page(request, "conversations.html", values)


async def conversation(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show one conversation; only its timeline where the script asks for that."""
    await site.board.fresh()
    read = await read_named(request, site)
    turns = timeline(read.turns)
    shown = turns if "all" in request.query_params else turns[-_TURNS:]
    open_ids = {question.request.event_id for question in site.board.open if question.conversation == read.id}
    values = {"conversation": read, "turns": shown, "hidden": len(turns) - len(shown), "open_ids": open_ids}
    if request.query_params.get("part") == "timeline":
        return page(request, "timeline.html", values)
    is_open = bool(turns) and not turns[-1].status
    heading = read.title or read.id
    return page(request, "conversation.html", {**frame(site, visitor, "Conversation"), **values, "heading": heading, "is_open": is_open})


async def export(request: Request, visitor: Visitor, site: Site) -> Response:
    """Return a conversation as a file."""
    del visitor
    form = request.path_params["form"]
    if form not in _FORMATS:
        raise HTTPException(404, f"There is no format {form!r}: choose {', '.join(_FORMATS)}.")
    read = await read_named(request, site)
    suffix, media_type = _FORMATS[form]
    name = "".join(islice((letter for letter in read.id if letter.isascii() and letter.isalnum()), 64)) or "conversation"
    headers = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
    return Response(await _exported(read, form, site), media_type=media_type, headers=headers)


async def _exported(read: Conversation, form: str, site: Site) -> bytes:
    if form == "markdown":
        return export_markdown(read.events, read.metadata.title).encode()
    lines = await site.board.port.lines(read.id)
    if form == "jsonl":
        return export_jsonl(lines)
    files = export_jp(lines, read.metadata.to_json())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("events.json", files.events)
        archive.writestr("metadata.json", files.metadata)
    return packed.getvalue()
