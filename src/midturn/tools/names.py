"""Names and documentation of tools, their validation, and the registry of tools by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, get_args

from msgspec import Struct

from midturn.errors import ConfigError, QuestionError
from midturn.events.types import Source
from midturn.question.people import brief, deadline_seconds
from midturn.question.text import ASK_USER, BUILT_IN_TOOLS, NAME, did_you_mean
from midturn.routing.policy import RunPolicy

if TYPE_CHECKING:
    from midturn.ports import Tool


RESERVED_NAME = "Assistant"
"""The heading of questions from the model. No tool may have this name, regardless of case."""


@lru_cache
def name_problem(name: str) -> str | None:
    """Return the reason why a tool's name is invalid, or None."""
    if not re.fullmatch(NAME, name):
        return (
            f"`{name}` is not a valid tool name; use 1 to 64 of the characters A-Z a-z 0-9 _ and -."
        )
    if name.casefold() == RESERVED_NAME.casefold():
        return (
            f"`{name}` is not a valid tool name, because `{RESERVED_NAME}` is the header of"
            " questions asked by the model. Choose another name."
        )
    return None


def missing_deps(tool: str, wanted: str) -> str:
    """Return the error message for a run without the `deps` that a tool requires."""
    return (
        f"Tool `{tool}` needs `deps` (`ToolContext[{wanted}]`), but the run has none. Pass"
        f" `deps=…`. If the tool works without them, annotate `ToolContext[{wanted} | None]`."
    )


def register(tools: Iterable[Tool], builtins: Iterable[Tool] = ()) -> Mapping[str, Tool]:
    """Return the tools by name, built-in tools first.

    Raises:
        ConfigError: A name is invalid, used twice, or belongs to a built-in tool. The message lists
            every such name.
    """
    registered: dict[str, Tool] = {tool.definition.name: tool for tool in builtins}
    problems: list[str] = []
    for tool in tools:
        name = tool.definition.name
        if problem := name_problem(name):
            problems.append(problem)
        elif name in BUILT_IN_TOOLS:
            problems.append(f"`{name}` is the name of a built-in tool. Choose another name.")
        elif name in registered:
            problems.append(f"Two tools have the name `{name}`. Rename one of them.")
        registered[name] = tool
    if problems:
        raise ConfigError("\n".join(problems))
    return registered


# --------------------------------------------------------------------------------------------------
# Validation of permission policies: a typo must not let a tool run without asking


RUN_POLICIES: tuple[RunPolicy, ...] = get_args(RunPolicy)


def check_run(tool: str, run: object) -> None:
    """Raise an error if a permission policy is neither valid nor a function.

    Raises:
        ConfigError: The policy is unknown.
    """
    if not callable(run) and run not in RUN_POLICIES:
        known = ", ".join(map(repr, RUN_POLICIES))
        raise ConfigError(
            f"Tool `{tool}`: run={run!r} is not one of"
            f" {known}.{did_you_mean(str(run), RUN_POLICIES)}"
        )


def permission_deadline(tool: str, deadline: object) -> timedelta | None:
    """Convert the time limit for a permission.

    Raises:
        ConfigError: The value is invalid, too short or too long.
    """
    if deadline is None:
        return None
    try:
        return timedelta(seconds=deadline_seconds(deadline))
    except QuestionError as error:
        message = f"Tool `{tool}`: deadline={brief(deadline)} must be from 1 second to 365 days. "
        raise ConfigError(
            f'{message}Give seconds (`90`), a duration (`"2h"`), or a `timedelta`.'
        ) from error


# --------------------------------------------------------------------------------------------------
# Documentation of tools, and the source of their questions


class Documentation(Struct, frozen=True):
    """The summary (one sentence), the description (the text after it) and the descriptions of the
    parameters by name.
    """

    summary: str = ""
    description: str = ""
    parameters: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        """Summary and description, as the model reads them."""
        return "\n\n".join(part for part in (self.summary, self.description) if part)


def read_docstring(docstring: str | None) -> Documentation:
    """Parse a docstring in a common style (Google, NumPy, reST, Epydoc)."""
    if not docstring or not docstring.strip():
        return Documentation()
    cleaned = inspect.cleandoc(docstring)
    if "\n" not in cleaned:
        return Documentation(cleaned)
    from docstring_parser import parse

    parsed = parse(_with_summary_on_one_line(cleaned))
    return Documentation(
        summary=_one_line(parsed.short_description),
        description=(parsed.long_description or "").strip(),
        parameters={
            param.arg_name: _one_line(param.description)
            for param in parsed.params
            if param.description
        },
    )


_SECTION = re.compile(
    r"(args|arguments|parameters|params|returns?|raises|yields|attributes|examples?|notes?):?$|[:@]\w",
    re.IGNORECASE,
)


def _with_summary_on_one_line(docstring: str) -> str:
    """Join the lines of the first paragraph, because the parser reads one line as the summary."""
    lines = docstring.split("\n")
    end = next(
        (at for at, line in enumerate(lines) if not line.strip() or _SECTION.match(line)),
        len(lines),
    )
    return "\n".join([" ".join(line.strip() for line in lines[:end]), *lines[end:]])


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def source_of(tool: Tool) -> Source:
    """Return the source of a tool's questions: the result of `inquiry_source()`, or the tool itself
    if there is no such method.

    Raises:
        ConfigError: `inquiry_source()` did not return a source, or returned the name of another
            tool.
    """
    name = tool.definition.name
    get_source: Callable[[], object] | None = getattr(tool, "inquiry_source", None)
    source = Source.tool(name) if get_source is None else get_source()
    if problem := _problem(name, source):
        raise ConfigError(
            f"The tool `{name}`: its `inquiry_source()` returned {problem} Remove the method, so"
            f" that questions come from `{name}`."
        )
    return source if isinstance(source, Source) else Source.tool(name)


def _problem(name: str, source: object) -> str | None:
    match source:
        case Source("tool", own) if own == name:
            return None
        case Source("assistant") if name == ASK_USER:
            return None
        case Source("other", str(own)) if (
            own not in BUILT_IN_TOOLS and name_problem("_".join(own.split(" "))) is None
        ):
            return None  # a name with several words, such as "Claude Code"
        case Source():
            return f"{source!r}, which is not this tool."
        case _:
            return f"a `{type(source).__name__}`; it must return a `Source`."
