"""Sentences of a turn for the model. The one for an interrupted call is a part of the record (`events/types.py`).

None of them uses our own words for what happens inside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from midturn.events.types import CancelReason
from midturn.question.json_value import Json

INPUT_CANCELLED = "Tool input cancelled by user."
TURN_ENDED = "Tool call cancelled: the user ended the turn."
TURN_OVER = "Tool call not run: its turn is over, and this call was not a part of it."
RETRY_OR_REVIEW = "You may retry with different input, or ask the user to review."
NO_REASON = "(no reason given)"
RAN_EDITED = "The user edited the arguments of this call. It ran with: "
MAX_EDIT_LENGTH = 10_000
"""Maximum number of characters of edited arguments that the model reads."""
LimitName: TypeAlias = Literal["repeats", "shown", "rejected_cycles"]
_COUNTED: Final[Mapping[LimitName, str]] = {
    "repeats": "identical questions",
    "shown": "different questions in this turn",
    "rejected_cycles": "rejections in a row",
}


def refusal(tool: str, reason: CancelReason, question_id: str) -> str:
    """Say why there was no answer."""
    match reason:
        case "assistant_routing_denied":
            return f"{tool} requires a human answer and cannot be routed to the assistant. Do not retry this tool call in this turn."
        case "invalid_static_answer":
            return (
                f"{tool}: the configured conversation.tools.{tool}.questions.{question_id}.answer value does not match the question's "
                "answer_type. Update the configuration; do not retry."
            )
        case _:
            return (
                f"{tool} cannot run because no interactive terminal is available. Do not retry this tool call in this turn; "
                "continue without user input or explain what information is missing."
            )


def limit_exceeded(tool: str, limit: LimitName, count: int) -> str:
    """Say which limit stopped the call, and which setting raises it."""
    return f"{tool}: stopped after {count} {_COUNTED[limit]} (limits.{limit}). Do not retry this tool call in this turn."


def assistant_failed(tool: str, text: str, error: str) -> str:
    """Say that the model which was asked on the side gave no valid answer."""
    return f'{tool}: the assistant that was asked "{text}" failed to answer: {error.rstrip(".")}.'


def prompt_failed(tool: str, text: str, error: str) -> str:
    """Say that the prompt could not be shown."""
    return f'{tool}: the prompt for "{text}" failed: {error.rstrip(".")}.'


def skipped(tool: str, reason: str | None) -> str:
    """Say that a person did not let the call run."""
    return f"{tool} was skipped by the user." + (f' Reason: "{reason}"' if reason else "")


def skipped_by_policy(tool: str, name: str, reason: str | None) -> str:
    """Say that a policy of the program did not let the call run."""
    return f"{tool} was not run: the policy {name!r} does not allow it." + (f' Reason: "{reason}"' if reason else "")


def skipped_by_rule(tool: str, reason: str | None) -> str:
    """Say that a rule of the configuration does not let this call run; another one may."""
    return f"{tool} was not run: a rule of the configuration does not allow this call." + (f' Reason: "{reason}"' if reason else "")


def not_allowed(tool: str) -> str:
    """Say that no one was there to allow the call."""
    return f"{tool} was not run: nobody is here to allow it. Do not retry this tool call in this turn."


def switched_off(tool: str) -> str:
    """Say that configuration does not let the call run."""
    return f"{tool} is switched off by configuration."


def refused_too_often(tool: str, count: int) -> str:
    """Say that people are not asked about a call again that they have refused before."""
    return f"{tool} was not run: the same call was refused {count} times in this turn. Do not retry this tool call in this turn."


def withheld(tool: str) -> str:
    """Say that a person keeps the result back, or the configuration on their behalf."""
    return f"The result of {tool} was withheld by the user."


def withheld_by_policy(tool: str, name: str) -> str:
    """Say that a policy of the program keeps the result back."""
    return f"The result of {tool} was withheld by the policy {name!r}."


def too_few(tool: str, text: str, why: str) -> str:
    """Say that too few people may answer, so that the question is not put to them."""
    return f'{tool}: "{text}" was put to no one: {why}. Do not retry this tool call in this turn.'


def past_deadline(tool: str, text: str) -> str:
    """Say that no one has answered in time."""
    return f'{tool}: nobody answered "{text}" before its deadline. This is not a no.'


def not_allowed_in_time(tool: str) -> str:
    """Say that no one has allowed the call in time."""
    return f"{tool}: nobody allowed it before its deadline. This is not a no."


def unknown_tool(tool: str, known: list[str]) -> str:
    """Say that there is no such tool, and which there are."""
    return f"There is no tool named {tool!r}. The tools are: {', '.join(sorted(known)) or 'none'}."


def broken_arguments(tool: str, problem: str) -> str:
    """Say that the arguments cannot be used."""
    return f"{tool}: the arguments are not a JSON object ({problem}). Send the call again with valid arguments."


def control_character(tool: str, problem: str) -> str:
    """Say that a program is not started with an invisible character."""
    return f"{tool} was not run: {problem}. Send the call again without control characters; only line ends and tabs are allowed."


def arguments_edited(arguments: Json) -> str:
    """Head the result of a call that ran with edited arguments; long arguments are cut."""
    return f"{RAN_EDITED}{_shortened(arguments)}"


def edited_arguments_failed(arguments: Json) -> str:
    """Head the error of a call whose arguments were edited; long arguments are cut."""
    return f"The user edited the arguments of this call to: {_shortened(arguments)}"


def user_added(reason: str) -> str:
    """Pass on what a person typed with a "no"."""
    return f'The user added: "{reason}"'


def rejected_by_assistant(tool: str, model: str, question: str, reason: str | None) -> str:
    """Head the error of a tool whose question a model answered with "no"."""
    head = f"The `{tool}` call was reviewed by a secondary assistant ({model}) and rejected.\n\nQuestion: {question}"
    return head + (f'\nReason: "{reason}"' if reason else "")


def rejected_by_user(tool: str, question: str, reason: str | None) -> str:
    """Head the error of a tool whose question a person answered with "no"."""
    head = f"The user reviewed the `{tool}` call and rejected it.\n\nQuestion: {question}"
    return head + (f'\nReason: "{reason}"' if reason else "")


def rejected_by_policy(tool: str, name: str, question: str, reason: str | None) -> str:
    """Head the error of a tool whose question a policy of the program answered with "no"."""
    head = f"The policy {name!r} rejected the `{tool}` call.\n\nQuestion: {question}"
    return head + (f'\nReason: "{reason}"' if reason else "")


def recommended_rejection(reason: str | None) -> str:
    """Head the context of a question that a model answered with "no"."""
    return f'The assistant recommended rejecting this:\n"{reason or NO_REASON}"'


REVIEWER_FAILED: Final = "The assistant that was asked first could not answer. The decision is yours."
"""Heads the context of a question that a model could not answer. Why it could not is for operators, and is logged."""


def _shortened(arguments: Json) -> str:
    written = json.dumps(arguments, ensure_ascii=False)
    return written if len(written) <= MAX_EDIT_LENGTH else f"{written[:MAX_EDIT_LENGTH]} … (cut: {len(written)} characters in all)"
