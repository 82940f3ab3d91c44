"""What every type can do, whoever describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from midturn.core.json_value import Json, JsonObject
from midturn.errors import Problem


class Mismatch(Exception):  # noqa: N818 (it is a finding, reported as a `ToolError`; nobody outside this package sees it)
    """A value does not fit its type; `problems` point into the value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


class ValueType(Protocol):
    """One type."""

    def read(self, value: Json) -> object:
        """Convert JSON, strictly: `"1"` is not a number and `1` is not true.

        Raises:
            Mismatch: The value does not fit.
        """
        ...

    def schema(self) -> JsonObject:
        """Describe the type alone.

        Raises:
            TypeError: It has no JSON Schema.
        """
        ...
