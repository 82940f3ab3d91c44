"""Test helpers: scripted prompters and models, recorded answers, and conformance checks for stores
and adapters.

`midturn.testing.plugin` is the pytest plugin. Names are imported on first use, because pytest loads
this package in every project in which midturn is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midturn.testing.adapters.check import (
        StoryResult,
        adapter_stories,
        check_adapter,
        check_adapter_sync,
    )
    from midturn.testing.adapters.program import AdapterHarness
    from midturn.testing.clock import Clock
    from midturn.testing.fixtures import (
        AssertAnswers,
        MakeScriptedModel,
        MakeScriptedPrompter,
        RecordedPairs,
    )
    from midturn.testing.people import tell_people, tell_people_sync
    from midturn.testing.prompter import OutOfScript, ScriptedPrompter
    from midturn.testing.store import check_store, check_store_sync
    from midturn.testing.tool_run import (
        RecordedPair,
        ToolRunReport,
        assert_answers,
        recorded_pairs,
        run_tool,
        run_tool_sync,
    )

_MODULES = {
    "AdapterHarness": "adapters.program",
    "AssertAnswers": "fixtures",
    "Clock": "clock",
    "MakeScriptedModel": "fixtures",
    "MakeScriptedPrompter": "fixtures",
    "RecordedPair": "tool_run",
    "RecordedPairs": "fixtures",
    "ScriptedPrompter": "prompter",
    "ToolRunReport": "tool_run",
    "OutOfScript": "prompter",
    "StoryResult": "adapters.check",
    "adapter_stories": "adapters.check",
    "assert_answers": "tool_run",
    "check_adapter": "adapters.check",
    "check_adapter_sync": "adapters.check",
    "check_store": "store",
    "check_store_sync": "store",
    "recorded_pairs": "tool_run",
    "run_tool": "tool_run",
    "run_tool_sync": "tool_run",
    "tell_people": "people",
    "tell_people_sync": "people",
}

__all__ = [
    "AdapterHarness",
    "AssertAnswers",
    "Clock",
    "MakeScriptedModel",
    "MakeScriptedPrompter",
    "OutOfScript",
    "RecordedPair",
    "RecordedPairs",
    "ScriptedPrompter",
    "StoryResult",
    "ToolRunReport",
    "adapter_stories",
    "assert_answers",
    "check_adapter",
    "check_adapter_sync",
    "check_store",
    "check_store_sync",
    "recorded_pairs",
    "run_tool",
    "run_tool_sync",
    "tell_people",
    "tell_people_sync",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
