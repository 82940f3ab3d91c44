"""What a tool says of itself: its name and its description, the rules for them, and the tools of a conversation by name."""

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
"""The header of the questions that the model itself asks: no tool may look like it, in whatever case."""


@lru_cache
def name_problem(name: str) -> str | None:
    """Say what is wrong with a tool's name, if anything."""
    if not re.fullmatch(NAME, name):
        return f"`{name}` is not a name for a tool; allowed are 1 to 64 of the characters A-Z a-z 0-9 _ and -."
    if name.casefold() == RESERVED_NAME.casefold():
        return f"`{name}` is not a name for a tool: questions that the model asks are headed `{RESERVED_NAME}`; give yours another name."
    return None


def missing_deps(tool: str, wanted: str) -> str:
    """Return the message for a run without the `deps` that a tool cannot do without."""
    return (
        f"Tool `{tool}` takes a `ToolContext[{wanted}]`, and the run has no `deps`. Pass them: `deps=…`. "
        f"If the tool can do without, annotate `ToolContext[{wanted} | None]`."
    )


def register(tools: Iterable[Tool], builtins: Iterable[Tool] = ()) -> Mapping[str, Tool]:
    """Map names to tools, the built-in ones first.

    Raises:
        ConfigError: A name cannot be used, is taken twice, or belongs to a built-in tool; every such name is listed.
    """
    registered: dict[str, Tool] = {tool.definition.name: tool for tool in builtins}
    problems: list[str] = []
    for tool in tools:
        name = tool.definition.name
        if problem := name_problem(name):
            problems.append(problem)
        elif name in BUILT_IN_TOOLS:
            problems.append(f"`{name}` is the name of a built-in tool; give yours another.")
        elif name in registered:
            problems.append(f"Two tools have the name `{name}`; rename one.")
        registered[name] = tool
    if problems:
        raise ConfigError("\n".join(problems))
    return registered


# ----------------------------------------------------------------------------------------------------------------------
# Permission modes given by a program: a typo must not let a tool run unasked


RUN_POLICIES: tuple[RunPolicy, ...] = get_args(RunPolicy)


def check_run(tool: str, run: object) -> None:
    """Let a policy pass, or a rule of the program.

    Raises:
        ConfigError: There is no such policy.
    """
    if not callable(run) and run not in RUN_POLICIES:
        known = ", ".join(map(repr, RUN_POLICIES))
        raise ConfigError(f"Tool `{tool}`: run={run!r} is not one of {known}.{did_you_mean(str(run), RUN_POLICIES)}")


def permission_deadline(tool: str, deadline: object) -> timedelta | None:
    """Return the time that a permission may take.

    Raises:
        ConfigError: It is no length of time, too short, or too long.
    """
    if deadline is None:
        return None
    try:
        return timedelta(seconds=deadline_seconds(deadline))
    except QuestionError as error:
        message = f"Tool `{tool}`: deadline={brief(deadline)} is not from a second to 365 days. "
        raise ConfigError(f'{message}Give seconds (`90`), a duration (`"2h"`), or a `timedelta`.') from error


# ----------------------------------------------------------------------------------------------------------------------
# A tool's description of itself: its text, and the source of its questions, checked against its own claim


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
