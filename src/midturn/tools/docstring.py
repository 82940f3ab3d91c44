"""A tool's description of itself: its text, read from a docstring, and the source of its questions, checked against its own claim."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.errors import ConfigError
from midturn.record.events import Source
from midturn.tools.names import name_problem
from midturn.values.text import ASK_USER, BUILT_IN_TOOLS

if TYPE_CHECKING:
    from midturn.ports import Tool


class Documentation(Struct, frozen=True):
    """The summary (one sentence), the description (what follows it) and the parameters' descriptions by name."""

    summary: str = ""
    description: str = ""
    parameters: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        """Summary and description, as a model reads them."""
        return "\n\n".join(part for part in (self.summary, self.description) if part)


def read_docstring(docstring: str | None) -> Documentation:
    """Read a docstring of any common style (Google, NumPy, reST, Epydoc)."""
    if not docstring or not docstring.strip():
        return Documentation()
    cleaned = inspect.cleandoc(docstring)
    if "\n" not in cleaned:
        return Documentation(cleaned)
    from docstring_parser import parse

    parsed = parse(cleaned)
    return Documentation(
        summary=_one_line(parsed.short_description),
        description=(parsed.long_description or "").strip(),
        parameters={param.arg_name: _one_line(param.description) for param in parsed.params if param.description},
    )


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


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
