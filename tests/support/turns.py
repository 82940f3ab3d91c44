"""Drives the state machine of a turn with inputs and counting IDs, and collects the effects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from midturn.events.outcome import Success, ToolError
from midturn.events.types import (
    AnsweredBy,
    ChatResponse,
    Event,
    InquiryRequest,
    Source,
    ToolCallRequest,
)
from midturn.question.form import Form
from midturn.question.json_value import Json
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply
from midturn.routing.policy import ToolPolicy
from midturn.turn.inputs import (
    Effect,
    FormWanted,
    Happened,
    ModelAnswered,
    OnFailure,
    PromptUser,
    Record,
    RunTool,
    ToolAwaits,
    ToolDone,
    ToolReturned,
    TurnRequested,
    UserReplied,
)
from midturn.turn.settings import TurnSettings
from midturn.turn.turn import Turn

E = TypeVar("E")

DEPLOY = Source.tool("deploy")
UNATTENDED = ToolPolicy(source=DEPLOY, run="unattended")
CONFIRM = Question.boolean("confirm", "Deploy to staging?")
REGION = Question.select("region", "Which region?", ["eu-1", "us-2"])
TOKEN = Question.secret("token", "The token?")


def counting_ids(start: int = 1) -> Iterator[str]:
    """Yield `e1`, `e2` and so on."""
    return (f"e{number}" for number in itertools.count(start))


def settings(policy: ToolPolicy = UNATTENDED, **changes: Any) -> TurnSettings:
    """Return settings with one tool, `deploy`, and a person attached."""
    return replace(TurnSettings(tools={"deploy": policy}, conversation="1"), **changes)


class Played:
    """A turn with its recorded events and the effects of each step."""

    def __init__(self, given: TurnSettings | None = None, events: Sequence[Event] = ()) -> None:
        self.settings = given or settings()
        self.events: list[Event] = list(events)
        self.batches: list[int] = []
        self.ids = counting_ids(len(events) + 1)
        if events:
            self.turn, effects = Turn.resume(events, self.settings, self.ids)
            self.last: tuple[Effect, ...] = ()
            self._take((*effects, *self.turn.rest()))
        else:
            self.turn = Turn(self.settings, self.ids)
            self.step(TurnRequested("Ship it"))

    def step(self, happened: Happened) -> tuple[Effect, ...]:
        """Feed one input, let the turn rest, and return the effects."""
        return self._take((*self.turn.step(happened), *self.turn.rest()))

    def meanwhile(self, happened: Happened) -> tuple[Effect, ...]:
        """Feed one input without resting, as if more happened at the same time."""
        return self._take(self.turn.step(happened))

    def _take(self, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
        self.last = effects
        batch = [effect.event for effect in effects if isinstance(effect, Record)]
        self.events += batch
        self.batches += [len(batch)] if batch else []
        return effects

    def model_calls(self, *names: str, arguments: Json = None) -> list[str]:
        """Let the model call tools; return the event IDs of the calls."""
        before = len(self.events)
        parts = [
            ToolCallRequest(id=f"call_{i}", name=name, arguments=arguments or {})
            for i, name in enumerate(names, 1)
        ]
        self.step(ModelAnswered(tuple(parts)))
        return [e.event_id for e in self.events[before:] if e.type == "tool_call_request"]

    def model_says(self, text: str = "Done.") -> tuple[Effect, ...]:
        """Let the model finish."""
        return self.step(ModelAnswered((ChatResponse(message=text),)))

    def asks(
        self,
        call: str,
        *questions: Question[Any],
        ask: int = 0,
        review: bool = False,
        on_failure: OnFailure = "fail_call",
    ) -> None:
        """Let the tool ask a form."""
        asking = FormWanted(Form(questions, review), DEPLOY, on_failure)
        self.step(ToolAwaits(call, ask, asking) if ask else ToolReturned(call, asking))

    def step_only(
        self, call: str, *questions: Question[Any], ask: int, review: bool = False
    ) -> tuple[Effect, ...]:
        """Let a coroutine ask a form without resting, as if it did more at the same time."""
        return self._take(
            self.turn.step(ToolAwaits(call, ask, FormWanted(Form(questions, review), DEPLOY)))
        )

    def reply(self, reply: Reply, who: AnsweredBy | None = None) -> tuple[Effect, ...]:
        """Reply to the prompt that opened last."""
        return self.step(UserReplied(self.prompt.id, reply, who or AnsweredBy("user")))

    def answer(self, value: Json, **terms: Any) -> tuple[Effect, ...]:
        """Answer the prompt that opened last."""
        return self.reply(Answered(value, **terms))

    def succeeds(self, call: str, content: str = "ok") -> tuple[Effect, ...]:
        """Let the tool succeed."""
        return self.step(ToolDone(call, Success(content)))

    def fails(self, call: str, message: str = "no") -> tuple[Effect, ...]:
        """Let the tool fail."""
        return self.step(ToolDone(call, ToolError(message)))

    def wanted(self, kind: type[E]) -> list[E]:
        """Return the effects of this kind in the last step."""
        return [effect for effect in self.last if isinstance(effect, kind)]

    def asked_as(self, inquiry: str) -> str:
        """Return the `event_id` of the latest request of an inquiry."""
        return next(
            event.event_id
            for event in reversed(self.events)
            if isinstance(event, InquiryRequest) and event.id == inquiry
        )

    @property
    def prompt(self) -> PromptUser:
        """The prompt that the last step opened."""
        return self.wanted(PromptUser)[0]

    @property
    def run(self) -> RunTool:
        """The run that the last step started."""
        return self.wanted(RunTool)[0]

    def recorded(self, kind: type[E]) -> list[E]:
        """Return the recorded events of this kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def kinds(self) -> list[str]:
        """The types of the recorded events, in order."""
        return [event.type for event in self.events]
