"""Services and surroundings of a turn: its ports, request settings, secrets, rules for answers, and the recorder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from midturn.errors import AnswerError
from midturn.events.provider_view import last_user_request, provider_view
from midturn.events.types import Event, ToolCall
from midturn.exchange import DEFAULT_CACHE, DEFAULT_TIMEOUT, ModelRequest, ToolDefinition
from midturn.journal import AnswerFeed, Journal
from midturn.ports import OBSERVERS, Clock, Consultant, Display, Happening, Model, RunObservation, Tool, ToolRun
from midturn.prompter import Prompter
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits, SecretValue
from midturn.question.reply import Answered
from midturn.tools.asking import refused
from midturn.turn.step import Answer, FormWanted, Given

if TYPE_CHECKING:
    from midturn.question.question import Question
    from midturn.question.reply import Reply
    from midturn.runtime.nesting import Host, Nest
    from midturn.tools.asking import Check


# ----------------------------------------------------------------------------------------------------------------------
# Services: everything a turn needs from the world


class Services(Struct, frozen=True, kw_only=True):
    """Everything a turn needs from the world, in one frozen bundle; `ids` gives events their ids.

    `host` is the call around the turn, where that runs inside a tool.
    """

    model: Model
    consultant: Consultant
    tools: Mapping[str, Tool]
    journal: Journal
    answers: AnswerFeed
    prompter: Prompter | None
    display: Display
    clock: Clock
    ids: Iterator[str]
    host: Host | None = None


# ----------------------------------------------------------------------------------------------------------------------
# Displays and observers of a run: they see what becomes durable and what is shown


class Silence:
    """A display that shows nothing."""

    def show(self, happening: Happening) -> None:
        """Show nothing."""


class Observed:
    """A display that lets observers see what it shows."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._seen_by: list[RunObservation] = []
        self.status = "open"
        """What the run has come to."""

    def show(self, happening: Happening) -> None:
        """Take note of what happened (see `ports.Display`)."""
        for observation in self._seen_by:
            observation.show(happening)
        self._display.show(happening)

    def begin(self, journal: Journal) -> None:
        """Have a run observed, until `end`."""
        self._seen_by = [observer.run_began(journal) for observer in OBSERVERS]

    def end(self) -> None:
        """Say what the run has come to."""
        for observation in self._seen_by:
            observation.end(self.status)


# ----------------------------------------------------------------------------------------------------------------------
# Rules of tools for answers, beyond the answer type: held while a question is open


class _Rule(Struct, frozen=True):
    question: Question[Any]
    check: Check[Any]


class CallChecks:
    """`ports.CallRules` of one call, by question id."""

    def __init__(self) -> None:
        self.rules: dict[str, _Rule] = {}

    @contextmanager
    def holding(self, question: Question[Any], check: Check[Any]) -> Generator[None]:
        """Hold a rule while its question is open."""
        self.rules[question.id] = _Rule(question, check)
        try:
            yield
        finally:
            self.rules.pop(question.id, None)

    async def refusal(self, question_id: str, reply: Reply) -> str | None:
        """Return what the rule says against a reply; None where it holds, or where the reply is no answer of its type."""
        rule = self.rules.get(question_id)
        if rule is None or not isinstance(reply, Answered):
            return None
        try:
            answer = rule.question.check(reply.value)
            said = await refused(rule.check, rule.question.typed(answer))
        except AnswerError:  # the machine says so
            return None
        except Exception:  # noqa: BLE001  the tool's own code: it meets its mistake again, where it is reported
            return None
        return _scrub(said, [answer]) if said is not None and isinstance(answer, SecretValue) else said


class TurnChecks:
    """The rules of all calls of a turn, by the call's event."""

    def __init__(self) -> None:
        self._of = defaultdict[str, CallChecks](CallChecks)

    def of(self, call: str) -> CallChecks:
        """Return those of one call."""
        return self._of[call]


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
            given: Any = answer
            value = given.value if isinstance(answer, Answer) else answer
            if isinstance(value, SecretValue) and value not in self._given:
                self._given.append(value)

    def __call__(self, text: str) -> str:
        """Replace every secret of the call, in every form in which a program may write it."""
        if not self._given:
            return text
        return _scrub(text, self._given)


def _scrub(text: str, secrets: Sequence[SecretValue]) -> str:
    from midturn.tools.returned import scrub  # few calls are ever given a secret

    return scrub(text, secrets)


class TurnSecrets:
    """The secrets of all calls of a turn, by the call's event. They outlive a driver: a call may be made again in this process."""

    def __init__(self) -> None:
        self._of = defaultdict[str, CallSecrets](CallSecrets)

    def of(self, call: str) -> CallSecrets:
        """Return those of one call."""
        return self._of[call]

    def learn(self, call: str, answers: Mapping[str, object]) -> None:
        """Take note of the secrets among answers that are about to be given to a call."""
        self._of[call].learn(answers.values())


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the model is told with every request (`offered` are the tools that it sees), and what tools find around them.

    `timeout` is in seconds without a byte from the model; `root` is the workspace, `deps` what the embedding program hands to tools,
    `no_deps` why that is missing.
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
    no_deps: str = ""
    limits: Limits = DEFAULT_LIMITS
    secrets: TurnSecrets = field(default_factory=TurnSecrets)
    checks: TurnChecks = field(default_factory=TurnChecks)
    nest: Nest | None = None

    def request(self, events: Sequence[Event]) -> ModelRequest:
        """Return the next request of the conversation, as recorded."""
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
            conversation=self.conversation,
        )

    def of_run(self, call: ToolCall, answers: Mapping[str, Json | SecretValue], ask: Callable[[FormWanted], Awaitable[Given]]) -> ToolRun:
        """Return one execution of a call, as the tool sees it.

        Its arguments are a copy: what a function writes into them changes neither the record nor what is run next.
        """
        return ToolRun(
            call=replace(call, arguments=deepcopy(call.arguments)),
            answers=answers,
            ask=ask,
            hide=self.secrets.of(call.event),
            checks=self.checks.of(call.event),
            idempotency_key=f"{self.conversation}.{call.event}",
            conversation=self.conversation,
            root=self.root,
            limits=self.limits,
            deps=self.deps,
            no_deps=self.no_deps,
        )
