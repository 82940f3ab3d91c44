"""What every tool run and every model request of a conversation is surrounded by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct, field

from midturn.core.events import ChatRequest, Event
from midturn.core.exchange import DEFAULT_CACHE, DEFAULT_TIMEOUT, ModelRequest, ToolDefinition
from midturn.core.json_value import Json, JsonObject
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.secret import SecretValue
from midturn.core.stream import provider_view
from midturn.core.subject import ToolCall
from midturn.core.turn.effects import Given
from midturn.core.turn.inputs import Asking
from midturn.ports import ToolRun
from midturn.runtime.answer_checks import TurnChecks
from midturn.runtime.secrets import TurnSecrets


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the model is told with every request (`offered` are the tools that it sees), and what tools find around them.

    `timeout` is in seconds without a byte from the model; `root` is the workspace, `deps` what the embedding program hands to tools.
    `secrets` are those that its calls were given, `checks` the rules that they have for answers.
    """

    conversation: str = ""
    system: str = ""
    offered: Sequence[ToolDefinition] = ()
    tool_choice: str = "auto"
    parameters: JsonObject = {}
    cache: str = DEFAULT_CACHE
    timeout: float = DEFAULT_TIMEOUT
    root: str = "."
    deps: object = None
    limits: Limits = DEFAULT_LIMITS
    secrets: TurnSecrets = field(default_factory=TurnSecrets)
    checks: TurnChecks = field(default_factory=TurnChecks)

    def request(self, events: Sequence[Event]) -> ModelRequest:
        """Return the next request of the conversation, as recorded."""
        asked = next((event for event in reversed(events) if isinstance(event, ChatRequest)), None)
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
            conversation=self.conversation,
        )

    def of_run(self, call: ToolCall, answers: Mapping[str, Json | SecretValue], ask: Callable[[Asking], Awaitable[Given]]) -> ToolRun:
        """Return one execution of a call, as the tool sees it."""
        return ToolRun(
            call=call,
            answers=answers,
            ask=ask,
            hide=self.secrets.of(call.event),
            checks=self.checks.of(call.event),
            idempotency_key=f"{self.conversation}.{call.event}",
            conversation=self.conversation,
            root=self.root,
            limits=self.limits,
            deps=self.deps,
        )
