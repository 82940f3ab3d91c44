"""The services of a turn: models, tools and clock. Each entry point creates one set for all its
conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from midturn.clock import SYSTEM
from midturn.events.provider_view import last_user_request, provider_view
from midturn.events.types import Event
from midturn.exchange import DEFAULT_CACHE, DEFAULT_TIMEOUT, ModelRequest, ToolDefinition
from midturn.ports import Clock, Model, Tool
from midturn.question.json_value import JsonObject
from midturn.runtime.side_request import ChosenAssistant


class RequestParts(Struct, frozen=True, kw_only=True):
    """The parts of every model request, apart from the conversation.

    Args:
        system: The system prompt.
        offered: The tools that the model may call.
        tool_choice: `auto`, `none`, `required`, or the name of a tool.
        parameters: Parameters of the provider, such as `temperature`.
        cache: How long the provider caches the prefix: `off`, `short`, `long` or a duration.
        timeout: Maximum number of seconds without data from the model.
    """

    system: str = ""
    offered: Sequence[ToolDefinition] = ()
    tool_choice: str = "auto"
    parameters: JsonObject = {}
    cache: str = DEFAULT_CACHE
    timeout: float = DEFAULT_TIMEOUT

    def request(self, conversation: str, events: Sequence[Event]) -> ModelRequest:
        """Return the next request of a conversation, given its recorded events."""
        asked = last_user_request(events)
        return ModelRequest(
            system=self.system,
            events=provider_view(events),
            recorded=events,
            tools=self.offered,
            tool_choice=self.tool_choice,
            schema=asked.schema if asked else None,
            parameters=self.parameters,
            cache=self.cache,
            timeout=self.timeout,
            conversation=conversation,
        )


class SideModels(Struct, frozen=True):
    """The models that answer questions.

    Args:
        find: Returns the model for an assistant's settings.
        main: The settings of the main assistant, as a table.
        inquiry: The settings for all questions. They override `main`, and a question's own settings
            override both.
    """

    find: Callable[[ChosenAssistant], Model]
    main: JsonObject
    inquiry: JsonObject = {}


class TurnServices(Struct, frozen=True, kw_only=True):
    """The objects that a turn uses.

    Args:
        model: The main model.
        side_models: The models that answer questions.
        tools: The tools, by name.
        request: Settings of every request to the main model.
        root: The workspace, for tools.
        clock: The clock.
    """

    model: Model
    side_models: SideModels
    tools: Mapping[str, Tool]
    request: RequestParts = RequestParts()
    root: str = "."
    clock: Clock = SYSTEM
