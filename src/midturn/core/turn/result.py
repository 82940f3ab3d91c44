"""What the model reads as the result of a call."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, cast

from midturn.core.events import InquiryAnswered
from midturn.core.form.steps import Cancelled
from midturn.core.outcome import Success, ToolError
from midturn.core.routing import messages
from midturn.core.turn.record import Attempt, CallRecord, Chain
from midturn.core.turn.replay import Replay

_RETRY: Final = r"\s+You may retry[^.\n]*\.\s*\Z"  # a tool's own last sentence, where ours says the same after it


def for_model(call: CallRecord, outcome: Success | ToolError, run: Replay) -> tuple[str, bool]:
    """Return the content of the response and whether it is an error, with the reasons that people and models gave.

    What counts is the order in which this run of the tool asked: what was recorded last may be a secret that an earlier run had to ask
    again, or what one of several forms at once came to while another waited.
    """
    match outcome:
        case Success(content):
            body, told = content, None
        case ToolError(message):
            body, told = _explained(call, message, run.latest.last if run.latest else None)
    return with_reasons(body, run, told), isinstance(outcome, ToolError)


def with_reasons(body: str, run: Replay, told: Attempt | None = None) -> str:
    """Return what the model reads with what people typed with a "no" below it, but for what was `told` already."""
    typed = _typed_reasons(run.in_order, told)
    passed_on = _passed_on(body) if typed else None
    return "\n".join([body, *(messages.user_added(reason) for reason in typed if reason != passed_on)])


def cancel_marker(cancelled: Cancelled) -> str:
    """Return what the model reads when the person replied in place of answering."""
    return json.dumps(cancelled.to_json(), ensure_ascii=False)


def _passed_on(body: str) -> str | None:
    """Return the reason that the tool's own result passes on already, as a JSON object with a `reason`."""
    try:
        result: object = json.loads(body)
    except (ValueError, RecursionError):  # any text may be a result
        return None
    reason = cast("dict[str, object]", result).get("reason") if isinstance(result, dict) else None
    return reason if isinstance(reason, str) else None


def _explained(call: CallRecord, message: str, attempt: Attempt | None) -> tuple[str, Attempt | None]:
    """Say who rejected the call, where the last thing asked in it was answered with "no" by a model or a person."""
    response = attempt.response if attempt else None
    if attempt is None or not attempt.is_rejection or not isinstance(response, InquiryAnswered) or response.answered_by is None:
        return message, None
    tool, text, who = call.request.name, attempt.request.question.text, response.answered_by
    match who.by:
        case "assistant":
            head = messages.rejected_by_assistant(tool, who.model or "unknown", text, response.reason)
            return f"{head}\n\n{re.sub(_RETRY, '', message)}\n{messages.RETRY_OR_REVIEW}", attempt
        case "user":
            return f"{messages.rejected_by_user(tool, text, response.reason)}\n\n{message}", attempt
        case "policy":
            return f"{messages.rejected_by_policy(tool, who.name or who.by, text, response.reason)}\n\n{message}", attempt
        case _:
            return message, None


def _typed_reasons(chains: Sequence[Chain], told: Attempt | None) -> list[str]:
    """Return what people typed with a "no" in this call, in order, without what the message tells already."""
    attempts = [link for chain in chains for link in chain.links if link is not told and link.is_rejection]
    answered = [a.response for a in attempts if isinstance(a.response, InquiryAnswered)]
    return [r.reason for r in answered if r.reason and r.answered_by and r.answered_by.by == "user"]
