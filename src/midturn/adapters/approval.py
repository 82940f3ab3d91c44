"""The question whether a call may run, for frameworks in which a tool needs approval."""

from __future__ import annotations

import json

from midturn.agent.inquirer_call import InquirerCall
from midturn.question.question import Question
from midturn.tools.returned import Rejected
from midturn.values.json_value import JsonObject

APPROVE = "approve"
"""The id of the question."""
GONE_ON = "The agent was run again and made other calls instead. This call did not run."
"""The result of a call that a new run of its agent did not make again."""


async def check_approved(call: InquirerCall, tool: str, arguments: JsonObject) -> None:
    """Ask a person whether a call may run; no model answers this.

    Raises:
        Rejected: It may not.
        Suspended: No one is there to answer now.
    """
    context = json.dumps(arguments, ensure_ascii=False, indent=2)
    if not await call.ask(Question.boolean(APPROVE, f"Run `{tool}`?", context=context, exclusive=True)):
        raise Rejected("It did not run.")
