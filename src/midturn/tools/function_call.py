"""One call of a typed function: what the model sent becomes its arguments, and it runs with a way to ask."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import cast, get_args

from midturn.errors import ConfigError
from midturn.events.outcome import Outcome, ToolError
from midturn.events.types import Source
from midturn.ports import ToolRun
from midturn.question.people import People
from midturn.question.python_types import Mismatch
from midturn.question.question import Question
from midturn.routing.rules import RuledRun, Ruling
from midturn.tools.asking import CALL, ToolContext
from midturn.tools.call_scope import CallLife, UnaskedError, in_thread
from midturn.tools.parameters import Parameters, TypedFunction, deps_type_of
from midturn.tools.returned import outcome_of

_RULED = cast("tuple[RuledRun, ...]", get_args(RuledRun))


def foretold(
    foretelling: Callable[..., Question[bool] | None], parameters: Parameters, run: ToolRun, source: Source
) -> Question[bool] | None:
    """Return what a call would ask first."""
    context: ToolContext[object] = ToolContext(run, source, CallLife(), parameters.deps)
    positional, keywords = parameters.bind(parameters.read(run.call.arguments), context)
    return foretelling(*positional, **keywords)


def ruled(rule: Callable[..., object], run: ToolRun, source: Source) -> Ruling:
    """Return what a function of the program says about a call.

    Raises:
        ConfigError: It says nothing that it may say.
    """
    context: ToolContext[object] = ToolContext(run, source, CallLife(), deps_type_of(rule) if run.deps is None else "")
    said = rule(run.call.arguments, context)
    named = getattr(rule, "__name__", type(rule).__name__)
    if isinstance(said, People):
        return Ruling("ask", named, by="policy", people=said)
    if said not in _RULED:
        if inspect.iscoroutine(said):
            said.close()
        raise ConfigError(f"Tool `{run.call.name}`: the function `run` returned {said!r}; it says {', '.join(map(repr, _RULED))}, at once.")
    return Ruling(said, named, by="policy")


async def executed(callee: TypedFunction, run: ToolRun, source: Source) -> Outcome:
    """Run a function once (see `ports.Tool.execute`)."""
    try:
        values = callee.parameters.read(run.call.arguments)
    except Mismatch as mismatch:
        return ToolError(f"The arguments of `{run.call.name}` do not fit; nothing was run.\n{mismatch}")
    life = CallLife()
    context: ToolContext[object] = ToolContext(run, source, life, callee.parameters.deps)
    positional, keywords = callee.parameters.bind(values, context)
    call = functools.partial(callee.function, *positional, **keywords)
    outcome = await life.run(_outcome(callee, call, context))
    if life.unasked:
        raise UnaskedError(life.unasked)
    return outcome


async def _outcome(callee: TypedFunction, call: Callable[[], object], context: ToolContext[object]) -> Outcome:
    CALL.set(context)  # in a task of its own, and in the thread of a function that is not async
    try:
        returned = call() if callee.is_async else await in_thread(call)
        if inspect.isawaitable(returned):
            returned = await cast("Awaitable[object]", returned)
    except SystemExit as error:  # in a task of its own it would end the program
        raise RuntimeError(f"the tool ended itself: SystemExit({error.code!r})") from error
    return outcome_of(returned)
