"""Checks the arguments of `Agent` and `Inquirer`, and converts them to midturn's own types."""

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
from midturn.models.provider_model import LibraryModel, is_library_model, wrap_library_model
from midturn.ports import Model, Tool
from midturn.question.json_value import (
    DEFAULT_LIMITS,
    Json,
    Limits,
    SecretValue,
    as_json,
    json_problem,
)
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
    """Check the argument `tools` and return the tools. Undecorated functions are converted to
    tools.

    Raises:
        TypeError: An item is not a tool, or a function cannot be converted to one.
        ConfigError: The name of a tool is not allowed, is used twice, or belongs to a built-in
            tool; the `inquiry_source` of a tool names another tool; or the `run` policy of a tool
            does not exist.
    """
    if not isinstance(given, (list, tuple)) and (
        _is_tool(given) or not isinstance(cast("object", given), Iterable)
    ):
        raise TypeError("`tools` takes a list: `tools=[deploy]`.")
    tools = [_tool(one) for one in given]
    built_in = [tool for tool in tools if _is_built_in(tool)]
    register([tool for tool in tools if tool not in built_in] if built_in else tools, built_in)
    for tool in tools:
        source_of(tool)
        # the attribute of another package's tool may be a method
        if isinstance(run := getattr(tool, "run", None), str):
            check_run(tool.definition.name, run)
    return tools


def limits_of(given: Limits | Mapping[str, object] | None) -> Limits:
    """Return the limits. A mapping changes only the limits that it contains.

    Raises:
        ConfigError: A name is unknown, or a value is not a number or too small.
    """
    if given is None or given is DEFAULT_LIMITS:
        return DEFAULT_LIMITS
    named = msgspec.structs.asdict(given) if isinstance(given, Limits) else given
    known = [field.name for field in msgspec.structs.fields(Limits)]
    for name in named:
        if name not in known:
            raise ConfigError(
                f"limits[{name!r}] is unknown.{did_you_mean(name, known)} The limits are:"
                f" {', '.join(known)}."
            )
    limits = converted("limits", named, Limits)
    for name, value in msgspec.structs.asdict(limits).items():
        least = 0 if name == "seconds" else 1
        if value is not None and not value >= least:
            raise ConfigError(f"limits[{name!r}] is {value}: it must be at least {least}.")
    return limits


def check_model(given: object) -> Model:
    """Check the argument `model` and return the model. A pydantic-ai model is wrapped.

    Raises:
        TypeError: `given` is not a model.
    """
    if is_library_model(given):
        return wrap_library_model(cast("LibraryModel", given))
    if (
        inspect.isclass(given)
        or not callable(getattr(given, "stream", None))
        or not hasattr(given, "name")
    ):
        raise TypeError(
            "`model` takes an id such as 'anthropic/claude-sonnet-5-5', a model, or a pydantic-ai"
            f" model, not {kind_of(given)}."
        )
    return cast("Model", given)


def check_instructions(given: T) -> T:
    """Check the argument `instructions` and return it.

    Raises:
        TypeError: `given` is neither a string nor a function.
    """
    if isinstance(given, str) or (
        callable(given) and not inspect.isclass(given) and not inspect.iscoroutinefunction(given)
    ):
        return given
    raise TypeError(
        "`instructions` must be a string, or a function `(deps) -> str` that is not async, not"
        f" {kind_of(given)}."
    )


def check_prompter(given: T) -> T:
    """Check the argument `prompter` and return it.

    Raises:
        TypeError: `given` has no method `prompt`.
    """
    if given is None:
        return given
    if inspect.isclass(given):
        raise TypeError(
            f"`prompter` takes an object, not the class `{given.__name__}`: write"
            f" `prompter={given.__name__}(…)`."
        )
    if not callable(getattr(given, "prompt", None)):
        raise TypeError(
            "`prompter` takes an object with `async def prompt(self, prompt)`, not"
            f" {kind_of(given)}."
        )
    return given


def check_store(given: T) -> T:
    """Check the argument `store` and return it.

    Raises:
        TypeError: `given` is not a store.
    """
    if isinstance(given, str | PurePath):
        raise TypeError(
            f"`store` takes a store, not its address: write `store=open_store({str(given)!r})`."
        )
    if inspect.isclass(given) or not callable(getattr(given, "pending", None)):
        raise TypeError(
            f"`store` takes a store, such as the result of `open_store(…)`, not {kind_of(given)}."
        )
    return given


def check_may_answer(given: T) -> T:
    """Check the argument `may_answer` and return it.

    Raises:
        TypeError: `given` is not a function.
    """
    if given is not None and not callable(given):
        raise TypeError(
            f"`may_answer` takes a function `(question, user) -> bool`, not {kind_of(given)}."
        )
    return given


def _tool(given: object) -> Tool:
    if _is_bound(given):
        return given
    hint = (
        " The tool that lets the model ask is `midturn.ask_user`."
        if given is AskUser or isinstance(given, AskUser)
        else ""
    )
    if inspect.isclass(given):
        raise TypeError(f"`{given.__name__}` is a class; a tool is an object.{hint}")
    if getattr(given, "is_unbound", False):
        name = cast("Tool", given).definition.name
        raise TypeError(
            f"`{name}` is a method without its object: pass `instance.{name}`, where `instance` is"
            " the object."
        )
    if _is_tool(given):
        return cast("Tool", given)
    if inspect.isroutine(given) or isinstance(given, functools.partial):
        return FunctionTool(cast("Callable[..., Any]", given))
    raise TypeError(
        f"{kind_of(given)} is not a tool. A tool is a function, or an object with"
        f" {', '.join(map(repr, _OF_A_TOOL))}.{hint}"
    )


def _is_bound(given: object) -> TypeGuard[Tool]:
    """Return whether this is a bound function tool. Most tools are."""
    return isinstance(given, FunctionTool) and not given.is_unbound


def _is_tool(given: object) -> bool:
    return not inspect.isclass(given) and hasattr(given, "definition") and hasattr(given, "execute")


def _is_built_in(tool: Tool) -> bool:
    ours = type(tool).__module__.startswith("midturn.tools.") and not isinstance(tool, FunctionTool)
    return ours and tool.definition.name in BUILT_IN_TOOLS


def kind_of(given: object) -> str:
    """Return the type of a value, for messages."""
    return f"a `{type(given).__name__}`"


GivenRoute: TypeAlias = GivenTarget
"""A target, or a table with the keys of a question in the configuration: `target`, `answer`,
`exclusive`, `prompt_label`, `deadline`.
"""
GivenDetached: TypeAlias = (
    DetachedPolicy | Mapping[str, DetachedPolicy | Mapping[str, DetachedPolicy]]
)
"""A policy, or a mapping from kinds of prompt to policies. Or a mapping from tool names to either
of these, in which `*` applies to all other tools.
"""
_POLICIES = cast("tuple[str, ...]", get_args(DetachedPolicy))
_KINDS = ("run", "deliver", "tool")
_OF_A_QUESTION = ("target", "answer", "exclusive", "prompt_label", "deadline")
_DEEPEST = 128


class _PolicyTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one question in `routes`, with the same keys as in the configuration. The key
    `answer` is missing, because its value may have any type.
    """

    target: Any = UNSET
    exclusive: bool | UnsetType = UNSET
    prompt_label: str | UnsetType = UNSET
    deadline: Any = UNSET


class Detached(Struct, frozen=True):
    """Policies for questions while no one is attached, by tool and kind of prompt. `others` applies
    to all tools that are not in `tools`.
    """

    others: DetachedPolicies
    tools: Mapping[str, DetachedPolicies] = {}

    def of(self, tool: str) -> DetachedPolicies:
        """Return the policies of a tool."""
        return self.tools.get(tool, self.others)


DEFER = Detached(DetachedPolicies("defer", "defer", "defer"))


def _of_no_server(tool: str) -> bool:  # noqa: ARG001  the name does not matter
    return False


def routes_of(
    given: Mapping[str, GivenRoute] | None,
    tools: Iterable[Tool] | None,
    reviewers: Reviewers,
    is_of_server: Callable[[str], bool] = _of_no_server,
) -> dict[str, QuestionPolicy]:
    """Return the policies of questions, by `<tool>.<question>`. The entry `<tool>.*` applies to
    all questions of the tool that have no entry of their own.

    Args:
        given: The program's routes.
        tools: The program's tools; None if they are not known.
        reviewers: Converts the targets of the routes.
        is_of_server: Returns whether an MCP server may have a tool with this name.

    Raises:
        ConfigError: A key does not name a known tool, or a target or its model does not exist.
    """
    if not given:
        return {}
    names = None if tools is None else [tool.definition.name for tool in tools]
    for key in given:
        tool, dot, question = key.partition(".")
        if not (dot and tool and question):
            raise ConfigError(
                f"routes[{key!r}]: a route is named `<tool>.<question>`, or `<tool>.*` for all"
                " questions of a tool."
            )
        if names is not None and tool not in names and not is_of_server(tool):
            known = ", ".join(f"`{name}`" for name in names) or "none"
            raise ConfigError(
                f"routes[{key!r}]: there is no tool `{tool}`.{did_you_mean(tool, names)} The tools"
                f" are: {known}."
            )
    tables = {key: _table(key, said) for key, said in given.items()}
    return {key: _question(key, *_with_others(key, tables), reviewers) for key in tables}


def _with_others(
    key: str, tables: Mapping[str, Mapping[str, Any]]
) -> tuple[Mapping[str, Any], str]:
    """Return the table of a question, merged over the table for all questions of the tool. Also
    return the name of the table that contains the answer.
    """
    others = f"{key.partition('.')[0]}.*"
    table = {**tables.get(others, {}), **tables[key]}
    return table, f"routes[{(key if 'answer' in tables[key] else others)!r}]"


def detached_of(
    given: GivenDetached,
    tools: Iterable[Tool] | None,
    is_of_server: Callable[[str], bool] = _of_no_server,
) -> Detached:
    """Return the policies for questions while no one is attached. See `routes_of` for the
    arguments.

    Raises:
        ConfigError: A policy, a kind of prompt or a tool does not exist.
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
            raise ConfigError(
                f"detached[{name!r}]: there is no such kind of prompt or"
                f" tool.{did_you_mean(name, names)} Allowed are {known}."
            )
    others = _policies("detached['*']", tables.get("*", {}), DEFER.others)
    return Detached(
        others,
        {
            name: _policies(f"detached[{name!r}]", said, others)
            for name, said in tables.items()
            if name != "*"
        },
    )


def _policies(where: str, given: object, others: DetachedPolicies) -> DetachedPolicies:
    """Return the policy of each kind of prompt. `given` is one policy for all kinds, or a table
    by kind. `others` applies to the kinds that are missing in the table.
    """
    if not isinstance(given, Mapping):
        policy = _policy(where, given)
        return DetachedPolicies(policy, policy, policy)
    table = cast("Mapping[str, object]", given)
    for kind in table:
        if kind not in _KINDS:
            raise ConfigError(
                f"{where}: {kind!r} is not a kind of prompt.{did_you_mean(kind, _KINDS)} The kinds"
                f" are {', '.join(_KINDS)}."
            )
    return replace(
        others, **{kind: _policy(f"{where}[{kind!r}]", said) for kind, said in table.items()}
    )


def _policy(where: str, given: object) -> DetachedPolicy:
    if given not in _POLICIES:
        raise ConfigError(
            f"{where}={given!r}: must be one of {', '.join(repr(policy) for policy in _POLICIES)}."
        )
    return cast("DetachedPolicy", given)


def _table(key: str, given: object) -> Mapping[str, Any]:
    """Return the table of a question. If the value is not a table, it is the `target` of the
    question.
    """
    if not isinstance(given, Mapping):
        return {"target": given}
    table = cast("Mapping[str, Any]", given)
    ours = [name for name in table if name in _OF_A_QUESTION]
    if not ours:
        return {"target": table}
    if others := [name for name in table if name not in _OF_A_QUESTION]:
        raise ConfigError(
            f"routes[{key!r}]: {others[0]!r} cannot be combined with"
            f" {ours[0]!r}.{did_you_mean(others[0], _OF_A_QUESTION)} A question has"
            f" {', '.join(_OF_A_QUESTION)}; settings of an assistant belong in its `target`."
        )
    return table


def _question(
    key: str, table: Mapping[str, Any], origin: str, reviewers: Reviewers
) -> QuestionPolicy:
    where = f"routes[{key!r}]"
    fields = converted(
        where, {name: said for name, said in table.items() if name != "answer"}, _PolicyTable
    )
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
        raise ConfigError(
            f"{where}['deadline']: {brief(given)} is not a duration. {allowed}"
        ) from error


def _answer(where: str, given: object) -> Json | SecretValue:
    if isinstance(given, SecretValue):
        return given
    answer = as_json(given)
    if problem := json_problem(answer, _DEEPEST):
        raise ConfigError(f"{where}['answer']: {problem}")
    return cast("Json", answer)
