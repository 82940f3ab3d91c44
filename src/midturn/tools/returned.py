"""What a function returned or raised, as an outcome."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, cast

import msgspec

from midturn.core.form import Form
from midturn.core.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.core.question import Question
from midturn.core.secret import SecretValue
from midturn.errors import MidturnError
from midturn.tools.scrub import REDACTED

_TRACE_LINES = 60


class Rejected(MidturnError):  # noqa: N818 (a public name)
    """Raised by a tool to report a "no"; the model reads the message."""


def outcome_of(returned: object) -> Outcome:
    """Read a return value: outcomes, forms and questions mean what they are, text is the result, anything else is sent as JSON."""
    match returned:
        case Success() | ToolError() | NeedsInput():
            return returned
        case Form():
            return NeedsInput(returned)
        case Question():
            return NeedsInput(Form((cast("Question[Any]", returned),)))
        case str():
            return Success(returned)
        case _:
            return _as_json(returned)


def failure(error: BaseException, hide: Callable[[str], str]) -> ToolError:
    """Report what a tool raised: type and message for the model, the end of the trace for people; `hide` takes secrets out of both."""
    if isinstance(error, Rejected):
        return ToolError(hide(str(error)))
    message = "".join(traceback.format_exception_only(error)).strip()
    trace = hide("".join(traceback.format_exception(error)))  # whole: a secret may have several lines
    return ToolError(hide(message), tuple(trace.splitlines()[-_TRACE_LINES:]))


def _as_json(value: object) -> Outcome:
    try:
        return Success(msgspec.json.encode(value, enc_hook=_simpler).decode())
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        return ToolError(f"The tool returned a `{kind}`, which has no JSON form ({error}). Return text, or something that JSON can hold.")


def _simpler(value: object) -> object:
    if isinstance(value, SecretValue):
        return REDACTED
    dump = getattr(value, "model_dump", None)  # a Pydantic model
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"`{type(value).__name__}` is not JSON")
