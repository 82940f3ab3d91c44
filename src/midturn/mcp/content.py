"""What a server's tool returned, as a model reads and sees it: text, pictures, and for everything else what it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from mcp import types

from midturn.core.image import Image, checked
from midturn.core.outcome import Success, ToolError
from midturn.mcp.asking import Elicitations

_REASONS: Final = 3


def outcome_of(result: types.CallToolResult) -> Success | ToolError:
    """Return a result as the outcome of a call."""
    text = "\n\n".join(_shown(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        return ToolError(text or "The tool failed, and did not say why.")
    return Success(text, tuple(image for block in result.content if (image := _picture(block))))


def with_what_came_of_it(outcome: Success | ToolError, asked: Elicitations, server: str) -> Success | ToolError:
    """Put before a result what the server cannot say of its questions: a person's words, which it has not heard, and that nobody was asked.

    A reply is no failure of the call, whatever the server makes of hearing no.
    """
    text = outcome.message if isinstance(outcome, ToolError) else outcome.content
    returned = "It returned an error:" if isinstance(outcome, ToolError) else "It returned:"
    told: list[str] = []
    if asked.replies:
        told = [*asked.replies, f"The user did not answer what {server} asked; it was told `decline`."]
    if asked.unasked:
        told.append(_unasked(asked.unasked, server))
    if not told:
        return outcome
    whole = "\n".join([*told, returned, text])
    return ToolError(whole) if isinstance(outcome, ToolError) and not asked.replies else Success(whole, _images(outcome))


def _unasked(reasons: Sequence[str], server: str) -> str:
    what = "something" if len(reasons) == 1 else f"{len(reasons)} things"
    different = list(dict.fromkeys(reasons))
    why = "; ".join([*different[:_REASONS], *(["…"] if len(different) > _REASONS else [])])
    return f"{server[0].upper()}{server[1:]} asked {what} that nobody answered: {why}. It was told `cancel`."


def _images(outcome: Success | ToolError) -> tuple[Image, ...]:
    return () if isinstance(outcome, ToolError) else outcome.images


def _picture(block: types.ContentBlock) -> Image | None:
    match block:
        case types.ImageContent(data=data) | types.EmbeddedResource(resource=types.BlobResourceContents(blob=data)):
            return checked(data)
        case _:
            return None


def _shown(block: types.ContentBlock) -> str:
    picture = _picture(block)
    unseen = "" if picture else ", which cannot be shown here"
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            return f"[{picture.media_type if picture else kind}, about {len(data) * 3 // 4:,} bytes{unseen}]"
        case types.ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
            return f"[{uri}]\n{text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)):
            return f"[{uri}: {picture.media_type if picture else kind or 'bytes'}, about {len(blob) * 3 // 4:,} bytes{unseen}]"
        case _:
            return f"[{type(block).__name__}, which cannot be shown here]"
