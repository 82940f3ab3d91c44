"""`permission_prompt`: an agent delegates its permissions to a tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext

from midturn.core.json_value import Json
from midturn.core.loose_json import members, text
from midturn.foreign import words
from midturn.foreign.claude import ASKS, answers_by_text, questions_of
from midturn.foreign.errand import AnswersGiven, Approved, Decided, Refused, RepliedTo, TurnStopped
from midturn.foreign.occasion import PutForm
from midturn.foreign.room import NoRoom
from midturn.servers.mcp.asking import AskUserCalls

_WAIT = 86_000.0  # seconds; an agent's own limit may be sooner, and is no answer


class Permitting:
    """Asks whether calls may run."""

    def __init__(self, asking: AskUserCalls, wait: float = _WAIT) -> None:
        self._asking = asking
        self._wait = wait

    async def call(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        """Ask about one call; a question of the agent's own is answered, too."""
        arguments = members(params.arguments)
        tool, given, id = text(arguments.get("tool_name")), members(arguments.get("input")), text(arguments.get("tool_use_id"))  # noqa: A001
        errands = self._asking.errands(self._asking.caller(context))
        occasion = questions_of(given, gates=True) if tool == ASKS else None
        try:
            if isinstance(occasion, PutForm):
                errand = await errands.questions(id, tool, occasion.arguments, occasion.form)
            else:
                errand = await errands.permission(id, tool or "tool", given)
        except NoRoom as full:
            return _result({"behavior": "deny", "message": f"{words.FAILED} ({full})"})
        async with self._asking.signs_of_life(context, errands, errand):
            outcome = await errands.wait(errand, self._wait)
        if isinstance(outcome, AnswersGiven) and isinstance(occasion, PutForm):
            decision: dict[str, Json] = {
                "behavior": "allow",
                "updatedInput": {**given, "answers": answers_by_text(occasion.form, outcome)},
            }
        else:
            decision = _decision(outcome, given)
        if outcome is not None:
            await errands.close(errand, words.decided(outcome))
        return _result(decision)


def _result(decision: Mapping[str, Json]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(decision, ensure_ascii=False))])


def _decision(outcome: Decided | None, given: Json) -> dict[str, Json]:
    match outcome:
        case Approved(arguments=changed):
            return {"behavior": "allow", "updatedInput": given if changed is None else changed}
        case Refused(reason):
            return {"behavior": "deny", "message": words.refused(reason)}
        case RepliedTo(said):
            return {"behavior": "deny", "message": words.replied(said)}
        case TurnStopped():
            return {"behavior": "deny", "message": words.ENDED}
        case _:
            return {"behavior": "deny", "message": words.NOBODY}
