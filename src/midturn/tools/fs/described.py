"""The file tools as a model reads them, from `described.json`: at every start each is told of, and most turns call none.

The functions in `declared` say what stands there, and reading it off them takes longer than everything else about tools.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

import msgspec

from midturn.events.types import Source
from midturn.exchange import ToolDefinition
from midturn.ports import Tool, ToolRun
from midturn.question.json_value import JsonObject

if TYPE_CHECKING:
    from midturn.events.outcome import Outcome
    from midturn.question.question import Question
    from midturn.tools.function import FunctionTool

DESCRIBED = Path(__file__).with_name("described.json")


class Described(TypedDict):
    """One tool there; `foretells` says whether it can tell what it would ask first."""

    name: str
    description: str
    parameters: JsonObject
    foretells: bool


class FileTool:
    """A file tool; its function is loaded with its first call."""

    def __init__(self, described: Described) -> None:
        self.definition = ToolDefinition(described["name"], described["description"], described["parameters"])
        """The definition that the model is sent."""
        self.can_foretell = described["foretells"]
        """Whether it can say what it would ask first."""

    def inquiry_source(self) -> Source:
        """The tool asks, under its name."""
        return Source.tool(self.definition.name)

    def foretell(self, run: ToolRun) -> Question[bool] | None:
        """Return what a call would ask first, as far as that is known."""
        return self._function.foretell(run) if self.can_foretell else None

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the function once."""
        return await self._function.execute(run)

    @cached_property
    def _function(self) -> FunctionTool[..., object]:
        from midturn.tools.fs.declared import FILE_TOOLS  # only a tool that is called has something to do

        return next(tool for tool in FILE_TOOLS if tool.name == self.definition.name)


def file_tools() -> dict[str, Tool]:
    """Return the file tools by name."""
    described = cast("list[Described]", msgspec.json.decode(DESCRIBED.read_bytes()))
    return {one["name"]: FileTool(one) for one in described}
