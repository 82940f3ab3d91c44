"""The source of a tool's questions, checked against its own claim."""

from __future__ import annotations

from collections.abc import Callable

from midturn.errors import ConfigError
from midturn.ports import Tool
from midturn.record.events import Source
from midturn.tools.names import name_problem
from midturn.values.text import ASK_USER, BUILT_IN_TOOLS


def source_of(tool: Tool) -> Source:
    """Return who asks when this tool asks: the tool under its name, unless it says otherwise and may.

    Raises:
        ConfigError: What it says is not a source, or the name of something else.
    """
    name = tool.definition.name
    says: Callable[[], object] | None = getattr(tool, "inquiry_source", None)
    source = Source.tool(name) if says is None else says()
    if problem := _problem(name, source):
        raise ConfigError(f"The tool `{name}`: its `inquiry_source()` returned {problem} Leave it out: it is then `{name}` that asks.")
    return source if isinstance(source, Source) else Source.tool(name)


def _problem(name: str, source: object) -> str | None:
    match source:
        case Source("tool", own) if own == name:
            return None
        case Source("assistant") if name == ASK_USER:
            return None
        case Source("other", str(own)) if own not in BUILT_IN_TOOLS and name_problem("_".join(own.split(" "))) is None:
            return None  # a name of several words, such as "Claude Code"
        case Source():
            return f"{source!r}, which is not this tool."
        case _:
            return f"a `{type(source).__name__}`; it returns a `Source`."
