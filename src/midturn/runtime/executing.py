"""One execution of a tool. Whatever the tool does, its outcome can be read, recorded and asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import MidturnError, NotAnswered, Problem, QuestionError
from midturn.ports import Tool, ToolRun
from midturn.question.answer_type import BooleanType, SecretType, SelectType, TextType, When
from midturn.question.authoring import author, is_as_authored, written
from midturn.question.form import Form, FormPlace
from midturn.question.question import Question
from midturn.record.events import USER, Source
from midturn.record.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.runtime.loop_thread import is_cancelled
from midturn.tools.returned import Rejected, deliverable, failure
from midturn.tools.source import source_of
from midturn.turn.inputs import FormWanted
from midturn.values.json_value import Json, pointer_to
from midturn.values.limits import Limits

# ----------------------------------------------------------------------------------------------------------------------
# Check of a tool's questions before anything else sees them: a sound form, without a secret of its call


_ESCAPED = 6  # bytes that one character may take in JSON
_VALUE = 100  # characters of an option besides its label and its description
_AROUND = 1_000  # bytes of a request besides what is asked
_ADVICE = "holds a secret that was given in this call, and a question is shown and recorded. Leave the secret out."


def fit_to_be_asked(form: Form, limits: Limits, hide: Callable[[str], str]) -> Form:
    """Return the form as it may be asked in a call; `hide` knows its secrets.

    Raises:
        QuestionError: It breaks rules, is too large, or repeats a secret of the call; the message names every place, and no secret.
    """
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
    most = sum(map(partial(_most, limits), form.questions))
    if 2 * most < limits.batch:
        return
    sizes = [len(msgspec.json.encode(question.to_json())) for question in form.questions]
    size = sum(sizes) + max(sizes) + _AROUND
    if size > limits.batch:
        room = f"{limits.batch:,} may be recorded at once (`limits.batch`)"
        raise QuestionError([Problem("", f"what is asked has {size:,} bytes as it is recorded; {room}. Ask less.")])


def _most(limits: Limits, question: Question[Any]) -> int:
    """Return a number of bytes that the JSON of a question surely does not have, without looking at each part."""
    match question.answer_type:
        case BooleanType() | TextType() | SecretType() if question.default is None or isinstance(question.default, bool):
            return (limits.question + limits.context) * _ESCAPED
        case SelectType(options=options) if question.default is None:
            return (limits.question + limits.context + len(options) * (2 * limits.question + _VALUE)) * _ESCAPED
        case _:
            return limits.batch


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
    if form.limit == limits.form and all(is_as_authored(question, limits) for question in form.questions):
        return form
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
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed(run, _stopped(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  a tool is foreign code: the model is told, and the turn goes on
        return failed(run, error)
    return Executed(deliverable(returned, run), source=source)


def may_be_asked(tool: Tool, asking: FormWanted, limits: Limits, hide: Callable[[str], str]) -> FormWanted:
    """Return what a running tool asks as it may be asked, in the name of that tool.

    Raises:
        QuestionError: It may not.
    """
    problem = None if asking.problem is None else hide(asking.problem)[: limits.question]
    return replace(asking, form=fit_to_be_asked(asking.form, limits, hide), source=source_of(tool), problem=problem)


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
