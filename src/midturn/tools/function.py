"""`@midturn.tool`: a typed function as a tool."""

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
"""Says whether a call may run, by its arguments and its context."""
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@functools.cache
def _load_executed() -> Callable[[TypedFunction, ToolRun, Source], Awaitable[Outcome]]:
    """Load what runs a function: who only describes a tool, as at every start, calls none."""
    from midturn.tools.function_call import executed

    return executed


class FunctionTool(Generic[P, R_co]):
    """A function that a model may call. Called from Python it is the plain function.

    Args:
        function: What is called, typed parameter by parameter.
        name: Its name, where that is not the name of the function.
        description: What the model is told, where that is not in the docstring.
        run: Who allows each call: `unattended` (without asking), `ask`, `edit` or `skip`; or a function of its arguments and its context
            that says `unattended`, `ask` or `skip`, or whom it is for: `People`.
        deadline: How long a permission may take, where a person is asked: seconds, a duration such as `2h`, or a `timedelta`. Past it the
            call fails. Without it, without end.
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
        self._foretelling: Callable[P, Question[bool] | None] | None = None
        self._description = description
        self.is_unbound = _is_method(function)
        """Whether it is a method that belongs to no object yet: `instance.method` is the tool."""
        written = read_docstring(written_function(function).__doc__)
        self.documentation = written if description is None else replace(written, summary="", description=description)
        parameters = Parameters(_without_self(function) if self.is_unbound else function, written.parameters)
        self._callee = TypedFunction(function, parameters, _is_async(function))
        self._definition = ToolDefinition(_name(function, name), self.documentation.text, parameters.schema)

        check_run(self._definition.name, run)
        self.deadline = permission_deadline(self._definition.name, deadline)
        """Time that a permission may take."""
        self._source = Source.tool(self._definition.name)
        functools.update_wrapper(self, written_function(function))

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R_co]:
        """Return the tool of an object whose class has it as a method."""
        if instance is None or not self.is_unbound:
            return self
        bound = cast("Callable[..., R_co]", MethodType(self._function, instance))
        return FunctionTool(bound, name=self.name, description=self._description, run=self._run, deadline=self.deadline)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the plain function."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self._definition.name})"

    @property
    def function(self) -> Callable[P, R_co]:
        """The plain function."""
        return self._function

    @property
    def run(self) -> RunPolicy:
        """Its permission policy, unless configuration says otherwise; `ask` where a function decides."""
        return "ask" if callable(self._run) else self._run

    @property
    def has_rule(self) -> bool:
        """Whether a function of the program decides whether a call may run."""
        return callable(self._run)

    def ruling(self, run: ToolRun) -> Ruling:
        """Return what the program's function says about a call.

        Args:
            run: The call.

        Raises:
            ConfigError: It says nothing that it may say.
        """
        from midturn.tools.function_call import ruled  # as for `execute`

        return ruled(self._run, run, self.inquiry_source()) if callable(self._run) else Ruling(self._run)

    @property
    def name(self) -> str:
        """The name under which the model calls it."""
        return self._definition.name

    @property
    def deps_type(self) -> str:
        """Type of the `deps` that the tool, or its function `run`, cannot do without, as text; empty if there is none."""
        return self._callee.parameters.deps or (deps_type_of(self._run) if callable(self._run) else "")

    @property
    def definition(self) -> ToolDefinition:
        """The definition that the model is sent."""
        return self._definition

    def inquiry_source(self) -> Source:
        """Return `tool` and its name: no function can be anything else."""
        return self._source

    def foretells(self, function: Callable[P, Question[bool] | None]) -> None:
        """Have `function`, of the same parameters, say what the tool would ask first if it ran now; it must change nothing.

        A person who is asked for permission sees that question, and is not asked it again.
        """
        self._foretelling = function

    @property
    def can_foretell(self) -> bool:
        """Whether it can say what it would ask first."""
        return self._foretelling is not None

    def foretell(self, run: ToolRun) -> Question[bool] | None:
        """Return what a call would ask first, as far as that is known.

        Args:
            run: The call.
        """
        if self._foretelling is None:
            return None
        from midturn.tools.function_call import foretold  # as for `execute`

        return foretold(self._foretelling, self._callee.parameters, run, self.inquiry_source())

    async def execute(self, run: ToolRun) -> Outcome:
        """Run the function once (see `ports.Tool`).

        Args:
            run: The call, the answers so far, and the way to ask.
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
    """Turn a typed function, a method, a bound method or a partial, sync or async, into a tool.

    The parameters become JSON Schema, the docstring becomes what the model reads. A parameter annotated `ToolContext` is given the
    context and is not part of the schema. Use it bare (`@tool`) or with options (`@tool(name=…, run=…)`).

    Args:
        function: The function.
        name: The name that the model calls, if not the function's own.
        description: What the model reads of it, if not the docstring; the docstring still describes the parameters.
        run: The permission policy; functions run unattended by default, for their author is the program's. A function in its place is
            given the arguments and the context of each call and says `unattended`, `ask` or `skip`; it runs nothing and asks nothing. What
            it decides is recorded as a policy under its name, and where it fails a person is asked.
        deadline: How long a permission may take, from a second to 365 days: seconds, a duration such as `2h`, or a `timedelta`. Past it the
            call fails, which is not a no.

    Raises:
        TypeError: A parameter has no type, or one that JSON Schema cannot describe.
        ConfigError: The name is not a tool's name, or there is no such policy or deadline.
    """
    if function is None:
        return functools.partial(FunctionTool, name=name, description=description, run=run, deadline=deadline)
    return FunctionTool(function, name=name, description=description, run=run, deadline=deadline)


def _name(function: Callable[..., object], name: str | None) -> str:
    found = name if name is not None else getattr(written_function(function), "__name__", "")
    if problem := name_problem(found):
        raise ConfigError(f"{problem} Name the tool with `@tool(name=…)`.")
    return found


def _without_self(function: Callable[..., object]) -> Callable[..., object]:
    return functools.partial(function, None)


def _is_method(function: Callable[..., object]) -> bool:
    """Say whether a function is written as a method of a class, and not bound to an object."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return inspect.isfunction(function) and first is not None and first.name == "self" and first.annotation is first.empty


def _is_async(function: Callable[..., object]) -> bool:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"Tool `{getattr(function, '__name__', function)}` yields; a tool returns one result.")
    function = written_function(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 (an object with an async `__call__`)
