"""How `jp` hides text from `grep`: every string value of a field in base64.

Its readers take a string that is not base64 of UTF-8 text as it stands, so files hold both. Here the strings of a field are counted, and
those that were not encoded are remembered: writing the field back gives what was there. Numbers, keys and order are never touched.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Callable, Container
from typing import Final

import msgspec

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def reveal(field: bytes) -> tuple[bytes, list[int]]:
    """Return the field (compact JSON) with its strings readable, and which of them (from 0) were not encoded."""
    plain: list[int] = []

    def read(token: bytes, number: int) -> bytes:
        decoded = _decoded(token)
        if decoded is None:
            plain.append(number)
            return token
        return msgspec.json.encode(decoded)

    return _each_string(field, read), plain


def hide(field: bytes, plain: Container[int] = ()) -> bytes:
    """Return the field (compact JSON) with its strings in base64, all but those that `plain` counts."""

    def write(token: bytes, number: int) -> bytes:
        text = None if number in plain else _text(token)
        return token if text is None else b'"' + base64.b64encode(text.encode()) + b'"'

    return _each_string(field, write)


def _each_string(field: bytes, change: Callable[[bytes, int], bytes]) -> bytes:
    """Change every string value: `change` gets it with its quotes, and its number."""
    numbers = itertools.count()

    def replace(found: re.Match[bytes]) -> bytes:
        is_key = field[found.end() : found.end() + 1] == b":"
        return found[0] if is_key else change(found[0], next(numbers))

    return _STRING.sub(replace, field)


def _decoded(token: bytes) -> str | None:
    """Return what the string is the base64 of; None where it is not exactly that."""
    text = _text(token)
    try:
        decoded = base64.b64decode("\0" if text is None else text, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode("ascii") == text else None
    except ValueError:
        return None


def _text(token: bytes) -> str | None:
    """Return the string that a token stands for; None where it holds half a character, which no UTF-8 text does."""
    try:
        return msgspec.json.decode(token, type=str)
    except ValueError:
        return None
