"""What a call would ask first, told together with its permission: one question for one thing.

A tool may foretell the question that it would ask if it ran now, such as whether to overwrite a file that exists. The person then sees that
question in place of the permission's own words. Who says yes to it has answered it, as long as the tool asks the very same question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

from midturn.core.turn.inputs import Foretold, FormToAsk
from midturn.runtime.surroundings import Surroundings

if TYPE_CHECKING:
    from midturn.core.question import Question
    from midturn.core.tool_call import ToolCall
    from midturn.ports import Tool, ToolRun

_LOG = logging.getLogger(__name__)


def foretelling(tools: Mapping[str, Tool]) -> frozenset[str]:
    """Return which tools can say what they would ask."""
    return frozenset(name for name, tool in tools.items() if getattr(tool, "can_foretell", False))


def foretold(tools: Mapping[str, Tool], surroundings: Surroundings, call: ToolCall) -> Foretold:
    """Ask the tool of a call what it would ask first; only what a yes answers can be told together with a permission."""
    foretell: Callable[[ToolRun], Question[bool] | None] | None = getattr(tools.get(call.name), "foretell", None)
    if foretell is None:
        return Foretold(call.event, None)
    from midturn.core.question import Question  # each start asks which tools foretell, and few calls are foretold
    from midturn.core.question.answer_type import BooleanType

    try:
        question = foretell(surroundings.of_run(call, {}, _nobody))
    except Exception:  # noqa: BLE001  whatever it is: the call itself will say what is wrong
        _LOG.debug("%r could not foretell what it asks", call.name, exc_info=True)
        question = None
    is_yes_or_no = isinstance(question, Question) and isinstance(question.answer_type, BooleanType)
    return Foretold(call.event, question if is_yes_or_no else None)


async def _nobody(asking: FormToAsk) -> NoReturn:
    """Answer nothing: what is foretold is not asked."""
    raise NotImplementedError(asking)
