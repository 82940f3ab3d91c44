"""The lowest layer: what holds where nothing is configured, built-in tools included."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec

from midturn.config.check import Checker
from midturn.config.settings import AssistantSettings, DisplaySettings, UserSettings, WebSettings
from midturn.config.tree import BUILT_IN, Tree
from midturn.core.limits import DEFAULT_LIMITS
from midturn.core.names import ASK_USER, BUILT_IN_TOOLS, DESCRIBE_TOOLS
from midturn.core.routing.policy import DetachedPolicies
from midturn.prompts.settings import PromptSettings

_UNATTENDED = {"source": "builtin", "run": "unattended", "result": "unattended"}
_ASKED = {"source": "builtin", "run": "ask", "result": "unattended"}

BUILT_IN_SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(BUILT_IN_TOOLS, _UNATTENDED),
    **dict.fromkeys(("fs_create_file", "fs_delete_file", "fs_move_file"), _ASKED),
    ASK_USER: {
        **_UNATTENDED,
        "enable": {"state": True, "allow_toggle": "if_named"},
        "hidden": True,
        "questions": {"*": {"prompt_label": "Assistant"}},
    },
    DESCRIBE_TOOLS: {**_UNATTENDED, "enable": {"state": True, "allow_toggle": "never"}, "hidden": True},
}

_ANY_TOOL: dict[str, Any] = {
    "run": "ask",
    "result": "unattended",
    "detached": msgspec.to_builtins(DetachedPolicies()),
    "enable": {"state": True, "allow_toggle": "any"},
    "hidden": False,
    "style": "line",
}


@cache
def built_in_layer() -> Tree:
    """Return the defaults as a layer."""
    checker = Checker(BUILT_IN)
    tree = checker.read(
        {
            "assistant": _given(AssistantSettings()),
            "conversation": {"tools": {"*": _ANY_TOOL, **BUILT_IN_SETTINGS}},
            "limits": _given(DEFAULT_LIMITS),
            "prompt": _given(PromptSettings()),
            "display": _given(DisplaySettings()),
            "user": _given(UserSettings()),
            "web": _given(WebSettings()),
        }
    )
    if checker.problems:
        raise AssertionError(checker.problems)
    return tree


def _given(settings: msgspec.Struct) -> dict[str, Any]:
    return _without_none(msgspec.to_builtins(settings))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }
