"""Runs a scripted turn in one simulated process: performs the effects of the state machine and
feeds one input after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias, assert_never

from midturn.errors import MidturnError
from midturn.events.open_question import Address
from midturn.events.outcome import Success, ToolError
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, InquiryRequest
from midturn.question.reply import Reply, Unavailable
from midturn.turn.inputs import (
    AnsweredElsewhere,
    AssistantFailed,
    AssistantReplied,
    CallModel,
    ClosePrompt,
    ConfirmValue,
    ConsultAssistant,
    Effect,
    EndTurn,
    FormDropped,
    GiveAnswers,
    Happened,
    Interrupted,
    LeaveOpen,
    Noted,
    PreviewQuestion,
    PromptFailed,
    PromptUser,
    QuestionPreviewed,
    Record,
    RunChild,
    RunTool,
    StopAssistant,
    StopModel,
    StopTool,
    SuspendTurn,
    TimePassed,
    ToolAwaits,
    ToolDone,
    ToolReturned,
    UserReplied,
    Warn,
)
from midturn.turn.queue import OpenDecision
from midturn.turn.turn import Turn
from midturn.turn.votes import note_batch
from support.turn_bridge import (
    MISFIT,
    action_input,
    asking,
    plain_answers,
    plain_given,
    question,
    reply,
)
from support.turn_group import AT_PROMPT
from support.turn_people import (
    ARGUMENTS,
    EDITED,
    LOST,
    MODEL,
    OVERLOADED,
    Does,
    Manner,
    Says,
    manner_of,
    manner_of_decision,
    model,
    person,
)
from support.turn_record_reading import ask_behind
from support.turn_script import (
    Act,
    Awaits,
    Called,
    Ends,
    GivesUp,
    GroupAction,
    Heard,
    Returns,
    Round,
    Running,
    Stuck,
    Tool,
    previewed_question,
    running,
)
from support.turn_world import Open, World, decision

MOST_STEPS = 3_000
Ending: TypeAlias = SuspendTurn | LeaveOpen | EndTurn


class RunningTool:
    """A running tool. `act` is its next action, or None while it waits for `asks`."""

    def __init__(self, called: Called, effect: RunTool) -> None:
        arguments = effect.call.arguments
        text = arguments["text"] if isinstance(arguments, Mapping) else None
        assert text in (ARGUMENTS, EDITED)
        self._tool: Running = running(called, str(text), plain_answers(effect.answers))
        self.act: Act | None = next(self._tool)
        self.asks: dict[int, Heard | None] = {}
        self._asked = 0

    def ask(self) -> int:
        """Register an ask; return its number."""
        self._asked += 1
        self.asks[self._asked] = None
        return self._asked

    def hear(self, ask: int, given: Heard) -> None:
        """Receive an answer. The tool continues when all answers have arrived."""
        if ask not in self.asks:
            return
        assert self.asks[ask] is None, "an ask is answered once"
        self.asks[ask] = given
        heard = [answer for answer in self.asks.values() if answer is not None]
        if self.act is None and len(heard) == len(self.asks):
            self.go_on(heard)

    def go_on(self, heard: Sequence[Heard]) -> None:
        """Continue the tool; store its next action."""
        self.asks = {}
        self.act = self._tool.send(heard)


class Process:
    """Performs effects. Each possible next input has a name that sorts by call."""

    def __init__(self, world: World, turn: Turn) -> None:
        self._world = world
        self._script = world.script
        self._turn = turn
        self._tools: dict[str, RunningTool] = {}
        self._prompts: dict[str, Prompt] = {}
        self._consults: dict[str, InquiryRequest] = {}
        self._previewing: list[str] = []
        self._model = False
        self._misfits = Counter[str]()
        self._warned = set[str]()
        self._ending: Ending | None = None

    def run(self, effects: Sequence[Effect]) -> Ending:
        """Run until the machine is done."""
        self._world.given = {}
        self._perform(effects)
        for _ in range(MOST_STEPS):
            if self._ending:
                assert not self._prompts or isinstance(self._ending, SuspendTurn | LeaveOpen), (
                    "a prompt stays open after the end"
                )
                return self._ending
            if ready := self._ready() or self._ready_elsewhere():
                self._happens(self._world.pick(ready))
            elif self._only_time_can_pass():
                self._perform(self._turn.step(TimePassed(self._world.now(2))))
            else:
                self._perform(self._turn.rest())
                assert self._ending, "nothing can happen any more, and the machine waits"
        raise AssertionError("the process never ends")

    # Possible inputs
    # ----------------------------------------------------------------------------------------------

    def _ready(self) -> list[str]:
        tools = [
            f"{self._world.number(call):02} tool {call}"
            for call, tool in self._tools.items()
            if tool.act
        ]
        prompts = [
            f"{self._world.number(self._call_of(id)):02} prompt {id}"
            for id in self._prompts
            if not self._is_ignored(id)
        ]
        consults = [
            f"{self._world.number(request.call):02} consult {id}"
            for id, request in self._consults.items()
        ]
        previewing = [f"{self._world.number(call):02} foretell {call}" for call in self._previewing]
        people = self._of_people() if self._script.at_once else []
        return [
            *tools,
            *prompts,
            *consults,
            *previewing,
            *people,
            *(["00 model "] if self._model else []),
        ]

    # Requests that wait for people
    # ----------------------------------------------------------------------------------------------

    def _waiting(self) -> list[tuple[str, OpenDecision, Open]]:
        """Return the recorded requests that wait for people, at the prompt or elsewhere, each
        with its name.
        """
        opened = {event.event_id: event for event in self._world.events if isinstance(event, Open)}
        tickets = [
            ticket
            for ticket in self._turn._queue._open.values()
            if ticket.place in ("line", "screen", "inbox")
        ]
        found = [
            (ticket, opened[ticket.decision.event])
            for ticket in tickets
            if ticket.decision.event in opened
        ]
        return [
            (f"{self._world.number(request.call):02} people {request.event_id}", ticket, request)
            for ticket, request in found
        ]

    def _of_people(self) -> list[str]:
        return [
            name
            for name, _, request in self._waiting()
            if self._world.next_actions(request) and not self._world.is_late(request)
        ]

    def _is_ignored(self, prompt: str) -> bool:
        """Whether the person at the prompt ignores it: it is for several people, or nobody
        answers in time.
        """
        found = next(
            (request for _, ticket, request in self._waiting() if ticket.id == prompt), None
        )
        return found is not None and bool(
            self._world.next_actions(found) or self._world.is_late(found)
        )

    def _ready_elsewhere(self) -> list[str]:
        """Return what is answered elsewhere while a prompt stays open: questions for several
        people, and those with a deadline.
        """
        if not self._prompts:
            return []
        waiting = [
            (name, request)
            for name, _, request in self._waiting()
            if not self._world.is_late(request)
        ]
        return [
            name
            for name, request in waiting
            if request.deadline or self._world.next_actions(request)
        ]

    def _only_time_can_pass(self) -> bool:
        """Whether only time can pass: nobody will act in time, while a prompt is open or the turn
        is watched.
        """
        timed = [request for _, _, request in self._waiting() if request.deadline]
        looks = bool(self._prompts) or self._script.at_once
        return looks and bool(timed) and all(self._world.is_late(request) for request in timed)

    def _someone_acts(self, event_id: str) -> None:
        """Apply the next actions on a request: one submitted reply, or the actions of people up
        to the next that counts.
        """
        ticket, request = next(
            (ticket, request)
            for _, ticket, request in self._waiting()
            if request.event_id == event_id
        )
        actions = self._world.next_actions(request)
        for action, counts in actions:
            before = len(self._world.events)
            self._apply_action(ticket, request, action, counts=counts)
            assert (len(self._world.events) > before) is counts, action
        if not actions:
            deed = self._answered_by_one(ticket, request)
            self._step(
                AnsweredElsewhere(
                    event_id,
                    deed,
                    AnsweredBy("user", via="inbox", user=AT_PROMPT),
                    digest=ticket.decision.digest,
                )
            )

    def _answered_by_one(self, ticket: OpenDecision, request: Open) -> Reply:
        if not isinstance(request, InquiryRequest):
            return decision(self._world, request.call, request.kind)
        called = self._world.called(request.call)
        ask, time = ask_behind(called, request, self._world.recorded(request.call))
        back = ticket.decision.prompt().can_go_back
        return reply(
            person(called, ask, time, can_go_back=back, link=bool(request.escalates)), "tool"
        )

    def _apply_action(
        self, ticket: OpenDecision, request: Open, action: GroupAction, *, counts: bool
    ) -> None:
        done, who = action_input(action, self._kind(request))
        if not isinstance(done, Reply):
            try:
                note_batch(
                    self._world.events, Address("1", request.event_id), done, iter(["a door looks"])
                )
            except MidturnError:
                return
            self._step(Noted(request.event_id, done))
        elif (
            counts
            and ticket.place == "screen"
            and (action.who, action.via) == (AT_PROMPT, "terminal")
        ):
            del self._prompts[ticket.id]
            self._step(UserReplied(ticket.id, done, who))
        else:
            self._step(
                AnsweredElsewhere(request.event_id, done, who, digest=ticket.decision.digest)
            )

    def _kind(self, request: Open) -> str:
        if not isinstance(request, InquiryRequest):
            return "boolean"
        return ask_behind(
            self._world.called(request.call), request, self._world.recorded(request.call)
        )[0].kind

    def _call_of(self, prompt: str) -> str:
        return next(event for event, call in self._turn._calls.items() if prompt in call.waiting)

    def _happens(self, name: str) -> None:
        _, what, id = name.split(" ", 2)
        match what:
            case "tool":
                self._tool_acts(id, self._tools[id])
            case "prompt":
                self._prompter_returns(id, self._prompts.pop(id))
            case "consult":
                self._model_is_consulted(self._consults[id])
            case "people":
                self._someone_acts(id)
            case "foretell":
                self._previewing.remove(id)
                told = previewed_question(self._world.called(id))
                self._step(QuestionPreviewed(id, question(told) if told else None))
            case _:
                self._model = False
                self._step(self._world.model())

    # Effects
    # ----------------------------------------------------------------------------------------------

    def _step(self, happened: Happened) -> None:
        if self._turn.needs_time(happened):
            self._perform(self._turn.step(TimePassed(self._world.now())))
        self._perform(self._turn.step(happened))

    def _perform(self, effects: Sequence[Effect]) -> None:
        records = [effect for effect in effects if isinstance(effect, Record)]
        assert tuple(records) == tuple(effects[: len(records)]), "what is recorded comes first"
        self._world.record([record.event for record in records])
        for effect in effects[len(records) :]:
            assert self._ending is None, "nothing is done after the end"
            self._begin(effect)

    def _begin(self, effect: Effect) -> None:  # noqa: C901, PLR0912  one line per effect
        match effect:
            case Record():
                raise AssertionError("a record after something else")
            case CallModel():
                assert not self._model
                self._model = True
            case StopModel():
                self._model = False
            case PreviewQuestion(call):
                assert self._tool(call.event).previews
                self._previewing.append(call.event)
            case RunTool(call):
                self._run(call.event, effect)
            case GiveAnswers(call, ask, given):
                self._world.given[call].append(("ask", plain_given(given)))
                self._tools[call].hear(ask, plain_given(given))
            case StopTool(call):
                del self._tools[call]
            case PromptUser(id, prompt):
                self._show(id, prompt)
            case ClosePrompt(id):
                del self._prompts[id]
            case ConsultAssistant(request):
                assert effect.id not in self._consults
                self._consults[effect.id] = request
            case StopAssistant(id):
                del self._consults[id]
            case Warn(text):
                assert text not in self._warned, "a warning is given once"
                self._warned.add(text)
            case RunChild():
                raise AssertionError("no script has an agent inside a tool")
            case ConfirmValue():
                raise AssertionError("no script has a tool that keeps values")
            case SuspendTurn() | LeaveOpen() | EndTurn():
                self._ending = effect
            case _ as other:
                assert_never(other)

    def _run(self, call: str, effect: RunTool) -> None:
        assert call not in self._tools, "a tool runs once at a time"
        assert self._world.recorded(call).response is None, (
            "a call with a response is not run again"
        )
        self._world.given.setdefault(call, []).append(("run", plain_answers(effect.answers)))
        self._tools[call] = RunningTool(self._world.called(call), effect)

    def _show(self, id: str, prompt: Prompt) -> None:
        assert not self._prompts, "one prompt at a time"
        self._prompts[id] = prompt
        if prompt.error is None:
            self._misfits.pop(id, None)
        else:
            assert self._misfits[id] in (1, 2), "an error is shown where a reply did not fit"

    # A tool
    # ----------------------------------------------------------------------------------------------

    def _tool_acts(self, call: str, tool: RunningTool) -> None:
        act, tool.act = tool.act, None
        match act:
            case Returns(asked):
                del self._tools[call]
                self._step(ToolReturned(call, asking(asked, self._tool(call))))
            case Awaits(rounds):
                for number, asked in [(tool.ask(), asked) for asked in rounds]:
                    self._ask(call, number, asked)
            case GivesUp(asked):
                self._drop(call, tool, asked)
            case Ends(content, fails, left):
                if left:
                    self._ask_and_ignore(call, tool, left)
                if self._tools.pop(call, None):
                    self._step(ToolDone(call, ToolError(content) if fails else Success(content)))
            case Stuck():
                self._step(Interrupted())
            case None:
                raise AssertionError("the tool waits")

    def _ask(self, call: str, number: int, asked: Round) -> None:
        self._step(ToolAwaits(call, number, asking(asked, self._tool(call))))

    def _ask_and_ignore(self, call: str, tool: RunningTool, asked: Round) -> int:
        """Ask a form; the tool ignores the answer."""
        number = tool.ask()
        tool.asks = {}
        self._ask(call, number, asked)
        return number

    def _drop(self, call: str, tool: RunningTool, asked: Round) -> None:
        """Ask a form and abandon it at once."""
        number = self._ask_and_ignore(call, tool, asked)
        if call in self._tools:
            self._step(FormDropped(call, number))
            tool.go_on([])

    def _tool(self, call: str) -> Tool:
        tool = self._world.called(call).tool
        assert tool is not None
        return tool

    # People and models
    # ----------------------------------------------------------------------------------------------

    def _prompter_returns(self, id: str, prompt: Prompt) -> None:
        """Return from a prompter."""
        call = self._call_of(id)
        called = self._world.called(call)
        if prompt.kind == "tool":
            request = next(
                one.attempt.request
                for one in self._turn.record.inquiries.values()
                if one.attempt.request.event_id == id
            )
            ask, time = ask_behind(called, request, self._world.recorded(call))
            how = manner_of(self._script, called, ask, time)
            deed = reply(
                person(
                    called, ask, time, can_go_back=prompt.can_go_back, link=bool(request.escalates)
                ),
                "tool",
            )
        else:
            how = manner_of_decision(self._script, called, prompt.kind)
            places = (
                self._turn._calls[call]._run_waiting_for(id).places
                if prompt.kind == "review"
                else [0]
            )
            deed = decision(self._world, call, prompt.kind, max(places) + 1)
        self._step(self._prompted(id, prompt, how, deed))

    def _prompted(self, id: str, prompt: Prompt, how: Manner, deed: Reply) -> Happened:
        misfits = self._misfits.pop(id, 0)
        if how == "raises":
            return PromptFailed(id, LOST)
        if how == "away":
            return UserReplied(id, Unavailable())
        if misfits < {"misfit": 1, "three misfits": 3}.get(how, 0):
            self._misfits[id] = misfits + 1
            return UserReplied(id, MISFIT[prompt.kind])
        return UserReplied(id, deed, AnsweredBy("user", via="terminal", user=AT_PROMPT))

    def _model_is_consulted(self, request: InquiryRequest) -> None:
        called = self._world.called(request.call)
        ask, time = ask_behind(called, request, self._world.recorded(request.call))
        match model(called, ask, time):
            case Says(value, reason):
                del self._consults[request.event_id]
                self._step(AssistantReplied(request.event_id, value, MODEL, reason))
            case Does("interrupted"):
                self._step(Interrupted())
            case _:
                del self._consults[request.event_id]
                self._step(AssistantFailed(request.event_id, OVERLOADED))
