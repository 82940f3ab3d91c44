"""One execution of a tool: whoever wrote it and whatever it does, what comes out may be read, recorded and asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from midturn.core.form import Form
from midturn.core.limits import Limits
from midturn.core.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.core.source import USER, Source
from midturn.core.turn.inputs import FormToAsk
from midturn.errors import MidturnError, QuestionError
from midturn.ports import Tool, ToolRun
from midturn.runtime.asked_form import fit_to_be_asked
from midturn.runtime.cancelling import is_cancelled
from midturn.tools.returned import Rejected, deliverable, failure
from midturn.tools.source import source_of

_LOG = logging.getLogger("midturn.tools")


class Executed(Struct, frozen=True):
    """What a tool ended in; `exception` is what it raised, where that was no `Rejected`; `source` is who asks what it returned."""

    outcome: Outcome
    exception: BaseException | None = None
    source: Source = USER


async def execute(tool: Tool, run: ToolRun) -> Executed:
    """Run a tool once. No secret that its call was given is in what comes out, and a question that comes out may be asked."""
    try:
        returned = _checked(run, await tool.execute(run))
        source = source_of(tool) if isinstance(returned, NeedsInput) else USER
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed(run, _stopped(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  a tool is anybody's code: the model is told, and the turn goes on
        return failed(run, error)
    return Executed(deliverable(returned, run), source=source)


def may_be_asked(tool: Tool, asking: FormToAsk, limits: Limits, hide: Callable[[str], str]) -> FormToAsk:
    """Return what a running tool asks as it may be asked, by whoever the tool is.

    Raises:
        QuestionError: It may not.
    """
    problem = None if asking.problem is None else hide(asking.problem)[: limits.question]
    return replace(asking, form=fit_to_be_asked(asking.form, limits, hide), source=source_of(tool), problem=problem)


def _stopped(error: BaseException) -> Exception:
    """Return the failure of a tool that was not asked to stop, and did."""
    stopped = RuntimeError("it stopped without a result, because it cancelled itself")
    stopped.__cause__ = error
    return stopped


def failed(run: ToolRun, error: BaseException) -> Executed:
    """Report what a tool raised: to the model, to the log, and to whoever watches."""
    outcome = failure(error, run.hide)
    if isinstance(error, Rejected):
        return Executed(deliverable(outcome, run))
    name = run.call.name
    if failure(error, str) == outcome:
        _LOG.error("The tool %r failed: %s", name, outcome.message, exc_info=error)
        return Executed(deliverable(outcome, run), error)
    _LOG.error("The tool %r failed: %s\n%s", name, outcome.message, "\n".join(outcome.trace))  # the exception itself holds a secret
    return Executed(deliverable(outcome, run), MidturnError(outcome.message))


def _checked(run: ToolRun, outcome: object) -> Outcome:
    """Return what a tool ended in: whoever wrote the tool, it is an outcome."""
    name = run.call.name
    match outcome:
        case Success(content=str()) | ToolError(message=str()):
            return outcome
        case Success(content=given) | ToolError(message=given):
            kind = type(outcome).__name__
            return ToolError(f"{name} returned a `{kind}` of a `{type(given).__name__}`; what the model reads is text.")
        case NeedsInput(Form() as form):
            return _asked(run, form)
        case NeedsInput(asked):
            return ToolError(f"{name} returned `NeedsInput` with a `{type(asked).__name__}`; it takes a `Form`.")
        case _:
            kind = type(outcome).__name__
            return ToolError(f"{name} returned a `{kind}`; `execute` returns `Success`, `ToolError` or `NeedsInput`.")


def _asked(run: ToolRun, form: Form) -> Outcome:
    try:
        return NeedsInput(fit_to_be_asked(form, run.limits, run.hide))
    except QuestionError as error:
        return ToolError(f"{run.call.name} returned a question that cannot be asked:\n{error}")
