"""Models that answer now: the response that is under way, and consultations about a question, with their requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, cast

from midturn import ports
from midturn.errors import ModelError, ScriptError
from midturn.events.types import ChatResponse, Event, InquiryRequest
from midturn.exchange import BrokeOff, Finished, ModelRequest, ReasoningDelta, TextDelta, Usage, recorded
from midturn.journal import Journal
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import JsonObject
from midturn.question.question import Question
from midturn.runtime.loop_thread import is_cancelled
from midturn.runtime.side_request import ChosenAssistant, chosen_assistant
from midturn.runtime.side_responder import Consultation, consult
from midturn.runtime.surroundings import Surroundings
from midturn.turn import step as steps

if TYPE_CHECKING:
    from midturn.events.types import ToolCall
    from midturn.routing.rules import Ruling
    from midturn.runtime.tool_runs import Spawn


class ModelResponse:
    """Asks the model, shows what it says as it says it, and reports the whole."""

    def __init__(self, model: ports.Model, display: ports.Display, report: Callable[[steps.Happened], None]) -> None:
        self._model = model
        self._display = display
        self._report = report
        self._said: list[TextDelta | ReasoningDelta] = []
        self._task: asyncio.Task[None] | None = None
        self.usage = Usage()
        self.failure: ModelError | None = None
        """What the last response failed with, if it did."""

    def start(self, request: ModelRequest, spawn: Spawn) -> None:
        """Ask the model."""
        self._said = []
        self._task = spawn(self._answer(request))

    def stop(self) -> None:
        """Stop the response at once."""
        if self._task:
            self._task.cancel()

    def said_so_far(self) -> tuple[ChatResponse, ...]:
        """Return what was shown of a response that is being cut off, with the metadata that came last."""
        thought = [delta for delta in self._said if isinstance(delta, ReasoningDelta)]
        said = [delta for delta in self._said if isinstance(delta, TextDelta)]
        parts: list[ChatResponse] = []
        if thought:
            parts.append(ChatResponse(reasoning="".join(delta.text for delta in thought), metadata=thought[-1].metadata))
        if said:
            parts.append(ChatResponse(message="".join(delta.text for delta in said), metadata=said[-1].metadata))
        return tuple(parts)

    async def _answer(self, request: ModelRequest) -> None:
        self._display.show(ports.ModelStarted())
        try:
            happened = await self._stream(request)
        except ScriptError as error:
            happened = steps.TurnFailed(str(error))
        except ModelError as error:
            self.failure = error
            happened = steps.ModelFailed(str(error))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            happened = steps.ModelFailed(f"{self._model.name} cancelled its own response")
        self._display.show(ports.ModelFinished())
        self._said = []
        self._task = None
        self._report(happened)

    async def _stream(self, request: ModelRequest) -> steps.Happened:
        finished: Finished | None = None
        is_anew = False
        async for event in self._model.stream(request):
            if is_anew:  # until then, what was shown of the answer that broke off is all that there is
                self._said, is_anew = [], False
            match event:
                case TextDelta(text):
                    self._said.append(event)
                    self._display.show(ports.TextShown(text))
                case ReasoningDelta(text):
                    self._said.append(event)
                    self._display.show(ports.ReasoningShown(text))
                case BrokeOff():
                    is_anew = True
                    self._display.show(ports.ModelFinished())
                    self._display.show(ports.ModelStarted())
                case Finished():
                    finished = event
        if finished is None:
            return steps.ModelFailed(f"{self._model.name} ended its response without finishing it")
        self.usage += finished.usage
        return steps.ModelAnswered(tuple(map(recorded, finished.counted(self._model.name))))


# ----------------------------------------------------------------------------------------------------------------------
# Foretold questions: shown together with the permission, one prompt for one thing
# A tool may foretell the question that it would ask if it ran now, such as whether to overwrite a file that exists. The person then
# sees that question in place of the permission's own words. A yes to it answers it, as long as the tool asks the very same question.


_LOG = logging.getLogger(__name__)


def foretelling(tools: Mapping[str, ports.Tool]) -> frozenset[str]:
    """Return which tools can say what they would ask."""
    return frozenset(name for name, tool in tools.items() if getattr(tool, "can_foretell", False) or _rule_of(tool))


def own_rules(tools: Mapping[str, ports.Tool]) -> frozenset[str]:
    """Return the tools that have a rule of their own, which is a function of the program."""
    return frozenset(name for name, tool in tools.items() if _rule_of(tool))


def foretold(tools: Mapping[str, ports.Tool], surroundings: Surroundings, call: ToolCall) -> steps.Foretold:
    """Ask the tool of a call what it would ask first, and its program whether it may run.

    Only what a yes answers can be told together with a permission.
    """
    tool = tools.get(call.name)
    said = _said(tool, surroundings.of_run(call, {}, _refuse_to_ask))
    foretell: Callable[[ports.ToolRun], Question[bool] | None] | None = getattr(tool, "foretell", None)
    if foretell is None or (said and said.run != "ask"):
        return steps.Foretold(call.event, None, said)

    try:
        question = foretell(surroundings.of_run(call, {}, _refuse_to_ask))
    except Exception:  # noqa: BLE001  whatever it is: the call itself will say what is wrong
        _LOG.debug("%r could not foretell what it asks", call.name, exc_info=True)
        question = None
    is_yes_or_no = isinstance(question, Question) and isinstance(question.answer_type, BooleanType)
    return steps.Foretold(call.event, question if is_yes_or_no else None, said)


def _rule_of(tool: ports.Tool | None) -> Callable[[ports.ToolRun], Ruling] | None:
    """Return the program's own rule about the calls of a tool."""
    return cast("Callable[[ports.ToolRun], Ruling] | None", getattr(tool, "ruling", None)) if getattr(tool, "has_rule", False) else None


def _said(tool: ports.Tool | None, run: ports.ToolRun) -> Ruling | None:
    """Ask the program's own rule about a call. One that fails lets nothing run: a person is asked."""
    rule = _rule_of(tool)
    if rule is None:
        return None
    try:
        return rule(run)
    except Exception:  # whatever it is, it is no yes
        logging.getLogger("midturn.tools").exception("the rule of %r failed, so that a person is asked", run.call.name)
        return None


async def _refuse_to_ask(asking: steps.FormWanted) -> NoReturn:
    """Answer nothing: what is foretold is not asked."""
    raise NotImplementedError(asking)


class Assistants:
    """`ports.Consultant` in one conversation: `model_for` builds the model that the settings name.

    `tables` are the main assistant's settings and those of questions in general; a question's own are laid over them.
    """

    def __init__(
        self,
        model_for: Callable[[ChosenAssistant], ports.Model],
        tables: tuple[JsonObject, JsonObject],
        turn: steps.TurnSettings,
        surroundings: Surroundings,
    ) -> None:
        self._model_for = model_for
        self._tables = tables
        self._turn = turn
        self._surroundings = surroundings

    def model_asked(self, request: InquiryRequest, tool: str) -> str:
        """Return the name of the model that a question goes to."""
        return self._chosen(request, tool).model

    async def consult(self, request: InquiryRequest, tool: str, events: Sequence[Event]) -> steps.AssistantReplied | steps.AssistantFailed:
        """Return a checked answer to the request, or why there is none."""
        settings = self._chosen(request, tool)
        main = self._surroundings.request(events)
        return await consult(self._model_for(settings), Consultation(asked=request, tool=tool, main=main, settings=settings))

    def _chosen(self, request: InquiryRequest, tool: str) -> ChosenAssistant:
        return chosen_assistant(*self._tables, self._turn.tools[tool].question(request.question_id).target.assistant)


# ----------------------------------------------------------------------------------------------------------------------
# Consultations under way: one task for each question


class Consulting:
    """Asks models on the side, shows which one is asked, and reports what they answered."""

    def __init__(
        self, consultant: ports.Consultant, journal: Journal, display: ports.Display, report: Callable[[steps.Happened], None]
    ) -> None:
        self._consultant = consultant
        self._journal = journal
        self._display = display
        self._report = report
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, effect: steps.ConsultAssistant, spawn: Spawn) -> None:
        """Ask a model."""
        self._display.show(ports.ConsultStarted(effect.id, self._consultant.model_asked(effect.request, effect.tool)))
        self._tasks[effect.id] = spawn(self._ask(effect))

    def stop(self, id: str) -> None:
        """Stop asking."""
        task = self._tasks.pop(id, None)
        if task:
            task.cancel()
            self._display.show(ports.ConsultFinished(id))

    async def _ask(self, effect: steps.ConsultAssistant) -> None:
        try:
            happened: steps.Happened = await self._consultant.consult(effect.request, effect.tool, self._journal.events)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            happened = steps.AssistantFailed(effect.id, "the request was cancelled")
        except Exception as error:  # noqa: BLE001  whatever went wrong: the question closes, and the turn goes on
            happened = steps.AssistantFailed(effect.id, str(error) or type(error).__name__)
        self._tasks.pop(effect.id, None)
        self._display.show(ports.ConsultFinished(effect.id))
        if isinstance(happened, steps.AssistantFailed):
            self._tell_operators(effect, happened.error)
        self._report(happened)

    def _tell_operators(self, effect: steps.ConsultAssistant, error: str) -> None:
        """Log why a model gave no answer, and show it where the turn runs: who is asked in its place may be somebody else."""
        model = self._consultant.model_asked(effect.request, effect.tool)
        said = f"`{model}` gave no answer to `{effect.tool}.{effect.request.question_id}`: {error}"
        logging.getLogger("midturn.models").warning("%s (conversation %s)", said, self._journal.conversation)
        self._display.show(ports.Notice(said))
