"""Types of the pytest fixtures, for annotations:
`def test_it(scripted_model: MakeScriptedModel) -> None`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from midturn.models.scripted import ScriptedModel
from midturn.testing.prompter import Scripted, ScriptedPrompter, Unscripted
from midturn.testing.tool_run import HasRecord, RecordedPair

Entries: TypeAlias = Sequence[Any]
ToolErrors: TypeAlias = Literal["raise", "allow"]


class MakeScriptedPrompter(Protocol):
    """Type of the fixture `scripted_prompter`."""

    def __call__(
        self,
        replies: Mapping[str, Scripted | Any] | None = None,
        *,
        unscripted: Unscripted = "raise",
    ) -> ScriptedPrompter:
        """Create a scripted prompter. It is verified at the end of the test."""
        ...


class MakeScriptedModel(Protocol):
    """Type of the fixture `scripted_model`."""

    def __call__(
        self, replies: Entries = (), inquiries: Entries = (), *, tool_errors: ToolErrors = "raise"
    ) -> ScriptedModel:
        """Create a scripted model. It is verified at the end of the test."""
        ...


class RecordedPairs(Protocol):
    """Type of the fixture `recorded_pairs`."""

    def __call__(self, source: HasRecord) -> list[RecordedPair]:
        """Return the recorded questions of a conversation with their responses."""
        ...


class AssertAnswers(Protocol):
    """Type of the fixture `assert_answers`."""

    def __call__(self, source: HasRecord, expected: Mapping[str, Any]) -> None:
        """Fail unless exactly these questions were answered, in this order, with these answers."""
        ...
