"""A tool in other words: configuration may override how it is described, never what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.core.exchange import ToolDefinition
from midturn.core.json_value import Json, JsonObject
from midturn.core.outcome import Outcome
from midturn.core.question import Question
from midturn.core.source import Source
from midturn.ports import Tool, ToolRun
from midturn.tools.describe_tools import documentation
from midturn.tools.docstring import Documentation


class Wording(Struct, frozen=True, kw_only=True):
    """What is to be said in place of a tool's own words; `parameters` holds the changed properties of its arguments by name."""

    summary: str | None = None
    description: str | None = None
    parameters: Mapping[str, JsonObject] = {}


class Redescribed:
    """`tool` with other words. Where there is a summary, the model is sent it alone."""

    def __init__(self, tool: Tool, wording: Wording) -> None:
        self._tool = tool
        whole = wording.description if wording.description is not None else documentation(tool)
        self.documentation = Documentation(wording.summary or "", whole)
        definition = tool.definition
        description = wording.summary or whole
        self._definition = replace(definition, description=description, parameters=_changed(definition.parameters, wording.parameters))

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return self._definition

    def inquiry_source(self) -> Source:
        """Whoever asks when the tool asks: no words change that."""
        return self._tool.inquiry_source()

    @property
    def can_foretell(self) -> bool:
        """Whether the tool can say what it would ask first."""
        return getattr(self._tool, "can_foretell", False)

    def foretell(self, run: ToolRun) -> Question[bool] | None:
        """Return what the tool would ask first."""
        foretell: Callable[[ToolRun], Question[bool] | None] | None = getattr(self._tool, "foretell", None)
        return foretell(run) if foretell else None

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the tool."""
        return await self._tool.execute(run)


def _changed(parameters: JsonObject, properties: Mapping[str, JsonObject]) -> JsonObject:
    """Lay the changed properties over the tool's own, keyword by keyword."""
    own = cast("Mapping[str, JsonObject]", parameters.get("properties", {}))
    changed: dict[str, Json] = {name: {**own.get(name, {}), **properties[name]} for name in properties}
    return {**parameters, "properties": {**own, **changed}} if changed else parameters
