"""The types of the pytest fixtures, for annotations: `def test_it(scripted_model: MakeScriptedModel) -> None`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from midturn.models.scripted import ScriptedModel
from midturn.testing.prompter import Scripted, ScriptedPrompter, Unscripted
from midturn.testing.tool_run import HasRecord, RecordedPair

Entries: TypeAlias = Sequence[Any]
ToolErrors: TypeAlias = Literal["raise", "allow"]


class MakeScriptedPrompter(Protocol):
    """The fixture `scripted_prompter`."""

    def __call__(self, replies: Mapping[str, Scripted | Any] | None = None, *, unscripted: Unscripted = "raise") -> ScriptedPrompter:
        """Build a scripted prompter, which is verified when the test is over."""
        ...


class MakeScriptedModel(Protocol):
    """The fixture `scripted_model`."""

    def __call__(self, replies: Entries = (), inquiries: Entries = (), *, tool_errors: ToolErrors = "raise") -> ScriptedModel:
        """Build a scripted model, which is verified when the test is over."""
        ...


class RecordedPairs(Protocol):
    """The fixture `recorded_pairs`."""

    def __call__(self, source: HasRecord) -> list[RecordedPair]:
        """Return what a conversation recorded about its questions."""
        ...


class AssertAnswers(Protocol):
    """The fixture `assert_answers`."""

    def __call__(self, source: HasRecord, expected: Mapping[str, Any]) -> None:
        """Fail unless exactly these questions were answered, in this order, with these answers."""
        ...
