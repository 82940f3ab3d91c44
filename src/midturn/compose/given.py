"""Arguments of a program, checked at once and read into our types, before anything runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

import msgspec

from midturn.errors import ConfigError
from midturn.models.provider_model import LibraryModel, is_library_model, reached
from midturn.ports import Model, Tool
from midturn.routing.table import AskUser
from midturn.tools.function import FunctionTool
from midturn.tools.names import check_run, register
from midturn.tools.source import source_of
from midturn.values.limits import DEFAULT_LIMITS, Limits
from midturn.values.text import BUILT_IN_TOOLS, did_you_mean

GivenTool: TypeAlias = Tool | Callable[..., Any]
T = TypeVar("T")
_OF_A_TOOL = ("definition", "execute")


def tools_of(given: Iterable[GivenTool]) -> list[Tool]:
    """Return the tools; an undecorated function becomes one.

    Raises:
        TypeError: Something is not a tool, or a function cannot become one.
        ConfigError: A name cannot be used, is taken twice, or belongs to a built-in tool; a tool claims another's name, or is to be
            `run` in a way that there is none of.
    """
    if not isinstance(given, (list, tuple)) and (_is_tool(given) or not isinstance(cast("object", given), Iterable)):
        raise TypeError("`tools` takes a list: `tools=[deploy]`.")
    tools = [_tool(one) for one in given]
    built_in = [tool for tool in tools if _is_built_in(tool)]
    register([tool for tool in tools if tool not in built_in] if built_in else tools, built_in)
    for tool in tools:
        source_of(tool)
        if isinstance(run := getattr(tool, "run", None), str):  # of a tool that is not ours it may be a method
            check_run(tool.definition.name, run)
    return tools


def limits_of(given: Limits | Mapping[str, object] | None) -> Limits:
    """Return the limits; a mapping changes those that it names.

    Raises:
        ConfigError: A name is unknown, or a value is not a number, or so small that nothing could be asked.
    """
    if given is None or given is DEFAULT_LIMITS:
        return DEFAULT_LIMITS
    named = msgspec.structs.asdict(given) if isinstance(given, Limits) else given
    known = [field.name for field in msgspec.structs.fields(Limits)]
    for name in named:
        if name not in known:
            raise ConfigError(f"limits[{name!r}] is unknown.{did_you_mean(name, known)} The limits are: {', '.join(known)}.")
    limits = converted("limits", named, Limits)
    for name, value in msgspec.structs.asdict(limits).items():
        least = 0 if name == "seconds" else 1
        if value is not None and not value >= least:
            raise ConfigError(f"limits[{name!r}] is {value}: give at least {least}.")
    return limits


def check_model(given: object) -> Model:
    """Return a model that the program made itself.

    Raises:
        TypeError: `given` is not a model.
    """
    if is_library_model(given):
        return reached(cast("LibraryModel", given))
    if inspect.isclass(given) or not callable(getattr(given, "stream", None)) or not hasattr(given, "name"):
        raise TypeError(f"`model` takes an id such as 'anthropic/claude-sonnet-5-5', a model, or one of pydantic-ai, not {kind_of(given)}.")
    return cast("Model", given)


def check_instructions(given: T) -> T:
    """Return the system prompt, or the function that makes it.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(given, str) or (callable(given) and not inspect.isclass(given) and not inspect.iscoroutinefunction(given)):
        return given
    raise TypeError(f"`instructions` takes text, or a function `(deps) -> str` that is not async, not {kind_of(given)}.")


def check_prompter(given: T) -> T:
    """Return the prompter.

    Raises:
        TypeError: It cannot be asked.
    """
    if given is None:
        return given
    if inspect.isclass(given):
        raise TypeError(f"`prompter` takes an object, not the class `{given.__name__}`: write `prompter={given.__name__}(…)`.")
    if not callable(getattr(given, "prompt", None)):
        raise TypeError(f"`prompter` takes something with `async def prompt(self, prompt)`, not {kind_of(given)}.")
    return given


def check_store(given: T) -> T:
    """Return the store.

    Raises:
        TypeError: Conversations cannot be kept in it.
    """
    if isinstance(given, str | PurePath):
        raise TypeError(f"`store` takes a store, not where it is: write `store=open_store({str(given)!r})`.")
    if inspect.isclass(given) or not callable(getattr(given, "pending", None)):
        raise TypeError(f"`store` takes a store, such as `open_store(…)` returns, not {kind_of(given)}.")
    return given


def check_may_answer(given: T) -> T:
    """Return who decides about answers.

    Raises:
        TypeError: It cannot be asked.
    """
    if given is not None and not callable(given):
        raise TypeError(f"`may_answer` takes a function `(question, user) -> bool`, not {kind_of(given)}.")
    return given


def _tool(given: object) -> Tool:
    if _is_bound(given):
        return given
    hint = " The tool that lets the model ask is `midturn.ask_user`." if given is AskUser or isinstance(given, AskUser) else ""
    if inspect.isclass(given):
        raise TypeError(f"`{given.__name__}` is a class; a tool is an object.{hint}")
    if getattr(given, "is_unbound", False):
        name = cast("Tool", given).definition.name
        raise TypeError(f"`{name}` is a method: pass the one of an object, `instance.{name}`.")
    if _is_tool(given):
        return cast("Tool", given)
    if inspect.isroutine(given) or isinstance(given, functools.partial):
        return FunctionTool(cast("Callable[..., Any]", given))
    raise TypeError(f"{kind_of(given)} is not a tool. A tool is a function, or an object with {', '.join(map(repr, _OF_A_TOOL))}.{hint}")


def _is_bound(given: object) -> TypeGuard[Tool]:
    """Say whether something is a tool of ours that can be called as it is: nearly every one is."""
    return isinstance(given, FunctionTool) and not given.is_unbound


def _is_tool(given: object) -> bool:
    return not inspect.isclass(given) and hasattr(given, "definition") and hasattr(given, "execute")


def _is_built_in(tool: Tool) -> bool:
    ours = type(tool).__module__.startswith("midturn.tools.") and not isinstance(tool, FunctionTool)
    return ours and tool.definition.name in BUILT_IN_TOOLS


def converted(where: str, value: object, into: type[T]) -> T:
    """Return a value as it is kept.

    Raises:
        ConfigError: It is something else.
    """
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}.") from error


def kind_of(given: object) -> str:
    """Say what kind of thing was given."""
    return f"a `{type(given).__name__}`"
