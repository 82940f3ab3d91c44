"""What every tool run and every model request of a conversation is surrounded by, and the secrets that its calls were given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from midturn.core.events import ChatRequest, Event
from midturn.core.exchange import DEFAULT_CACHE, DEFAULT_TIMEOUT, ModelRequest, ToolDefinition
from midturn.core.json_value import Json, JsonObject
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.secret import SecretValue
from midturn.core.stream import provider_view
from midturn.core.tool_call import ToolCall
from midturn.core.turn.effects import Given, GivenAnswer
from midturn.core.turn.inputs import FormToAsk
from midturn.ports import ToolRun
from midturn.runtime.answer_checks import TurnChecks

if TYPE_CHECKING:
    from midturn.runtime.nesting import Nest


class CallSecrets:
    """Every secret that one call was ever given: of each attempt, of forms, before and after it ran again.

    Calling it replaces them all in a text; it is false while there are none.
    """

    def __init__(self) -> None:
        self._given: list[SecretValue] = []

    def __bool__(self) -> bool:
        return bool(self._given)

    def learn(self, answers: Iterable[object]) -> None:
        """Take note of the secrets among answers that are about to be given to the tool."""
        for answer in answers:
            value = answer.value if isinstance(answer, GivenAnswer) else answer
            if isinstance(value, SecretValue) and value not in self._given:
                self._given.append(value)

    def __call__(self, text: str) -> str:
        """Replace every secret of the call, in every form in which a program may write it."""
        if not self._given:
            return text
        from midturn.tools.scrub import scrub  # few calls are ever given a secret

        return scrub(text, self._given)


class TurnSecrets:
    """The secrets of all calls of a turn, by the call's event. They outlive a driver: a call may be made again in this process."""

    def __init__(self) -> None:
        self._of = defaultdict[str, CallSecrets](CallSecrets)

    def of(self, call: str) -> CallSecrets:
        """Return those of one call."""
        return self._of[call]


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the model is told with every request (`offered` are the tools that it sees), and what tools find around them.

    `timeout` is in seconds without a byte from the model; `root` is the workspace, `deps` what the embedding program hands to tools.
    `secrets` are those that its calls were given, `checks` the rules that they have for answers, `nest` is what agents inside of them
    inherit.
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
    nest: Nest | None = None

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

    def of_run(self, call: ToolCall, answers: Mapping[str, Json | SecretValue], ask: Callable[[FormToAsk], Awaitable[Given]]) -> ToolRun:
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
