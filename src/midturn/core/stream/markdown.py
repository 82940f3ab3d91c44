"""Values and blocks of text inside Markdown."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from midturn.core.json_value import Json

_BACKTICKS: Final = re.compile(r"`+")


def fenced(text: str, language: str = "") -> str:
    """Return a block that shows `text` as it is, whatever backticks are in it."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return "\n".join((fence + language, text.removesuffix("\n"), fence))


def shown(value: Json) -> str:
    """Return a JSON value as a person writes it: text bare, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
