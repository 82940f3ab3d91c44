"""The tools that run now: one task a run, one future an `await ctx.ask`, and an outcome that can be read, recorded and asked about."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import DepsMissing, MidturnError, NotAnswered, Problem, QuestionError
from midturn.events.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.events.types import USER, Child, Source
from midturn.ports import Tool, ToolRun
from midturn.question.answer_type import When
from midturn.question.authoring import as_authored, author, written
from midturn.question.form import FOREIGN_LIMITS, Form, FormPlace
from midturn.question.json_value import Json, Limits, pointer_to
from midturn.question.question import Question
from midturn.runtime.loop_thread import is_cancelled
from midturn.runtime.nesting import OUTER, OuterCall
from midturn.runtime.surroundings import CallSecrets, Surroundings
from midturn.tools.names import source_of
from midturn.tools.returned import Rejected, deliverable, failure
from midturn.turn import step as steps
from midturn.turn.ending import Ending
from midturn.turn.record import CallRecord

# ----------------------------------------------------------------------------------------------------------------------
# Check of a tool's questions before anything else sees them: a sound form, without a secret of its call


_AROUND = 1_000  # bytes of a request besides what is asked
_ADVICE = "holds a secret that was given in this call, and a question is shown and recorded. Leave the secret out."


def fit_to_be_asked(form: Form, limits: Limits, hide: Callable[[str], str]) -> Form:
    """Return the form as it may be asked in a call; `hide` knows its secrets.

    Raises:
        QuestionError: It breaks rules, is too large, or repeats a secret of the call; the message names every place, and no secret.
    """
    most = as_authored(form.questions, limits) if form.limit == limits.form else None
    if most is not None and 2 * most < limits.batch:  # as nearly every form: constructors have checked it
        sound = form
    else:
        try:
            sound = checked(form, limits)
            _check_weight(sound, limits)
        except QuestionError as error:  # what is wrong may be quoted
            hidden = [Problem(hide(problem.pointer), hide(problem.message)) for problem in error.problems]
            raise QuestionError(hidden) from None
    if not bool(hide):  # the call was given no secret
        return sound
    leaks = [Problem(pointer, f"it {_ADVICE}") for pointer, text in _texts(sound, hide) if hide(text) != text]
    if leaks:
        raise QuestionError(leaks)
    return sound


def _check_weight(form: Form, limits: Limits) -> None:
    """Make sure that the form can be recorded: its first request holds all of it, and its own question once more."""
    sizes = [len(msgspec.json.encode(question.to_json())) for question in form.questions]
    size = sum(sizes) + max(sizes) + _AROUND
    if size > limits.batch:
        room = f"{limits.batch:,} may be recorded at once (`limits.batch`)"
        raise QuestionError([Problem("", f"what is asked has {size:,} bytes as it is recorded; {room}. Ask less.")])


def _texts(form: Form, hide: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield every text of a form with its place; `type` and the other names of an answer type's fields are ours."""
    for place, question in enumerate(form.questions):
        for name, value in as_written(question).items():
            pointer = f"/questions/{place}/{name}"
            if name == "answer_type":
                parts = cast("Mapping[str, Json]", value)
                yield from _within(
                    f"{pointer}/options", [_option(option) for option in cast("Sequence[Json]", parts.get("options", ()))], hide
                )
                yield from _within(f"{pointer}/schema", parts.get("schema"), hide)
            elif name != "when":  # it repeats an id, and an answer that another question has
                yield from _within(pointer, cast("Json", value), hide)


def _option(option: Json) -> Json:
    """Return the texts of an option without the names of its fields."""
    return list(option.values()) if isinstance(option, Mapping) else option


def _within(pointer: str, value: Json, hide: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield the texts inside a value: numbers as they are written, names of members too."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            inside = pointer_to(pointer, hide(key))
            yield inside, key
            yield from _within(inside, item, hide)
    elif isinstance(value, list | tuple):
        for place, item in enumerate(cast("Sequence[Json]", value)):
            yield from _within(f"{pointer}/{place}", item, hide)
    elif value is not None and not isinstance(value, bool):
        yield pointer, str(value)


def checked(form: Form, limits: Limits) -> Form:
    """Return the form as its author would have to write it now; constructors check, but nothing checks what `replace` makes.

    Raises:
        QuestionError: Every rule that a question or the form breaks, with pointers such as `/questions/0/text`.
    """
    return Form.from_entries([_entry(question, limits) for question in form.questions], review=form.review, limit=limits.form)


def _entry(question: Question[Any], limits: Limits) -> FormPlace:
    try:
        return FormPlace.of(author(Question[Any], as_written(question), limits, question.returns))
    except QuestionError as error:
        id, when = cast("object", question.id), cast("object", question.when)  # noqa: A001  the wire's word
        return FormPlace(id if isinstance(id, str) else None, when if isinstance(when, When) else None, None, error.problems)


def as_written(question: Question[Any]) -> Mapping[str, object]:
    """Return a question's JSON as far as its fields have one."""
    return written({name: getattr(question, name) for name in question.__struct_fields__})


_LOG = logging.getLogger("midturn.tools")


class Executed(Struct, frozen=True):
    """What a tool ended in; `exception` is what it raised, where that was no `Rejected`; `source` is who asks what it returned."""

    outcome: Outcome
    exception: BaseException | None = None
    source: Source = USER


async def execute(tool: Tool, run: ToolRun) -> Executed:
    """Run a tool once. No secret that its call was given is in what comes out, and a question that comes out may be asked."""
    try:
        returned = _checked(run, await tool.execute(run))
        source = source_of(tool) if isinstance(returned, NeedsInput) else USER
    except DepsMissing:
        raise  # it is the program that is wrong: an approval of the call is not used up
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed(run, _stopped(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  a tool is foreign code: the model is told, and the turn goes on
        return failed(run, error)
    return Executed(deliverable(returned, run), source=source)


def may_be_asked(who: Source, asking: steps.FormWanted, limits: Limits, hide: Callable[[str], str]) -> steps.FormWanted:
    """Return what a running tool asks as it may be asked, in the tool's own name.

    Raises:
        QuestionError: It may not.
    """
    problem = None if asking.problem is None else hide(asking.problem)[: limits.question]
    if asking.human_only:  # another program's form
        limits = replace(limits, form=max(limits.form, FOREIGN_LIMITS.form), options=max(limits.options, FOREIGN_LIMITS.options))
    return steps.FormWanted(fit_to_be_asked(asking.form, limits, hide), who, asking.on_failure, asking.human_only, problem)


def _stopped(error: BaseException) -> Exception:
    """Return the failure of a tool that was not asked to stop, and did."""
    stopped = RuntimeError("it stopped without a result, because it cancelled itself")
    stopped.__cause__ = error
    return stopped


def failed(run: ToolRun, error: BaseException) -> Executed:
    """Report what a tool raised: to the model, to the log, and to the display."""
    outcome = failure(error, run.hide)
    if isinstance(error, Rejected | NotAnswered):
        return Executed(deliverable(outcome, run))
    name = run.call.name
    if failure(error, str) == outcome:
        _LOG.error("The tool %r failed: %s", name, outcome.message, exc_info=error)
        return Executed(deliverable(outcome, run), error)
    _LOG.error("The tool %r failed: %s\n%s", name, outcome.message, "\n".join(outcome.trace))  # the exception itself holds a secret
    return Executed(deliverable(outcome, run), MidturnError(outcome.message))


def _checked(run: ToolRun, outcome: object) -> Outcome:
    """Return what a tool ended in, as an outcome whatever it was."""
    name = run.call.name
    match outcome:
        case Success(content=str()) | ToolError(message=str()):
            return outcome
        case Success(content=given) | ToolError(message=given):
            kind = type(outcome).__name__
            return ToolError(f"{name} returned a `{kind}` of a `{type(given).__name__}`; what the model reads is text.")
        case NeedsInput(Form() as form):
            return _asked(run, form)
        case NeedsInput(asked):
            return ToolError(f"{name} returned `NeedsInput` with a `{type(asked).__name__}`; it takes a `Form`.")
        case _:
            kind = type(outcome).__name__
            return ToolError(f"{name} returned a `{kind}`; `execute` returns `Success`, `ToolError` or `NeedsInput`.")


def _asked(run: ToolRun, form: Form) -> Outcome:
    try:
        return NeedsInput(fit_to_be_asked(form, run.limits, run.hide))
    except QuestionError as error:
        return ToolError(f"{run.call.name} returned a question that cannot be asked:\n{error}")


Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class ToolRuns:
    """Runs tools, and reports what they ask and what they end in."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        surroundings: Surroundings,
        report: Callable[[steps.Happened], None],
        hear: Callable[[steps.ToolAwaits], steps.Given | None],
        calls: Mapping[str, CallRecord],
    ) -> None:
        """Run tools; `hear` takes what they ask, and returns what is answered at once; `calls` is what is on record, by event."""
        self._tools = tools
        self._calls = calls
        self._outer: dict[str, OuterCall] = {}
        self._surroundings = surroundings
        self._report = report
        self._hear = hear
        self._secrets = surroundings.secrets
        self._exceptions: dict[str, BaseException] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asks: dict[tuple[str, int], asyncio.Future[steps.Given]] = {}

    def start(self, effect: steps.RunTool, spawn: Spawn) -> None:
        """Run a tool with the answers so far."""
        self._tasks[effect.call.event] = spawn(self._run(effect))

    def answer(self, effect: steps.GiveAnswers) -> None:
        """Resolve one ask of a running tool, unless the tool gave it up meanwhile."""
        self._secrets.learn(effect.call, effect.answers)
        future = self._asks.pop((effect.call, effect.ask), None)
        if future and not future.done():
            future.set_result(effect.answers)

    def stop(self, call: str) -> None:
        """Cancel a running tool: its `finally` blocks run, its result is dropped."""
        task = self._tasks.pop(call, None)
        if task:
            task.cancel()

    def exception(self, call: str) -> BaseException | None:
        """Return what the tool of a call raised, if it did."""
        return self._exceptions.pop(call, None)

    async def _run(self, effect: steps.RunTool) -> None:
        call, answers = effect.call, effect.answers
        tool = self._tools[call.name]
        limits, hide = self._surroundings.limits, self._secrets.of(call.event)
        hide.learn(answers.values())
        numbers = itertools.count(1)
        who: Source | None = None
        is_over = False

        def ask(asking: steps.FormWanted) -> Awaitable[steps.Given]:
            """Ask what the tool may ask, in its own name."""
            nonlocal who
            if is_over:
                raise RuntimeError(f"This run of {call.name} is over: a task that it has left behind cannot ask any more.")
            who = who or source_of(tool)
            return self._ask(steps.ToolAwaits(call.event, next(numbers), may_be_asked(who, asking, limits, hide)), hide)

        run = replace(self._surroundings.of_run(call, answers, ask), queued=partial(self._queued, call.event), unanswered=effect.unanswered)
        outer = self._enter(call.event)
        try:
            executed = await execute(tool, run)
            if outer and not outer.is_over and not isinstance(executed.outcome, NeedsInput):
                await outer.leave(self._children(call.event), executed.exception)
        finally:
            is_over = True
            if outer:
                await outer.stop()
                if self._outer.get(call.event) is outer:
                    del self._outer[call.event]
            left = self._end_asks(call.event)
            if self._tasks.get(call.event) is asyncio.current_task():
                del self._tasks[call.event]
        match executed.outcome:
            case NeedsInput(form):
                for number in left:
                    self._report(steps.FormDropped(call.event, number))
                self._report(steps.ToolReturned(call.event, steps.FormWanted(form, executed.source)))
            case outcome:
                if executed.exception:
                    self._exceptions[call.event] = executed.exception
                self._report(steps.ToolDone(call.event, outcome))
        del executed  # what the tool raised holds this frame

    def _queued(self, call: str, ahead: Sequence[str]) -> None:
        self._report(steps.ToolQueued(call, tuple(ahead)))

    def _children(self, call: str) -> list[Child]:
        """Return the turns of other agents that are on record inside of a call."""
        record = self._calls.get(call)
        return [child.began for child in record.children.values()] if record else []

    def _enter(self, call: str) -> OuterCall | None:
        """Let agents that run inside this run of a tool find it."""
        if self._surroundings.nest is None:
            return None
        outer = OuterCall(self._surroundings.nest, self._surroundings.conversation, call, self._report)
        OUTER.set(outer)
        self._outer[call] = outer
        return outer

    def child(self, effect: steps.RunChild) -> None:
        """Let an agent inside a tool run the turn that it wants."""
        outer = self._outer.get(effect.child.call)
        if outer:
            outer.recorded(effect.number, effect.child)

    async def stop_children(self, ending: Ending) -> None:
        """Stop every turn inside of tools, and end it as the one around it ends."""
        for call, outer in list(self._outer.items()):
            self.stop(call)
            await outer.stop()
            await outer.nest.end(self._children(call), ending)

    def _end_asks(self, call: str) -> list[int]:
        """Cancel the tasks that the tool left behind, and that still wait for answers although the run is over. Return their asks."""
        left = [number for of_call, number in self._asks if of_call == call]
        for number in left:
            self._asks.pop((call, number)).cancel()
        return left

    async def _ask(self, asked: steps.ToolAwaits, secrets: CallSecrets) -> steps.Given:
        given = self._hear(asked)
        if given is not None:
            secrets.learn(given.values())
            return given
        self._asks[asked.call, asked.ask] = future = asyncio.get_running_loop().create_future()
        try:
            return await future
        except asyncio.CancelledError:
            if self._asks.pop((asked.call, asked.ask), None):
                self._report(steps.FormDropped(asked.call, asked.ask))
            raise
