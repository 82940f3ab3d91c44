"""A turn: what happened goes in as a value, what is to be done comes out as values, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from msgspec.structs import replace

from midturn.core.events import (
    AnsweredBy,
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Event,
    InquiryCancelled,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from midturn.core.exchange import Part, ReasoningPart, StructuredPart, TextPart, ToolCallPart
from midturn.core.json_value import json_equal
from midturn.core.reply import Submitted
from midturn.core.routing import messages
from midturn.core.turn.call import Call
from midturn.core.turn.desk import Askable
from midturn.core.turn.effects import CallModel, Effect, EndTurn, LeaveOpen, PromptUser, StopModel, Suspend
from midturn.core.turn.inputs import (
    AnsweredElsewhere,
    AskDropped,
    Asking,
    AssistantFailed,
    AssistantReplied,
    CallBegun,
    CallLeft,
    Happened,
    Interrupted,
    LoopEnded,
    ModelAnswered,
    ModelFailed,
    PromptFailed,
    ToolAsked,
    ToolFinished,
    TurnFailed,
    TurnRequested,
    UserReplied,
)
from midturn.core.turn.record import CallRecord, TurnRecord
from midturn.core.turn.settings import TurnSettings
from midturn.core.turn.state import TurnState
from midturn.core.turn.whole_form import answers_to_form
from midturn.errors import AnswerError

MISFITS = 3  # replies that do not fit, before the prompter counts as failed


class Turn:
    """The machine of one turn.

    `step` takes one thing that happened and returns what is to be done: the events to record come first, as one batch, and are to be
    durable before anything else of the tuple begins. `resume` folds recorded events into the same machine. `ids` gives `event_id`s.
    """

    def __init__(self, settings: TurnSettings, ids: Iterator[str]) -> None:
        self._state = TurnState(settings, ids)
        self._calls: dict[str, Call] = {}
        self._model_is_asked = False
        self._over = False

    @classmethod
    def resume(cls, events: Sequence[Event], settings: TurnSettings, ids: Iterator[str]) -> tuple[Turn, tuple[Effect, ...]]:
        """Fold the events of an open turn, and say what is to be done next. A turn that has ended needs nothing."""
        turn = cls.load(events, settings, ids)
        return turn, turn.go_on()

    @classmethod
    def load(cls, events: Sequence[Event], settings: TurnSettings, ids: Iterator[str]) -> Turn:
        """Fold the events of a turn, and do nothing yet."""
        turn = cls(settings, ids)
        turn.fold(events)
        return turn

    @property
    def record(self) -> TurnRecord:
        """What the turn's events add up to."""
        return self._state.record

    @property
    def is_over(self) -> bool:
        """Whether the turn is suspended, left open, or ended: nothing that happens now changes it."""
        return self._over

    def step(self, happened: Happened) -> tuple[Effect, ...]:
        """Take in one thing that happened; return what is to be done, in order. What comes too late is dropped."""
        if self._over:
            return ()
        self._happen(happened)
        self._settle()
        return self._state.drain()

    def fold(self, events: Sequence[Event]) -> None:
        """Take in events that are on record already."""
        for event in events:
            self.record.apply(event)
        self._over = self.record.ended is not None

    def go_on(self) -> tuple[Effect, ...]:
        """Say what a loaded turn does next."""
        self._go_on()
        self._settle()
        return self._state.drain()

    def restart(self, call: str) -> None:
        """Start one unfinished call of a loaded turn up to what it waits for, and leave the others alone."""
        self._begin(self.record.calls[call])

    def come_back(self) -> None:
        """Let a suspended turn take one more reply: whoever answers is still there."""
        self._over = self.record.ended is not None

    def reopen(self, call: str, asking: Asking) -> None:
        """Walk a form of an unfinished call of a loaded turn up to its open question, without running the tool."""
        record = self.record.calls[call]
        policy = self._state.settings.tools[record.request.name]
        self._calls[call] = reopened = Call(self._state, record, policy)
        reopened.asked(0, asking)
        reopened.advance()

    def waits_for(self, call: str) -> str | None:
        """Return the id of the inquiry or approval that a call waits for."""
        live = self._live(call)
        return live.waits_for if live else None

    # What happened --------------------------------------------------------------------------------------------------

    def _happen(self, happened: Happened) -> None:  # noqa: C901, PLR0912  one line per input
        match happened:
            case TurnRequested():
                self._requested(happened)
            case ModelAnswered(parts):
                self._answered(parts)
            case CallBegun():
                self._begun(happened)
            case CallLeft(call):
                if live := self._live(call):
                    live.abandon()
                    del self._calls[call]
            case LoopEnded():
                if self.record.open_calls():
                    self._leave(Suspend())
                else:
                    self._finish("completed")
            case ModelFailed(error):
                self._leave(LeaveOpen(error))
            case TurnFailed(error):
                self._end("failed", error)
            case ToolAsked(call, ask, asking):
                if live := self._live(call):
                    live.asked(ask, asking)
            case AskDropped(call, ask):
                if live := self._live(call):
                    live.dropped(ask)
            case ToolFinished(call, outcome):
                if live := self._live(call):
                    live.finished(outcome)
            case UserReplied() | AnsweredElsewhere():
                self._replied(happened)
            case PromptFailed(id, error):
                self._prompt_failed(id, error)
            case AssistantReplied() | AssistantFailed():
                self._consulted(happened)
            case Interrupted(parts):
                self._interrupted(parts)
            case _ as other:
                assert_never(other)

    def _requested(self, request: TurnRequested) -> None:
        write = self._state.write
        write(TurnStart())
        if request.delta is not None:
            write(ConfigDelta(delta=request.delta))
        write(ChatRequest(content=request.content, author=request.author, schema=request.schema))
        self._ask_model()

    def _answered(self, parts: Sequence[Part]) -> None:
        """Record what the model said; its calls begin, and without calls the turn is over."""
        self._model_is_asked = False
        for part in parts:
            self._state.write(_said(part))
        if not any(isinstance(part, ToolCallPart) for part in parts):
            self._finish("completed")
            return
        for record in self.record.open_calls():
            self._begin(record)

    def _begun(self, begun: CallBegun) -> None:
        """Begin a call of a loop that is not ours: one that was left unfinished starts again, and replays what was recorded in it."""
        if not self.record.started:
            self._state.write(TurnStart())
        unfinished = (record for record in self.record.open_calls() if record.request.event_id not in self._calls)
        record = next((record for record in unfinished if _is_call(record.request, begun)), None)
        if record is None:
            request = self._state.write(ToolCallRequest(id=begun.id, name=begun.name, arguments=begun.arguments))
            record = self.record.calls[request.event_id]
        for chain in record.chains:
            chain.used = False
        self._begin(record)

    def _replied(self, happened: UserReplied | AnsweredElsewhere) -> None:
        """Act on a reply. One that does not fit is asked for again; the third such reply of a prompter counts as its failure."""
        askable = self._find(happened.id)
        if askable is None or (isinstance(happened, AnsweredElsewhere) and self._form_answered(happened)):
            return
        desk = self._state.desk
        if isinstance(happened, UserReplied):
            desk.returned(happened.id)
        error = askable.take(happened.reply, happened.who)
        if error is None or isinstance(happened, AnsweredElsewhere):
            return
        if desk.misfit(happened.id) < MISFITS:
            desk.show_again(happened.id)
            self._show(askable, error)
        else:
            askable.fail(error)

    def _form_answered(self, happened: AnsweredElsewhere) -> bool:
        """Take all answers to a form at once, in one batch: what the map leaves out stays open, a complete map counts as reviewed."""
        call = next((call for call in self._calls.values() if call.waits_for == happened.id), None)
        asked = self.record.inquiries.get(happened.id)
        if call is None or call.form is None or asked is None:
            return False
        try:
            question = asked.request.question.asked(asked.request.question_id)
            answers = answers_to_form(call.form, question, happened.reply)
        except AnswerError:
            return True  # nothing has happened; whoever answered hears that it was not accepted
        while answers and (waiting := call.waits_for) and (askable := self._find(waiting)):
            attempt = self.record.inquiries.get(waiting)
            reply = answers.get(attempt.request.question_id) if attempt else Submitted()
            if reply is None or askable.take(reply, happened.who):
                break
            call.advance()
        return answers is not None

    def _prompt_failed(self, id: str, error: str) -> None:
        askable = self._find(id)
        if askable:
            self._state.desk.returned(id)
            askable.fail(error)

    def _consulted(self, happened: AssistantReplied | AssistantFailed) -> None:
        inquiry = next((i for call in self._calls.values() if (i := call.consult_returned(happened.id))), None)
        if inquiry is None:
            return  # the question was closed meanwhile
        match happened:
            case AssistantReplied(answer=answer, model=model, reason=reason, metadata=metadata):
                inquiry.assistant_said(answer, AnsweredBy("assistant", model=model), reason, metadata)
            case AssistantFailed(error=error, metadata=metadata):
                inquiry.assistant_failed(error, metadata)

    def _interrupted(self, parts: Sequence[Part]) -> None:
        """Ctrl-C with no prompt open: the questions that are open close, and the turn ends."""
        for part in parts:
            self._state.write(_said(part))
        self._end_by_user({call.request.event_id for call in self.record.open_calls() if any(c.is_open for c in call.chains)})

    # What follows ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Go on until nothing moves by itself: answers that are there are walked past, prompts open, the model is asked."""
        if self._over:
            return
        moved = True
        while moved and not self._over:
            for call in list(self._calls.values()):
                call.advance()
            ended = [call.event for call in self._calls.values() if call.ends_turn]
            if ended:
                self._end_by_user(set(ended))
                return
            moved = self._state.desk.open_next(self._show)
        self._calls = {event: call for event, call in self._calls.items() if not call.is_done}
        if not self._calls and not self._model_is_asked and self.record.waits_for_model:
            self._ask_model()
        elif self._calls and not any(call.is_moving for call in self._calls.values()):
            self._leave(Suspend())

    def _go_on(self) -> None:
        """Find out what an open turn does next."""
        if self._over or not self.record.started:
            self._over = True
            return
        for record in self.record.open_calls():
            self._begin(record)
        if not self._calls and not self.record.waits_for_model:
            self._finish("completed")

    def _begin(self, record: CallRecord) -> None:
        name = record.request.name
        policy = self._state.settings.tools.get(name)
        if policy is None:
            content = messages.unknown_tool(name, list(self._state.settings.tools))
            self._state.write(ToolCallResponse(id=record.request.id, content=content, is_error=True, call=record.request.event_id))
            return
        self._calls[record.request.event_id] = call = Call(self._state, record, policy)
        call.begin()

    def _ask_model(self) -> None:
        """Ask the model, unless the turn has had its share."""
        limits = self._state.settings.limits
        if self.record.stopped_by_breaker:
            self._end("failed", f"stopped after {limits.rejected_cycles} rejections in a row: nobody was there to review them")
        elif self.record.cycles >= limits.cycles:
            self._end("failed", f"stopped after {limits.cycles} model calls; raise limits.cycles to allow more")
        else:
            self._model_is_asked = True
            self._state.want(CallModel())

    # How it ends ----------------------------------------------------------------------------------------------------

    def _finish(self, status: str, error: str | None = None) -> None:
        self._state.write(TurnEnd(status=status, error=error))
        self._leave(EndTurn(status, error))

    def _end_by_user(self, asked: set[str]) -> None:
        """End the turn: every open question and call closes in the same batch."""
        self._close_inquiries()
        for record in self.record.open_calls():
            event = record.request.event_id
            self._close_call(record, messages.INPUT_CANCELLED if event in asked else messages.TURN_ENDED)
        self._stop_everything("ended_by_user")

    def _end(self, status: str, error: str) -> None:
        """End the turn for a reason that is nobody's answer."""
        self._close_inquiries()
        for record in self.record.open_calls():
            self._close_call(record, messages.INTERRUPTED)
        self._stop_everything(status, error)

    def _close_inquiries(self) -> None:
        for attempt in list(self.record.inquiries.values()):
            if attempt.response is None:
                self._state.write(InquiryCancelled(id=attempt.request.id, reason="user"))

    def _close_call(self, record: CallRecord, content: str) -> None:
        request = record.request
        self._state.write(ToolCallResponse(id=request.id, content=content, is_error=True, call=request.event_id))

    def _stop_everything(self, status: str, error: str | None = None) -> None:
        if self._model_is_asked:
            self._model_is_asked = False
            self._state.want(StopModel())
        for call in self._calls.values():
            call.abandon()
        self._finish(status, error)

    def _leave(self, effect: Suspend | LeaveOpen | EndTurn) -> None:
        self._over = True
        self._state.want(effect)

    # Where things are -----------------------------------------------------------------------------------------------

    def _live(self, event: str) -> Call | None:
        call = self._calls.get(event)
        return None if call is None or call.is_done else call

    def _find(self, id: str) -> Askable | None:
        """Return what waits under this id: on the desk, or with a model (a person's answer comes first)."""
        return self._state.desk.find(id) or next((i for call in self._calls.values() if (i := call.consulted(id))), None)

    def _show(self, askable: Askable, error: str | None = None) -> None:
        prompt = askable.prompt()
        self._state.want(PromptUser(replace(prompt, error=error) if error else prompt))


def _is_call(request: ToolCallRequest, begun: CallBegun) -> bool:
    return (request.id, request.name) == (begun.id, begun.name) and json_equal(request.arguments, begun.arguments)


def _said(part: Part) -> Event:
    """Write a part of a model's answer as its event."""
    match part:
        case TextPart(text, metadata):
            return ChatResponse(message=text, metadata=metadata)
        case ReasoningPart(text, metadata):
            return ChatResponse(reasoning=text, metadata=metadata)
        case StructuredPart(value, metadata):
            return ChatResponse(structured=value, metadata=metadata)
        case ToolCallPart(id, name, arguments, _, metadata):
            return ToolCallRequest(id=id, name=name, arguments=arguments, metadata=metadata)
        case _ as other:
            assert_never(other)
