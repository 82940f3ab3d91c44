"""`permission_prompt`: an agent delegates its permissions to a tool."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from msgspec import Struct

from midturn.core.json_value import Json, JsonObject
from midturn.core.loose_json import members, text
from midturn.errors import MidturnError
from midturn.foreign import words
from midturn.foreign.claude import ASKS, answers_by_text, questions_of
from midturn.foreign.errand import AnswersGiven, Approved, Decided, Errand, Refused, RepliedTo, TurnStopped
from midturn.foreign.errands import Errands
from midturn.foreign.occasion import PutForm
from midturn.servers.mcp.asking import AskUserCalls

_LOG = logging.getLogger(__name__)
_WAIT = 86_000.0  # seconds; an agent's own limit may be sooner, and is no answer


class Permitting:
    """Asks whether calls may run."""

    def __init__(self, asking: AskUserCalls, wait: float = _WAIT) -> None:
        self._asking = asking
        self._wait = wait

    async def call(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        """Ask about one call; a question of the agent's own is answered, too. Whatever goes wrong, the agent gets a decision."""
        said = words.FAILED
        try:
            errands, asked = await self._asked(context, members(params.arguments))
            said = words.UNKNOWN
            async with self._asking.signs_of_life(context, errands, asked.errand):
                outcome = await errands.wait(asked.errand, self._wait)
        except MidturnError as error:
            return _result({"behavior": "deny", "message": f"{said} ({error})"})
        except Exception:  # noqa: BLE001  whatever it is, the call must not run
            _LOG.exception("a permission could not be asked for")
            return _result({"behavior": "deny", "message": said})
        if outcome is not None:
            await _close(errands, asked.errand, outcome)
        return _result(asked.decision(outcome))

    async def _asked(self, context: ServerRequestContext[Any], arguments: JsonObject) -> tuple[Errands, _Asked]:
        """Ask, unless this client has asked about the very call before."""
        tool, given = text(arguments.get("tool_name")), members(arguments.get("input"))
        id = self._asking.own_id(text(arguments.get("tool_use_id")))  # noqa: A001  what it is called there
        errands = self._asking.errands(self._asking.caller(context))
        occasion = questions_of(given, gates=True) if tool == ASKS else None
        if isinstance(occasion, PutForm):
            errand = await errands.questions(id, tool, occasion.arguments, occasion.form)
            return errands, _Asked(errand, given, occasion)
        return errands, _Asked(await errands.permission(id, tool or "tool", given), given)


class _Asked(Struct, frozen=True):
    """What was asked about a call with these arguments: whether it may run, or the agent's own question that it is."""

    errand: Errand
    given: JsonObject
    form: PutForm | None = None

    def decision(self, outcome: Decided | None) -> dict[str, Json]:
        """Return what the agent is to do."""
        if isinstance(outcome, AnswersGiven) and self.form is not None:
            answers: Json = answers_by_text(self.form.form, outcome)
            return {"behavior": "allow", "updatedInput": {**self.given, "answers": answers}}
        return _decision(outcome, self.given)


async def _close(errands: Errands, errand: Errand, outcome: Decided) -> None:
    """Record that the agent has its decision. It has it also where that cannot be written down."""
    try:
        await errands.close(errand, words.decided(outcome))
    except Exception:  # noqa: BLE001  it is on record what a person decided, and that is what the agent is told
        _LOG.exception("it could not be recorded that an agent has its decision")


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
