"""Previews a call: its tool's first question, and the result of the tool's own rule.

A tool can return the question that it would ask if it ran now, such as whether to overwrite an
existing file. The person is then asked this question instead of the standard permission question.
Answering yes approves the call and also answers the question, if the tool asks exactly this
question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn, cast

from midturn.ports import Tool, ToolRun
from midturn.question.answer_type import BooleanType
from midturn.question.question import Question
from midturn.runtime.call_state import CallState
from midturn.turn.inputs import FormWanted, QuestionPreviewed

if TYPE_CHECKING:
    from midturn.events.types import ToolCall
    from midturn.routing.rules import Ruling

_LOG = logging.getLogger(__name__)


def previewing_tools(tools: Mapping[str, Tool]) -> frozenset[str]:
    """Return the names of the tools that support previews: tools that can return their first
    question, and tools whose rule is a Python function.
    """
    return frozenset(
        name
        for name, tool in tools.items()
        if getattr(tool, "can_preview", False) or _rule_of(tool)
    )


def tools_with_rules(tools: Mapping[str, Tool]) -> frozenset[str]:
    """Return the names of the tools whose rule is a Python function (`@tool(run=…)`)."""
    return frozenset(name for name, tool in tools.items() if _rule_of(tool))


def preview_call(tools: Mapping[str, Tool], state: CallState, call: ToolCall) -> QuestionPreviewed:
    """Get the first question of a call's tool, and evaluate the tool's rule for the call.

    Only a yes/no question is returned, because approving the call cannot answer any other question.
    """
    tool = tools.get(call.name)
    ruling = _ruling(tool, state.tool_run(call, {}, _refuse_to_ask))
    preview_question: Callable[[ToolRun], Question[bool] | None] | None = getattr(
        tool, "preview_question", None
    )
    if preview_question is None or (ruling and ruling.run != "ask"):
        return QuestionPreviewed(call.event, None, ruling)

    try:
        question = preview_question(state.tool_run(call, {}, _refuse_to_ask))
    except Exception:  # noqa: BLE001  the call itself will report what is wrong
        _LOG.debug("%r could not preview its first question", call.name, exc_info=True)
        question = None
    is_yes_or_no = isinstance(question, Question) and isinstance(question.answer_type, BooleanType)
    return QuestionPreviewed(call.event, question if is_yes_or_no else None, ruling)


def _rule_of(tool: Tool | None) -> Callable[[ToolRun], Ruling] | None:
    """Return the tool's Python rule function, if there is one."""
    return (
        cast("Callable[[ToolRun], Ruling] | None", getattr(tool, "ruling", None))
        if getattr(tool, "has_rule", False)
        else None
    )


def _ruling(tool: Tool | None, run: ToolRun) -> Ruling | None:
    """Return the result of the tool's rule for a call, or None if the tool has no rule. If the rule
    raises an exception, a person is asked.
    """
    rule = _rule_of(tool)
    if rule is None:
        return None
    try:
        return rule(run)
    except Exception:  # a failed rule must not count as an approval
        logging.getLogger("midturn.tools").exception(
            "the rule of %r failed, so a person is asked", run.call.name
        )
        return None


async def _refuse_to_ask(asking: FormWanted) -> NoReturn:
    """Raise an error, because a preview must not ask questions."""
    raise NotImplementedError(asking)
