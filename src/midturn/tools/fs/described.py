"""Descriptions of the file tools, from `described.json`.

Every start needs the descriptions, but most turns do not call a file tool. Reading `described.json`
is much faster than importing the module `declared`, from which it is generated.
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
    """The description of one tool. `previews` is true if the tool can preview its first
    question.
    """

    name: str
    description: str
    parameters: JsonObject
    previews: bool


class FileTool:
    """A file tool. Its function is imported on the first call."""

    def __init__(self, described: Described) -> None:
        self.definition = ToolDefinition(
            described["name"], described["description"], described["parameters"]
        )
        """The definition for the model."""
        self.can_preview = described["previews"]
        """Whether the tool can preview its first question."""

    def inquiry_source(self) -> Source:
        """Return the tool's name as the source of its questions."""
        return Source.tool(self.definition.name)

    def preview_question(self, run: ToolRun) -> Question[bool] | None:
        """Return the question that a call would ask first, if it is known."""
        return self._function.preview_question(run) if self.can_preview else None

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the function once."""
        return await self._function.execute(run)

    @cached_property
    def _function(self) -> FunctionTool[..., object]:
        # imported on the first call, because it is slow
        from midturn.tools.fs.declared import FILE_TOOLS

        return next(tool for tool in FILE_TOOLS if tool.name == self.definition.name)


def file_tools() -> dict[str, Tool]:
    """Return the file tools by name."""
    described = cast("list[Described]", msgspec.json.decode(DESCRIBED.read_bytes()))
    return {description["name"]: FileTool(description) for description in described}
