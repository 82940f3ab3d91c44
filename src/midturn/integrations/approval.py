"""The permission of calls, for frameworks in which a tool needs approval."""

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
"""The id of the question that is asked where a permission would show other arguments than those that run. Version 0.2 asked it always."""
RUN = "__run__"
"""The id of a permission."""
GONE_ON = "The agent was run again and made other calls instead. This call did not run."
"""The result of a call that a new run of its agent did not make again."""


def check_not_ended(inquirer: Inquirer, waiting: Sequence[tuple[str, str]], instead: str) -> None:
    """Refuse calls that belong to a turn that a person has ended, once the program has learned of that.

    Args:
        inquirer: The inquirer, which holds the turn.
        waiting: The name and the id of each call that the framework waits for.
        instead: What to pass instead.

    Raises:
        ConfigError: The turn before the held one was ended by a person.
    """
    if waiting and inquirer.follows_ended_turn:
        calls = ", ".join(f"`{name}` ({id})" for name, id in waiting)  # noqa: A001  the wire's word
        raise ConfigError(f"A person has ended the turn of these calls: {calls}. Nothing was asked, and nothing ran. {instead}")


async def check_approved(call: InquirerCall, tool: str, arguments: JsonObject) -> None:
    """Ask a person whether a call may run; no model answers this.

    Raises:
        Rejected: It may not.
        Suspended: No one is there to answer now.
    """
    context = json.dumps(arguments, ensure_ascii=False, indent=2)
    if not await call.ask(Question.boolean(APPROVE, f"Run `{tool}`?", context=context, exclusive=True)):
        raise Rejected("It did not run.")


def edited_arguments(call: InquirerCall, arguments: JsonObject) -> JsonObject | None:
    """Return the arguments that a person has put in place of those of the model; None if they are the same.

    Args:
        call: The call, which has its permission.
        arguments: The arguments of the model.
    """
    run = call.context.arguments
    return None if json_equal(run, arguments) else run


def edit_does_not_fit(tool: str, reason: object) -> Rejected:
    """Return the result of a call whose edited arguments the tool itself refuses, beyond its schema: no fault of the model."""
    return Rejected(f"`{tool}` does not accept the edit: {reason}. It did not run.")
