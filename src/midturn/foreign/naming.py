"""Names and texts from outside, as our questions take them."""

from __future__ import annotations

import hashlib
import re

from midturn.core.asker import ProcessMark

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64
_OURS = frozenset({"assistant", "user", "you", "me", "midturn", "system", "tool", "human"})
_SHOWN = 40
_NAMELESS = "process-"


def tool_name(name: str) -> str:
    """Return a name that a tool of ours could have; different names stay different."""
    plain = _FOREIGN.sub("_", name) or "tool"
    if plain == name and len(name) <= _LONGEST and name.casefold() != "assistant":
        return name
    return f"{plain[: _LONGEST - 9]}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def nameless_session(process: ProcessMark) -> str:
    """Return what stands for a session that its agent gives no name: the process that asks for it."""
    return f"{_NAMELESS}{process.pid}-{process.started}"


def is_nameless(session: str) -> bool:
    """Say whether a session is one that its agent gives no name."""
    return session.startswith(_NAMELESS)


def asker_name(name: str, otherwise: str) -> str:
    """Return a name that says who asks: never one that a person would take for us, for a model of ours, or for themselves."""
    plain = " ".join(_FOREIGN.sub(" ", name).split())[:_SHOWN].strip()
    return f"{otherwise} {plain}".strip() if not plain or plain.casefold() in _OURS else plain
