"""Approval of tool calls, for frameworks in which a tool can require approval."""

from __future__ import annotations

import json
from collections.abc import Sequence

from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import InquirerCall
from midturn.errors import ConfigError
from midturn.question.json_value import JsonObject, json_equal
from midturn.question.question import Question
from midturn.tools.returned import Rejected

APPROVE = "approve"
"""Id of a yes/no question that asks for approval. It is asked instead of the permission (`RUN`) if
the permission could not show the arguments that the tool will receive. Version 0.2 always asked
this question.
"""
RUN = "__run__"
"""Question id of a permission: the question whether a call may run."""
SUPERSEDED = "The agent was run again and made other calls instead. This call did not run."
"""Result of a call that the agent did not repeat when it was run again."""


def check_not_ended(inquirer: Inquirer, waiting: Sequence[tuple[str, str]], instead: str) -> None:
    """Raise an error if a person ended the turn of the waiting calls and the program was already
    informed.

    Args:
        inquirer: The inquirer of the run.
        waiting: Name and id of each call that the framework waits for.
        instead: Advice for the error message, for example a value to pass instead.

    Raises:
        ConfigError: A person ended the previous turn.
    """
    if waiting and inquirer.follows_ended_turn:
        calls = ", ".join(f"`{name}` ({id})" for name, id in waiting)  # noqa: A001  the wire's word
        raise ConfigError(
            f"A person ended the turn of these calls: {calls}. No question was asked and no tool"
            f" ran. {instead}"
        )


async def check_approved(call: InquirerCall, tool: str, arguments: JsonObject) -> None:
    """Ask a person whether a call may run. No model answers this question.

    Raises:
        Rejected: The person refused the call.
        Suspended: Nobody is available to answer now.
    """
    context = json.dumps(arguments, ensure_ascii=False, indent=2)
    if not await call.ask(
        Question.boolean(APPROVE, f"Run `{tool}`?", context=context, exclusive=True)
    ):
        raise Rejected("It did not run.")


def edited_arguments(call: InquirerCall, arguments: JsonObject) -> JsonObject | None:
    """Return the arguments as edited by a person, or None if they are unchanged.

    Args:
        call: The call, with its permission.
        arguments: Arguments from the model.
    """
    run = call.context.arguments
    return None if json_equal(run, arguments) else run


def invalid_edit(tool: str, reason: object) -> Rejected:
    """Return the error for edited arguments that match the schema but that the tool rejects."""
    return Rejected(f"`{tool}` does not accept the edit: {reason}. It did not run.")
