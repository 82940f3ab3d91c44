"""The decorator `@midturn.tool`, which makes a tool from a typed function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

from msgspec.structs import replace

from midturn.errors import ConfigError
from midturn.events.types import Source
from midturn.exchange import ToolDefinition
from midturn.question.text import check_text_or_none
from midturn.routing.rules import Ruling
from midturn.tools.names import check_run, name_problem, permission_deadline, read_docstring
from midturn.tools.parameters import Parameters, TypedFunction, deps_type_of, written_function

if TYPE_CHECKING:
    from datetime import timedelta

    from midturn.events.outcome import Outcome
    from midturn.ports import ToolRun
    from midturn.question.json_value import JsonObject
    from midturn.question.people import People
    from midturn.question.question import Question
    from midturn.routing.policy import RunPolicy
    from midturn.routing.rules import RuledRun
    from midturn.tools.asking import ToolContext

RunRuleFunction: TypeAlias = "Callable[[JsonObject, ToolContext[Any]], RuledRun | People]"
"""Decides from a call's arguments and context whether it may run."""
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@functools.cache
def _load_executed() -> Callable[[TypedFunction, ToolRun, Source], Awaitable[Outcome]]:
    """Import the code that runs functions on first use. The definitions of tools, which are needed
    at every start, do not need it.
    """
    from midturn.tools.function_call import executed

    return executed


class FunctionTool(Generic[P, R_co]):
    """A function that a model may call. Calling it from Python calls the function itself.

    Args:
        function: The function. Every parameter needs a type.
        name: Name of the tool. Default: the name of the function.
        description: Description for the model. Default: the docstring.
        run: Permission policy: `unattended` (runs without asking), `ask`, `edit` or `skip`; or a
            function that receives a call's arguments and context, and returns `unattended`, `ask`,
            `skip`, or the `People` who decide.
        deadline: Time limit for a permission, if a person is asked: seconds, a duration such as
            `2h`, or a `timedelta`. After this time, the call fails. Default: no limit.
    """

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        name: str | None = None,
        description: str | None = None,
        run: RunPolicy | RunRuleFunction = "unattended",
        deadline: timedelta | float | str | None = None,
    ) -> None:
        check_text_or_none("name", name)
        check_text_or_none("description", description)
        self._function = function
        self._run: RunPolicy | RunRuleFunction = run
        self._previewing: Callable[P, Question[bool] | None] | None = None
        self._description = description
        self.is_unbound = _is_method(function)
        """Whether this is a method that is not bound to an object. `instance.method` is then the
        bound tool.
        """
        written = read_docstring(written_function(function).__doc__)
        self.documentation = (
            written
            if description is None
            else replace(written, summary="", description=description)
        )
        parameters = Parameters(
            _without_self(function) if self.is_unbound else function, written.parameters
        )
        self._callee = TypedFunction(function, parameters, _is_async(function))
        self._definition = ToolDefinition(
            _name(function, name), self.documentation.text, parameters.schema
        )

        check_run(self._definition.name, run)
        self.deadline = permission_deadline(self._definition.name, deadline)
        """Time limit for a permission."""
        self._source = Source.tool(self._definition.name)
        functools.update_wrapper(self, written_function(function))

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R_co]:
        """Return the tool bound to an object, if the function is a method."""
        if instance is None or not self.is_unbound:
            return self
        bound = cast("Callable[..., R_co]", MethodType(self._function, instance))
        return FunctionTool(
            bound,
            name=self.name,
            description=self._description,
            run=self._run,
            deadline=self.deadline,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self._definition.name})"

    @property
    def function(self) -> Callable[P, R_co]:
        """The function itself."""
        return self._function

    @property
    def run(self) -> RunPolicy:
        """The permission policy, unless the configuration overrides it. `ask` if `run` is a
        function.
        """
        return "ask" if callable(self._run) else self._run

    @property
    def has_rule(self) -> bool:
        """Whether `run` is a function that decides about each call."""
        return callable(self._run)

    def ruling(self, run: ToolRun) -> Ruling:
        """Return the decision of the `run` function about a call.

        Args:
            run: The call.

        Raises:
            ConfigError: The function returned an invalid value.
        """
        from midturn.tools.function_call import ruled  # imported on first use, as in `execute`

        return (
            ruled(self._run, run, self.inquiry_source())
            if callable(self._run)
            else Ruling(self._run)
        )

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self._definition.name

    @property
    def deps_type(self) -> str:
        """Name of the `deps` type that the tool or its `run` function needs, or an empty string."""
        return self._callee.parameters.deps or (
            deps_type_of(self._run) if callable(self._run) else ""
        )

    @property
    def definition(self) -> ToolDefinition:
        """The definition for the model."""
        return self._definition

    def inquiry_source(self) -> Source:
        """Return the source of the tool's questions: the kind `tool` and the tool's name."""
        return self._source

    def previews(self, function: Callable[P, Question[bool] | None]) -> None:
        """Register `function`, which has the same parameters, to preview the tool's first question.
        It must not change anything.

        If a person is asked for permission, the prompt also shows this question, and the answer to
        the permission also counts for the question.
        """
        self._previewing = function

    @property
    def can_preview(self) -> bool:
        """Whether the tool can preview its first question."""
        return self._previewing is not None

    def preview_question(self, run: ToolRun) -> Question[bool] | None:
        """Return the question that a call would ask first, if it is known.

        Args:
            run: The call.
        """
        if self._previewing is None:
            return None
        from midturn.tools.function_call import preview_question  # imported on first use

        return preview_question(
            self._previewing, self._callee.parameters, run, self.inquiry_source()
        )

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the function once (see `ports.Tool`).

        Args:
            run: The call, the answers so far, and the function that asks questions.
        """
        return await _load_executed()(self._callee, run, self.inquiry_source())


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    run: RunPolicy | RunRuleFunction = "unattended",
    deadline: timedelta | float | str | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    run: RunPolicy | RunRuleFunction = "unattended",
    deadline: timedelta | float | str | None = None,
) -> object:
    """Make a tool from a typed function, method, bound method or partial, sync or async.

    The parameters become JSON Schema, and the docstring becomes the description for the model. A
    parameter annotated `ToolContext` receives the context and is not part of the schema. Use the
    decorator as `@tool`, or with options as `@tool(name=…, run=…)`.

    Args:
        function: The function.
        name: Name of the tool. Default: the name of the function.
        description: Description for the model. Default: the docstring. The docstring still
            describes the parameters.
        run: The permission policy. Functions run unattended by default, because the program's
            author wrote them. A function as `run` receives the arguments and the context of each
            call and returns `unattended`, `ask`, `skip`, or the `People` who decide. It must not
            have side effects or ask questions. Its decision is recorded as the decision of a policy
            with the function's name. If it fails, a person is asked.
        deadline: Time limit for a permission, from 1 second to 365 days: seconds, a duration such
            as `2h`, or a `timedelta`. After this time, the call fails. This does not count as a
            refusal.

    Raises:
        TypeError: A parameter has no type, or its type cannot be described in JSON Schema.
        ConfigError: The name, the policy or the deadline is invalid.
    """
    if function is None:
        return functools.partial(
            FunctionTool, name=name, description=description, run=run, deadline=deadline
        )
    return FunctionTool(function, name=name, description=description, run=run, deadline=deadline)


def _name(function: Callable[..., object], name: str | None) -> str:
    found = name if name is not None else getattr(written_function(function), "__name__", "")
    if problem := name_problem(found):
        raise ConfigError(f"{problem} Name the tool with `@tool(name=…)`.")
    return found


def _without_self(function: Callable[..., object]) -> Callable[..., object]:
    return functools.partial(function, None)


def _is_method(function: Callable[..., object]) -> bool:
    """Return whether a function is a method of a class that is not bound to an object."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return (
        inspect.isfunction(function)
        and first is not None
        and first.name == "self"
        and first.annotation is first.empty
    )


def _is_async(function: Callable[..., object]) -> bool:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"Tool `{getattr(function, '__name__', function)}` is a generator. A tool must return"
            " one result."
        )
    function = written_function(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an object with an async `__call__`)
    )
