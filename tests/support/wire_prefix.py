"""Measures how much of a main request a side request repeats, in the order in which a provider
renders and caches it.
"""

from __future__ import annotations

import json
from typing import Any

from midturn.models.profiles import Family

_FIELDS: dict[Family, tuple[str, str, str]] = {  # tools, system, messages
    "anthropic": ("tools", "system", "messages"),
    "openai": ("tools", "instructions", "input"),
    "google": ("tools", "systemInstruction", "contents"),
    "openai-compatible": ("tools", "system", "messages"),
}


def rendered(family: Family, body: Any) -> str:
    """Return tools, system prompt and messages as one text without the closing bracket of the
    messages.
    """
    tools, system, messages = (body.get(field) for field in _FIELDS[family])
    return "".join(_compact(part) for part in (tools, system, messages))[:-1]


def other_fields(family: Family, body: Any) -> dict[str, Any]:
    """Return every other field of a request."""
    return {name: value for name, value in body.items() if name not in _FIELDS[family]}


def shared(main: str, side: str) -> float:
    """Return the length of the common prefix as a fraction of the main request, from 0 to 1."""
    left, right = main.encode(), side.encode()
    length = next(
        (
            place
            for place, (one, other) in enumerate(zip(left, right, strict=False))
            if one != other
        ),
        min(len(left), len(right)),
    )
    return length / len(left)


def _compact(part: Any) -> str:
    return json.dumps(part, separators=(",", ":"), ensure_ascii=False)
