"""A picture in the result of a call."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

import binascii
from base64 import b64decode

from msgspec import Struct

LARGEST = 1_500_000
"""Bytes of a picture that is passed on: every provider takes it, and in base64 it can be recorded."""

_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class Image(Struct, frozen=True):
    """One: its media type, and its bytes in base64."""

    media_type: str
    data: str

    @property
    def size(self) -> int:
        """How many bytes it has, about."""
        return len(self.data) * 3 // 4


def media_type_of(content: bytes) -> str | None:
    """Return the media type of a picture that models take; None for everything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for beginning, media_type in _BEGINNINGS.items() if content.startswith(beginning)), None)


def checked(data: str) -> Image | None:
    """Return a picture that somebody else calls one, as what it is; None where it is not a picture, or too large."""
    if len(data) * 3 // 4 > LARGEST:
        return None
    try:
        media_type = media_type_of(b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None
    return Image(media_type, data) if media_type else None
