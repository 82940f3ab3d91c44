"""A remote agent as the model of a turn, for commands.

A message from the user becomes a call to the tool `ask_remote_agent`, and the result of the call is
the response. The call sends the message and asks people the remote agent's questions. It continues
after a crash, like every call to a remote agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from midturn.errors import ModelError
from midturn.events.types import (
    CallValue,
    ChatRequest,
    Event,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.exchange import Finished, ModelEvent, ModelRequest, TextDelta, TextPart, ToolCallPart
from midturn.integrations.a2a.remote_tool import KEPT, remote_agent_tool
from midturn.integrations.remote_http import check_url
from midturn.question.json_value import members
from midturn.question.text import single_line
from midturn.tools.function import FunctionTool

ASK_TOOL: Final = "ask_remote_agent"
"""The tool that sends a message to the remote agent."""
_MAX_NAME_LENGTH: Final = 128


class RemoteModel:
    """Uses a remote A2A agent as a model.

    Args:
        url: Address of the agent.
        headers: Headers to send with each request. They are not recorded.

    Raises:
        ConfigError: The address is not valid.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        check_url(url)
        self._url = url
        self._headers = dict(headers)

    @property
    def name(self) -> str:
        """The model ID."""
        return f"a2a:{self._url}"

    @property
    def agent_name(self) -> str:
        """The name of the asking agent, which is the host (and port) of its address."""
        return single_line(urlsplit(self._url).netloc)[:_MAX_NAME_LENGTH]

    def tool(self) -> FunctionTool[Any, Any]:
        """Return the tool that sends a message to the agent."""
        return remote_agent_tool(
            self._url, name=ASK_TOOL, agent_name=self.agent_name, headers=self._headers
        )

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the call that sends the user's message, or the result if the call has ended.

        Args:
            request: The request. Only its recorded events are used.

        Raises:
            ModelError: The request is a question for the model, or requires an answer that matches
                a schema.
        """
        return self._stream(request)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if request.inquiry is not None or request.schema is not None:
            raise ModelError("A remote agent cannot answer with a schema.")
        message, result, context = _exchange(request.recorded)
        if result is not None:
            yield TextDelta(result)
            yield Finished((TextPart(result),))
            return
        arguments = {"message": message, **({"context": context} if context else {})}
        yield Finished((ToolCallPart("message", ASK_TOOL, arguments),))


def _exchange(events: Sequence[Event]) -> tuple[str, str | None, str]:
    """Return the user's last message, the result of its call (None if there is none), and the
    remote context of the conversation (empty if there is none).
    """
    message, result, context = "", None, ""
    calls: set[str] = set()
    for event in events:
        match event:
            case ChatRequest():
                message, result = event.content, None
            case ToolCallRequest(name=name) if name == ASK_TOOL:
                calls.add(event.event_id)
            case CallValue(call=call, name=name) if name == KEPT and call in calls:
                context = str(members(event.value).get("context") or context)
            case ToolCallResponse(call=call) if call in calls:
                result = event.content
            case _:
                pass
    return message, result, context
