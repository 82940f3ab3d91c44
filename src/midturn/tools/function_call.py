"""One call of a function tool. The arguments are converted, and the function runs with a context
that lets it ask questions.
"""

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
from midturn.tools.call_scope import CallScope, UnaskedError, in_thread
from midturn.tools.parameters import Parameters, TypedFunction, deps_type_of
from midturn.tools.returned import outcome_of

_RUN_DECISIONS = cast("tuple[RuledRun, ...]", get_args(RuledRun))


def preview_question(
    previewing: Callable[..., Question[bool] | None],
    parameters: Parameters,
    run: ToolRun,
    source: Source,
) -> Question[bool] | None:
    """Return the question that a call would ask first."""
    context: ToolContext[object] = ToolContext(run, source, CallScope(), parameters.deps)
    positional, keywords = parameters.bind(parameters.read(run.call.arguments), context)
    return previewing(*positional, **keywords)


def ruled(rule: Callable[..., object], run: ToolRun, source: Source) -> Ruling:
    """Return the decision of a tool's `run` function about a call.

    Raises:
        ConfigError: The function returned an invalid value.
    """
    context: ToolContext[object] = ToolContext(
        run, source, CallScope(), deps_type_of(rule) if run.deps is None else ""
    )
    decision = rule(run.call.arguments, context)
    rule_name = getattr(rule, "__name__", type(rule).__name__)
    if isinstance(decision, People):
        return Ruling("ask", rule_name, by="policy", people=decision)
    if decision not in _RUN_DECISIONS:
        if inspect.iscoroutine(decision):
            decision.close()
        raise ConfigError(
            f"Tool `{run.call.name}`: the function `run` returned {decision!r}. "
            f"It must return one of {', '.join(map(repr, _RUN_DECISIONS))}, and must not be async."
        )
    return Ruling(decision, rule_name, by="policy")


async def executed(callee: TypedFunction, run: ToolRun, source: Source) -> Outcome:
    """Run a function once (see `ports.Tool.execute`)."""
    try:
        values = callee.parameters.read(run.call.arguments)
    except Mismatch as mismatch:
        return ToolError(
            f"The arguments of `{run.call.name}` do not fit; nothing was run.\n{mismatch}"
        )
    scope = CallScope()
    context: ToolContext[object] = ToolContext(run, source, scope, callee.parameters.deps)
    positional, keywords = callee.parameters.bind(values, context)
    call = functools.partial(callee.function, *positional, **keywords)
    outcome = await scope.run(_outcome(callee, call, context))
    if scope.unasked:
        raise UnaskedError(scope.unasked)
    return outcome


async def _outcome(
    callee: TypedFunction, call: Callable[[], object], context: ToolContext[object]
) -> Outcome:
    CALL.set(context)  # visible in this task and in the thread of a synchronous function
    try:
        returned = call() if callee.is_async else await in_thread(call)
        if inspect.isawaitable(returned):
            returned = await cast("Awaitable[object]", returned)
    except SystemExit as error:  # in a task, this exception would end the program
        raise RuntimeError(f"the tool ended itself: SystemExit({error.code!r})") from error
    return outcome_of(returned)
