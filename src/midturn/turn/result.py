"""The result of a call for the model: the tool's text, with comments from people and models."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, cast

from midturn.events.outcome import Success, ToolError
from midturn.events.types import InquiryAnswered
from midturn.question.json_value import json_equal
from midturn.question.walker import Cancelled
from midturn.routing import messages
from midturn.turn.call_record import Attempt, CallRecord, QuestionThread
from midturn.turn.replay import Replay

_RETRY: Final = r"\s+You may retry(?: with (?:different|other) (?:input|arguments|changes))?\.\s*\Z"
"""Matches the advice to retry at the end of a tool's message. It is removed, because midturn's
message to the model contains the same advice.
"""


def result_for_model(
    call: CallRecord, outcome: Success | ToolError, run: Replay
) -> tuple[str, bool]:
    """Return the content of the response, including the reasons that people and models gave, and
    whether it is an error.

    If a person edited the arguments, the content starts with the edited arguments, because the
    model has seen only its own.

    The reasons are in the order in which this run of the tool asked the questions. The recorded
    order can differ: the last recorded question may be a secret that had to be asked again, or may
    belong to one of several concurrent forms.
    """
    match outcome:
        case Success(content):
            body, reported = content, None
        case ToolError(message):
            body, reported = _explained(call, message, run.latest.last if run.latest else None)
    is_error = isinstance(outcome, ToolError)
    content = with_reasons(body, run, reported) if call.threads else body
    if call.arguments is not call.request.arguments and not json_equal(
        call.arguments, call.request.arguments
    ):
        head = (
            messages.edited_arguments_failed(call.arguments)
            if is_error
            else messages.arguments_edited(call.arguments)
        )
        content = f"{head}\n{content}"
    return content, is_error


def with_reasons(body: str, run: Replay, reported: Attempt | None = None) -> str:
    """Return a result followed by the reasons that people gave for refusing. The reason of the
    attempt `reported` is left out, because the result already contains it.
    """
    typed = _typed_reasons(run.in_order, reported)
    passed_on = _passed_on(body) if typed else None
    return "\n".join(
        [body, *(messages.user_added(reason) for reason in typed if reason != passed_on)]
    )


def cancel_marker(cancelled: Cancelled) -> str:
    """Return the result of a call whose form was cancelled by a person's reply to the model."""
    return json.dumps(cancelled.to_json(), ensure_ascii=False)


def _passed_on(body: str) -> str | None:
    """Return the `reason` in a tool's result, or None if the result is not a JSON object with a
    `reason`.
    """
    try:
        result: object = json.loads(body)
    except (ValueError, RecursionError):  # a result can be any text
        return None
    reason = cast("dict[str, object]", result).get("reason") if isinstance(result, dict) else None
    return reason if isinstance(reason, str) else None


def _explained(
    call: CallRecord, message: str, attempt: Attempt | None
) -> tuple[str, Attempt | None]:
    """If the last question was answered with no, add the model, person or program that answered.
    Also return the attempt whose reason is now included.
    """
    response = attempt.response if attempt else None
    if (
        attempt is None
        or not attempt.is_rejection
        or not isinstance(response, InquiryAnswered)
        or response.answered_by is None
    ):
        return message, None
    tool, text, who = call.request.name, attempt.request.question.text, response.answered_by
    match who.by:
        case "assistant":
            head = messages.rejected_by_assistant(
                tool, who.model or "unknown", text, response.reason
            )
            return f"{head}\n\n{re.sub(_RETRY, '', message)}\n{messages.RETRY_OR_REVIEW}", attempt
        case "user":
            return f"{messages.rejected_by_user(tool, text, response.reason)}\n\n{message}", attempt
        case "policy" | "agent":
            return (
                (
                    f"{messages.rejected_by_policy(tool, who.name or who.user or who.by, text, response.reason)}\n\n{message}"
                ),
                attempt,
            )
        case _:
            return message, None


def _typed_reasons(threads: Sequence[QuestionThread], reported: Attempt | None) -> list[str]:
    """Return the reasons that people gave for refusing in this call, in order, without the reason
    of `reported`.
    """
    found: list[str] = []
    for thread in threads:
        for attempt in thread.attempts:
            response = attempt.response
            if (
                attempt is reported
                or not isinstance(response, InquiryAnswered)
                or not response.reason
            ):
                continue
            if response.answered_by and response.answered_by.by == "user" and attempt.is_rejection:
                found.append(response.reason)
    return found
