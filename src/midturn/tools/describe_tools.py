"""The built-in tool `describe_tools`. It returns the full documentation of tools for which the
model received only a summary.
"""

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
    """The built-in tool that returns the documentation of other tools. It does not ask questions or
    change anything.

    A tool can have an attribute `documentation` whose `text` is its full documentation. Otherwise,
    its description is used.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.definition.name: tool for tool in tools}

    @property
    def definition(self) -> ToolDefinition:
        """The definition for the model. It lists the tools that have more documentation."""
        more = [
            f"`{name}`"
            for name, tool in self._tools.items()
            if documentation(tool) != tool.definition.description
        ]
        note = f"\n\nTools with more documentation than you see: {', '.join(more)}." if more else ""
        return ToolDefinition(DESCRIBE_TOOLS, DESCRIPTION + note, PARAMETERS)

    def inquiry_source(self) -> Source:
        """Return this tool as the source, although it never asks questions."""
        return Source.tool(DESCRIBE_TOOLS)

    async def execute(self, run: ToolRun) -> Outcome:
        """Return the documentation of the named tools, in order."""
        names = _names(run.call.arguments)
        if names is None:
            example = compact({"tools": [*self._known()[:1]]})
            return ToolError(
                f"{DESCRIBE_TOOLS}: `tools` must be an array of tool names, such as {example}."
            )
        unknown = [name for name in names if name not in self._tools]
        known = [_page(self._tools[name]) for name in dict.fromkeys(names) if name in self._tools]
        if unknown:
            known.append(
                f"There is no tool named {', '.join(unknown)}. The tools are"
                f" {', '.join(self._known())}."
            )
        text = "\n\n".join(known)
        return ToolError(text) if len(unknown) == len(names) else Success(text)

    def _known(self) -> list[str]:
        return sorted(self._tools)


def documentation(tool: Tool) -> str:
    """Return the full documentation of a tool, or the description that is sent with every request
    if there is no other.
    """
    own: object = getattr(tool, "documentation", None)
    text: object = getattr(own, "text", None)
    return text if isinstance(text, str) and text else tool.definition.description


def _page(tool: Tool) -> str:
    definition = tool.definition
    parameters = compact(definition.parameters)
    return f"# {definition.name}\n\n{documentation(tool)}\n\nParameters (JSON Schema): {parameters}"


def _names(arguments: Json) -> list[str] | None:
    """Return the requested tool names, or None if the argument is invalid. A single name counts as
    a list with one name.
    """
    named = (
        cast("Mapping[str, Json]", arguments).get("tools") if isinstance(arguments, dict) else None
    )
    listed = [named] if isinstance(named, str) else named
    if not isinstance(listed, list) or not listed:
        return None
    names = [name for name in cast("list[Json]", listed) if isinstance(name, str)]
    return names if len(names) == len(listed) else None


# --------------------------------------------------------------------------------------------------
# Tools with overridden descriptions. The configuration can change the description of a tool, but
# not its behaviour


class Wording(Struct, frozen=True, kw_only=True):
    """Replacements for a tool's texts. `parameters` contains the changed properties of its
    arguments by name.
    """

    summary: str | None = None
    description: str | None = None
    parameters: Mapping[str, JsonObject] = {}


class Redescribed:
    """A tool with overridden texts. If there is a summary, the model receives only the summary."""

    def __init__(self, tool: Tool, wording: Wording) -> None:
        self._tool = tool
        description = (
            wording.description if wording.description is not None else documentation(tool)
        )
        self.documentation = Documentation(wording.summary or "", description)
        definition = tool.definition
        sent = wording.summary or description
        self._definition = replace(
            definition,
            description=sent,
            parameters=_changed(definition.parameters, wording.parameters),
        )

    @property
    def definition(self) -> ToolDefinition:
        """The definition for the model."""
        return self._definition

    def inquiry_source(self) -> Source:
        """Return the source of the wrapped tool's questions. It does not depend on the texts."""
        return self._tool.inquiry_source()

    @property
    def can_preview(self) -> bool:
        """Whether the tool can preview its first question."""
        return getattr(self._tool, "can_preview", False)

    def preview_question(self, run: ToolRun) -> Question[bool] | None:
        """Return the question that the tool would ask first."""
        preview_question: Callable[[ToolRun], Question[bool] | None] | None = getattr(
            self._tool, "preview_question", None
        )
        return preview_question(run) if preview_question else None

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the tool."""
        return await self._tool.execute(run)


def _changed(parameters: JsonObject, properties: Mapping[str, JsonObject]) -> JsonObject:
    """Merge the changed properties into the tool's own properties, keyword by keyword."""
    own = cast("Mapping[str, JsonObject]", parameters.get("properties", {}))
    changed: dict[str, Json] = {
        name: {**own.get(name, {}), **properties[name]} for name in properties
    }
    return {**parameters, "properties": {**own, **changed}} if changed else parameters
