"""Arguments of a program, its routes and policies among them, checked at once and read into our types, before anything runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.agent.assembly.reviewers import GivenTarget, Reviewers, converted
from midturn.errors import ConfigError, QuestionError
from midturn.models.provider_model import LibraryModel, is_library_model, reached
from midturn.ports import Model, Tool
from midturn.question.json_value import DEFAULT_LIMITS, Json, Limits, SecretValue, as_json, json_problem
from midturn.question.people import brief, deadline_seconds
from midturn.question.text import BUILT_IN_TOOLS, did_you_mean
from midturn.routing.policy import DetachedPolicies, DetachedPolicy, QuestionPolicy, Target
from midturn.routing.table import AskUser
from midturn.tools.function import FunctionTool
from midturn.tools.names import check_run, register, source_of

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


def kind_of(given: object) -> str:
    """Say what kind of thing was given."""
    return f"a `{type(given).__name__}`"


GivenRoute: TypeAlias = GivenTarget
"""A target, or a table with what configuration takes for a question: `target`, `answer`, `exclusive`, `prompt_label`, `deadline`."""
GivenDetached: TypeAlias = DetachedPolicy | Mapping[str, DetachedPolicy | Mapping[str, DetachedPolicy]]
"""A policy; or policies by kind of prompt; or either by tool, `*` for every other one."""
_POLICIES = cast("tuple[str, ...]", get_args(DetachedPolicy))
_KINDS = ("run", "deliver", "tool")
_OF_A_QUESTION = ("target", "answer", "exclusive", "prompt_label", "deadline")
_DEEPEST = 128


class _PolicyTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of a question, except its answer, which is any value."""

    target: Any = UNSET
    exclusive: bool | UnsetType = UNSET
    prompt_label: str | UnsetType = UNSET
    deadline: Any = UNSET


class Detached(Struct, frozen=True):
    """The detached policies: by tool and kind of prompt, and for every other tool."""

    others: DetachedPolicies
    tools: Mapping[str, DetachedPolicies] = {}

    def of(self, tool: str) -> DetachedPolicies:
        """Return what holds for one tool."""
        return self.tools.get(tool, self.others)


DEFER = Detached(DetachedPolicies("defer", "defer", "defer"))


def _of_no_server(tool: str) -> bool:  # noqa: ARG001  whatever it is called
    return False


def routes_of(
    given: Mapping[str, GivenRoute] | None,
    tools: Iterable[Tool] | None,
    reviewers: Reviewers,
    is_of_server: Callable[[str], bool] = _of_no_server,
) -> dict[str, QuestionPolicy]:
    """Return what is said about questions, by `<tool>.<question>`; what `<tool>.*` says holds for each that says nothing else.

    `tools` are those that there are, where that is known. `is_of_server`: a name may be that of a tool of an MCP server.

    Raises:
        ConfigError: A key names no tool, or a target or its model does not exist.
    """
    if not given:
        return {}
    names = None if tools is None else [tool.definition.name for tool in tools]
    for key in given:
        tool, dot, question = key.partition(".")
        if not (dot and tool and question):
            raise ConfigError(f"routes[{key!r}]: a route is named `<tool>.<question>`, or `<tool>.*` for all questions of a tool.")
        if names is not None and tool not in names and not is_of_server(tool):
            known = ", ".join(f"`{name}`" for name in names) or "none"
            raise ConfigError(f"routes[{key!r}]: there is no tool `{tool}`.{did_you_mean(tool, names)} The tools are: {known}.")
    tables = {key: _table(key, said) for key, said in given.items()}
    return {key: _question(key, *_with_others(key, tables), reviewers) for key in tables}


def _with_others(key: str, tables: Mapping[str, Mapping[str, Any]]) -> tuple[Mapping[str, Any], str]:
    """Return what is said about a question, and what is said about all of its tool where it says nothing; and which of them answers."""
    others = f"{key.partition('.')[0]}.*"
    table = {**tables.get(others, {}), **tables[key]}
    return table, f"routes[{(key if 'answer' in tables[key] else others)!r}]"


def detached_of(given: GivenDetached, tools: Iterable[Tool] | None, is_of_server: Callable[[str], bool] = _of_no_server) -> Detached:
    """Return the detached policies; `tools` are those that there are, where that is known; `is_of_server` as for `routes_of`.

    Raises:
        ConfigError: There is no such policy, kind of prompt or tool.
    """
    if given == "defer":
        return DEFER
    if isinstance(given, str) or not isinstance(cast("object", given), Mapping):
        return Detached(_policies("detached", given, DEFER.others))
    tables = cast("Mapping[str, object]", given)
    if all(name in _KINDS and not isinstance(said, Mapping) for name, said in tables.items()):
        return Detached(_policies("detached", tables, DEFER.others))
    names = None if tools is None else ["*", *(tool.definition.name for tool in tools)]
    for name in tables:
        if names is not None and name not in names and not is_of_server(name):
            known = ", ".join(f"`{one}`" for one in (*_KINDS, *names))
            raise ConfigError(f"detached[{name!r}]: there is no such kind of prompt or tool.{did_you_mean(name, names)} There are {known}.")
    others = _policies("detached['*']", tables.get("*", {}), DEFER.others)
    return Detached(others, {name: _policies(f"detached[{name!r}]", said, others) for name, said in tables.items() if name != "*"})


def _policies(where: str, given: object, others: DetachedPolicies) -> DetachedPolicies:
    """Return the policy of each kind of prompt: one for all of them, or those that a table names and `others` for the rest."""
    if not isinstance(given, Mapping):
        policy = _policy(where, given)
        return DetachedPolicies(policy, policy, policy)
    table = cast("Mapping[str, object]", given)
    for kind in table:
        if kind not in _KINDS:
            raise ConfigError(f"{where}: {kind!r} is no kind of prompt.{did_you_mean(kind, _KINDS)} They are {', '.join(_KINDS)}.")
    return replace(others, **{kind: _policy(f"{where}[{kind!r}]", said) for kind, said in table.items()})


def _policy(where: str, given: object) -> DetachedPolicy:
    if given not in _POLICIES:
        raise ConfigError(f"{where}={given!r}: it is one of {', '.join(repr(policy) for policy in _POLICIES)}.")
    return cast("DetachedPolicy", given)


def _table(key: str, given: object) -> Mapping[str, Any]:
    """Return what is said about a question as a table; a target by itself is one."""
    if not isinstance(given, Mapping):
        return {"target": given}
    table = cast("Mapping[str, Any]", given)
    ours = [name for name in table if name in _OF_A_QUESTION]
    if not ours:
        return {"target": table}
    if others := [name for name in table if name not in _OF_A_QUESTION]:
        raise ConfigError(
            f"routes[{key!r}]: {others[0]!r} is unknown beside {ours[0]!r}.{did_you_mean(others[0], _OF_A_QUESTION)} A question has "
            f"{', '.join(_OF_A_QUESTION)}; settings of an assistant stand in its `target`."
        )
    return table


def _question(key: str, table: Mapping[str, Any], origin: str, reviewers: Reviewers) -> QuestionPolicy:
    where = f"routes[{key!r}]"
    fields = converted(where, {name: said for name, said in table.items() if name != "answer"}, _PolicyTable)
    return QuestionPolicy(
        target=Target() if fields.target is UNSET else reviewers.target(where, fields.target),
        answer=_answer(where, table["answer"]) if "answer" in table else UNSET,
        origin=origin if "answer" in table else None,
        exclusive=None if fields.exclusive is UNSET else fields.exclusive,
        prompt_label=None if fields.prompt_label is UNSET else fields.prompt_label,
        deadline=None if fields.deadline is UNSET else _deadline(where, fields.deadline),
    )


def _deadline(where: str, given: object) -> float:
    try:
        return deadline_seconds(given)
    except QuestionError as error:
        allowed = 'Give seconds from 1 to 31,536,000 (`90`), a duration (`"2h"`), or a `timedelta`.'
        raise ConfigError(f"{where}['deadline']: {brief(given)} is no length of time. {allowed}") from error


def _answer(where: str, given: object) -> Json | SecretValue:
    if isinstance(given, SecretValue):
        return given
    answer = as_json(given)
    if problem := json_problem(answer, _DEEPEST):
        raise ConfigError(f"{where}['answer']: {problem}")
    return cast("Json", answer)
