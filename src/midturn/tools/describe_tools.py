"""`describe_tools`: the full documentation of tools of which the model is sent a summary alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.outcome import Outcome, Success, ToolError
from midturn.events.types import Source
from midturn.exchange import ToolDefinition
from midturn.ports import Tool, ToolRun
from midturn.question.json_text import compact
from midturn.question.json_value import Json, JsonObject
from midturn.question.question import Question
from midturn.question.text import DESCRIBE_TOOLS
from midturn.tools.names import Documentation

if TYPE_CHECKING:
    from midturn.events.outcome import Outcome


DESCRIPTION = """\
Read the full documentation of tools before you use them: what their summaries leave out, and every parameter. Name all the tools that \
you are about to use in one call."""
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "The names of the tools, as they are offered to you.",
        },
    },
    "required": ["tools"],
}


class DescribeTools:
    """The built-in tool that looks the others up. It asks nothing and changes nothing.

    A tool may have an attribute `documentation` with a `text`: its whole documentation. Without one, its description is all there is.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.definition.name: tool for tool in tools}

    @property
    def definition(self) -> ToolDefinition:
        """The definition that is sent to the model, with the names of the tools whose descriptions are longer."""
        more = [f"`{name}`" for name, tool in self._tools.items() if documentation(tool) != tool.definition.description]
        known_by_summary = f"\n\nTools with more documentation than you see: {', '.join(more)}." if more else ""
        return ToolDefinition(DESCRIBE_TOOLS, DESCRIPTION + known_by_summary, PARAMETERS)

    def inquiry_source(self) -> Source:
        """It never asks; if it did, it would be the one who asks."""
        return Source.tool(DESCRIBE_TOOLS)

    async def execute(self, run: ToolRun) -> Outcome:
        """Return what is known about the tools that are named, in their order."""
        names = _names(run.call.arguments)
        if names is None:
            example = compact({"tools": [*self._known()[:1]]})
            return ToolError(f"{DESCRIBE_TOOLS}: `tools` must be an array of tool names, such as {example}.")
        unknown = [name for name in names if name not in self._tools]
        known = [_page(self._tools[name]) for name in dict.fromkeys(names) if name in self._tools]
        if unknown:
            known.append(f"There is no tool named {', '.join(unknown)}. The tools are {', '.join(self._known())}.")
        text = "\n\n".join(known)
        return ToolError(text) if len(unknown) == len(names) else Success(text)

    def _known(self) -> list[str]:
        return sorted(self._tools)


def documentation(tool: Tool) -> str:
    """Return the whole documentation of a tool: its own, or what is sent with every request."""
    own: object = getattr(tool, "documentation", None)
    text: object = getattr(own, "text", None)
    return text if isinstance(text, str) and text else tool.definition.description


def _page(tool: Tool) -> str:
    definition = tool.definition
    parameters = compact(definition.parameters)
    return f"# {definition.name}\n\n{documentation(tool)}\n\nParameters (JSON Schema): {parameters}"


def _names(arguments: Json) -> list[str] | None:
    """Return the names that a call asks for, or None where it asks for none; one name by itself is taken as a list of one."""
    named = cast("Mapping[str, Json]", arguments).get("tools") if isinstance(arguments, dict) else None
    listed = [named] if isinstance(named, str) else named
    if not isinstance(listed, list) or not listed:
        return None
    names = [name for name in cast("list[Json]", listed) if isinstance(name, str)]
    return names if len(names) == len(listed) else None


# ----------------------------------------------------------------------------------------------------------------------
# A tool in other words: configuration may override how it is described, never what it is


class Wording(Struct, frozen=True, kw_only=True):
    """Words in place of a tool's own; `parameters` holds the changed properties of its arguments by name."""

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
        """The definition that the model is sent."""
        return self._definition

    def inquiry_source(self) -> Source:
        """The source of the tool's questions: no words change that."""
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
