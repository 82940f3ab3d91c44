"""What a file from a repository may set before its user has approved it: describe and tighten, nothing else.

This is the one list. A key that is not on it has no effect from there; a new key is untrusted until somebody adds it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from midturn.core.json_value import Json

LABEL: Final = 64
"""Characters of a label that nobody has approved."""


class AllowedIf(Struct, frozen=True):
    """When a value is allowed: `allows` is given it and the one that holds without it.

    `allowed` says the same in words, `otherwise` what another value would do.
    """

    allows: Callable[[Json, Json], bool]
    allowed: str
    otherwise: str = ""


def _later(otherwise: str, *order: tuple[str, ...]) -> AllowedIf:
    """Allow what comes later in this order than what holds."""
    rank: dict[Json, int] = {name: place for place, names in enumerate(order) for name in names}
    return AllowedIf(lambda value, standing: rank.get(value, -1) > rank.get(standing, -1), "a stricter one", otherwise)


def _smaller(otherwise: str) -> AllowedIf:
    """Allow numbers below the one that holds; any where there is none."""
    return AllowedIf(_is_less, "a smaller one", otherwise)


def _only(wanted: bool, otherwise: str) -> AllowedIf:  # noqa: FBT001 (the value that is allowed)
    return AllowedIf(lambda value, _: value is wanted, f"`{str(wanted).lower()}`", otherwise)


def _is_less(value: Json, standing: Json) -> bool:
    return isinstance(value, int | float) and (standing is None or (isinstance(standing, int | float) and value < standing))


def _is_short(value: Json, _: Json) -> bool:
    return isinstance(value, str) and len(value) <= LABEL


_ANY = AllowedIf(lambda _value, _standing: True, "any")
_ASKING = (("unattended",), ("ask", "edit"), ("skip",))
_DETACHED = _later("goes on without a human", ("auto",), ("defaults",), ("defer",), ("deny",))
_LIMIT = _smaller("raises a limit")
_LIMITS = (
    "question", "context", "options", "form", "shown", "repeats", "rejected_cycles", "cycles", "seconds", "tool_output", "batch",
    "json_depth", "event_line",
)  # fmt: skip
_PARAMETERS = (
    "temperature", "top_p", "top_k", "max_tokens", "seed", "stop_sequences", "presence_penalty", "frequency_penalty", "thinking",
)  # fmt: skip
_TOOL = "conversation.tools.*"

RULES: Final[Mapping[str, AllowedIf]] = {
    "assistant.name": _ANY,
    "display.reasoning": _ANY,
    "prompt.mode": _ANY,
    "prompt.text_menu": _ANY,
    f"{_TOOL}.questions.*.prompt_label": AllowedIf(_is_short, f"up to {LABEL} characters", f"is longer than {LABEL} characters"),
    f"{_TOOL}.questions.*.exclusive": _only(True, "lets others than a human answer"),
    f"{_TOOL}.run": _later("asks less before a tool runs", *_ASKING),
    f"{_TOOL}.result": _later("asks less before a model reads a result", *_ASKING),
    f"{_TOOL}.detached.run": _DETACHED,
    f"{_TOOL}.detached.deliver": _DETACHED,
    f"{_TOOL}.detached.tool": _DETACHED,
    f"{_TOOL}.enable.state": _only(False, "offers a tool"),
    f"{_TOOL}.timeout": _smaller("gives a program more time"),
    **{f"limits.{name}": _LIMIT for name in _LIMITS},
    **{f"assistant.model.parameters.{name}": _ANY for name in _PARAMETERS},
}
"""By key, free names written as `*`."""
