"""What a server's tool returned, as a model reads and sees it: text, pictures, and for everything else what it is."""

from __future__ import annotations

import json

from mcp import types

from midturn.core.image import Image, checked
from midturn.core.outcome import Success, ToolError


def outcome_of(result: types.CallToolResult) -> Success | ToolError:
    """Return a result as the outcome of a call."""
    text = "\n\n".join(_shown(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        return ToolError(text or "The tool failed, and did not say why.")
    return Success(text, tuple(image for block in result.content if (image := _picture(block))))


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
