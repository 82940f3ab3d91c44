"""Messages to the model about its tool calls. The message for an interrupted call is in
`events/types.py`.

The messages avoid midturn's internal terms.
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
"""Maximum length of edited arguments in a message to the model, in characters."""
LimitName: TypeAlias = Literal["repeats", "shown", "rejected_cycles"]
_COUNTED: Final[Mapping[LimitName, str]] = {
    "repeats": "identical questions",
    "shown": "different questions in this turn",
    "rejected_cycles": "rejections in a row",
}


def refusal(tool: str, reason: CancelReason, question_id: str) -> str:
    """Explain why a question has no answer."""
    match reason:
        case "assistant_routing_denied":
            return (
                f"{tool} requires a human answer and cannot be routed to the assistant. Do not"
                " retry this tool call in this turn."
            )
        case "invalid_static_answer":
            return (
                f"{tool}: the configured conversation.tools.{tool}.questions.{question_id}.answer"
                " value does not match the question's answer_type. Update the configuration; do"
                " not retry."
            )
        case _:
            return (
                f"{tool} cannot run because no interactive terminal is available. Do not retry this"
                " tool call in this turn; continue without user input or explain what information"
                " is missing."
            )


def limit_exceeded(tool: str, limit: LimitName, count: int) -> str:
    """Report the limit that stopped the call, with the name of its setting."""
    return (
        f"{tool}: stopped after {count} {_COUNTED[limit]} (limits.{limit}). Do not retry this tool"
        " call in this turn."
    )


def assistant_failed(tool: str, text: str, error: str) -> str:
    """Report that the assistant model did not give a valid answer."""
    return f'{tool}: the assistant that was asked "{text}" failed to answer: {error.rstrip(".")}.'


def prompt_failed(tool: str, text: str, error: str) -> str:
    """Report that the prompt could not be shown."""
    return f'{tool}: the prompt for "{text}" failed: {error.rstrip(".")}.'


def skipped(tool: str, reason: str | None) -> str:
    """Report that a person refused the call."""
    return f"{tool} was skipped by the user." + (f' Reason: "{reason}"' if reason else "")


def skipped_by_policy(tool: str, name: str, reason: str | None) -> str:
    """Report that a policy in the program refused the call."""
    return f"{tool} was not run: the policy {name!r} does not allow it." + (
        f' Reason: "{reason}"' if reason else ""
    )


def skipped_by_rule(tool: str, reason: str | None) -> str:
    """Report that a configured rule does not allow this call. Other calls may be allowed."""
    return f"{tool} was not run: a rule of the configuration does not allow this call." + (
        f' Reason: "{reason}"' if reason else ""
    )


def not_allowed(tool: str) -> str:
    """Report that nobody was available to approve the call."""
    return (
        f"{tool} was not run: nobody is here to allow it. Do not retry this tool call in this turn."
    )


def switched_off(tool: str) -> str:
    """Report that the configuration disables the tool."""
    return f"{tool} is switched off by configuration."


def refused_too_often(tool: str, count: int) -> str:
    """Report that the same call was refused several times, and that people are therefore not asked
    again.
    """
    return (
        f"{tool} was not run: the same call was refused {count} times in this turn. Do not retry"
        " this tool call in this turn."
    )


def withheld(tool: str) -> str:
    """Report that a person, or the configuration, withheld the result."""
    return f"The result of {tool} was withheld by the user."


def withheld_by_policy(tool: str, name: str) -> str:
    """Report that a policy in the program withheld the result."""
    return f"The result of {tool} was withheld by the policy {name!r}."


def too_few(tool: str, text: str, why: str) -> str:
    """Report that the question was not asked because too few people may answer it."""
    return f'{tool}: "{text}" was put to no one: {why}. Do not retry this tool call in this turn.'


def past_deadline(tool: str, text: str) -> str:
    """Report that nobody answered before the deadline."""
    return f'{tool}: nobody answered "{text}" before its deadline. This is not a no.'


def not_allowed_in_time(tool: str) -> str:
    """Report that nobody approved the call before the deadline."""
    return f"{tool}: nobody allowed it before its deadline. This is not a no."


def unknown_tool(tool: str, known: list[str]) -> str:
    """Report an unknown tool name, with the known names."""
    return f"There is no tool named {tool!r}. The tools are: {', '.join(sorted(known)) or 'none'}."


def broken_arguments(tool: str, problem: str) -> str:
    """Report that the arguments cannot be parsed."""
    return (
        f"{tool}: the arguments are not a JSON object ({problem}). Send the call again with valid"
        " arguments."
    )


def control_character(tool: str, problem: str) -> str:
    """Report that the call was refused because of a control character."""
    return (
        f"{tool} was not run: {problem}. Send the call again without control characters; only line"
        " ends and tabs are allowed."
    )


def arguments_edited(arguments: Json) -> str:
    """Return the first lines of the result of a call that ran with edited arguments. Long arguments
    are truncated.
    """
    return f"{RAN_EDITED}{_shortened(arguments)}"


def edited_arguments_failed(arguments: Json) -> str:
    """Return the first lines of the error of a call whose arguments were edited. Long arguments are
    truncated.
    """
    return f"The user edited the arguments of this call to: {_shortened(arguments)}"


def user_added(reason: str) -> str:
    """Return the reason that a person gave with a refusal, as text for the model."""
    return f'The user added: "{reason}"'


def rejected_by_assistant(tool: str, model: str, question: str, reason: str | None) -> str:
    """Return the first lines of the error of a tool call that a model rejected."""
    head = (
        f"The `{tool}` call was reviewed by a secondary assistant ({model}) and"
        f" rejected.\n\nQuestion: {question}"
    )
    return head + (f'\nReason: "{reason}"' if reason else "")


def rejected_by_user(tool: str, question: str, reason: str | None) -> str:
    """Return the first lines of the error of a tool call that a person rejected."""
    head = f"The user reviewed the `{tool}` call and rejected it.\n\nQuestion: {question}"
    return head + (f'\nReason: "{reason}"' if reason else "")


def rejected_by_policy(tool: str, name: str, question: str, reason: str | None) -> str:
    """Return the first lines of the error of a tool call that a policy in the program rejected."""
    head = f"The policy {name!r} rejected the `{tool}` call.\n\nQuestion: {question}"
    return head + (f'\nReason: "{reason}"' if reason else "")


def recommended_rejection(reason: str | None) -> str:
    """Return the first lines of the context of a question that a model recommends rejecting."""
    return f'The assistant recommended rejecting this:\n"{reason or NO_REASON}"'


REVIEWER_FAILED: Final = (
    "The assistant that was asked first could not answer. The decision is yours."
)
"""First line of the context of a question that the assistant model failed to answer. The cause is
only logged.
"""


def _shortened(arguments: Json) -> str:
    written = json.dumps(arguments, ensure_ascii=False)
    return (
        written
        if len(written) <= MAX_EDIT_LENGTH
        else f"{written[:MAX_EDIT_LENGTH]} … (cut: {len(written)} characters in all)"
    )
