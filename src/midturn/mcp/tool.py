"""A tool of a server, as one of ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, cast

from mcp import types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from midturn.core.exchange import ToolDefinition
from midturn.core.form import Form
from midturn.core.json_value import Json, JsonObject
from midturn.core.outcome import Outcome, ToolError
from midturn.core.source import Source
from midturn.core.turn.effects import Given, GivenAnswer, NoAnswer
from midturn.core.turn.inputs import FormToAsk
from midturn.mcp.asking import AsksTooMuch, Elicitations
from midturn.mcp.call import UnfitResult
from midturn.mcp.connection import Connection, ServerGone
from midturn.mcp.content import outcome_of, with_what_came_of_it
from midturn.ports import ToolRun

SILENCE = 60.0  # seconds that a server may be silent, unless configuration says otherwise
T = TypeVar("T")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64
_PLACES = 3


def registered_name(server: str, tool: str) -> str:
    """Return the name under which a model calls a tool of a server."""
    return _OTHER.sub("_", f"{server}_{tool}")[:_LONGEST]


class McpTool:
    """Runs in the loop of the turn; the server lives in another one."""

    def __init__(
        self, connection: Connection, tool: types.Tool, name: str, loop: asyncio.AbstractEventLoop, silence: float = SILENCE
    ) -> None:
        self._connection = connection
        self._tool = tool
        self._loop = loop
        self._silence = silence
        schema = cast("JsonObject", tool.input_schema)
        self._definition = ToolDefinition(name, tool.description or tool.title or tool.name, schema)

    @property
    def definition(self) -> ToolDefinition:
        """What the server says of it."""
        return self._definition

    def inquiry_source(self) -> Source:
        """It is always the tool that asks, under its registered name: no server sets who asks."""
        return Source.tool(self._definition.name)

    async def execute(self, run: ToolRun) -> Outcome:
        """Call it once (see `ports.Tool`). Cancelling the task cancels the call at the server."""
        here = asyncio.get_running_loop()
        source = self.inquiry_source()

        async def ask(form: Form) -> Mapping[str, Json] | NoAnswer:
            given = await run.ask(FormToAsk(form, source, "report_all", human_only=True))
            return next((none for none in given.values() if isinstance(none, NoAnswer)), None) or _values(given)

        asks = self._connection.spec.asks
        asked = Elicitations((lambda form: _in_loop(ask(form), here)) if asks else None, self._definition.name)
        arguments = dict(cast("Mapping[str, Any]", run.call.arguments))
        call = self._connection.call(self._tool, arguments, asked, self._silence)
        server = f"the MCP server `{self._connection.spec.name}`"
        try:
            return with_what_came_of_it(outcome_of(await _in_loop(call, self._loop)), asked, server)
        except AsksTooMuch as error:
            return ToolError("\n".join([*asked.replies, str(error)]))
        except (ServerGone, TimeoutError, MCPError, UnfitResult, ValidationError) as error:
            return ToolError("\n".join([*asked.replies, f"`{self._definition.name}`: {server} {self._trouble(error)}"]))

    def _trouble(self, error: Exception) -> str:
        """Say why there is no result."""
        match error:
            case ServerGone():
                return f"has gone away: {error}"
            case TimeoutError():
                return f"was given up: {str(error) or f'it was silent for {self._silence:g} seconds'}."
            case UnfitResult():
                return f"gave a result that cannot be used: {error}"
            case ValidationError():
                return f"answered with something that is not in the protocol: {_wrong(error)}"
            case _:
                return f"refuses: {error}"


def _values(given: Given) -> Mapping[str, Json]:
    answers = {id: answer.value for id, answer in given.items() if isinstance(answer, GivenAnswer)}  # noqa: A001  the wire's word
    return cast("Mapping[str, Json]", answers)  # no server may ask for a secret


def _wrong(error: ValidationError) -> str:
    """Say where something is not as the protocol has it, without repeating what a server sent."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False)[:_PLACES])


async def _in_loop(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Await something that runs in another loop; being cancelled here cancels it there."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
