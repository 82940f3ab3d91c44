"""Checks the forms that tools ask. A form must be valid, small enough to record, and must not
contain a secret that was given in the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from midturn.errors import Problem, QuestionError
from midturn.events.types import Source
from midturn.question.answer_type import When
from midturn.question.authoring import as_authored, author, written
from midturn.question.form import FOREIGN_LIMITS, Form, FormPlace
from midturn.question.json_value import Json, Limits, pointer_to
from midturn.question.question import Question
from midturn.question.text import canonical_name, check_text
from midturn.tools.names import RESERVED_NAME
from midturn.turn.inputs import FormWanted

_MAX_AGENT_NAME: Final = 128
_REQUEST_OVERHEAD: Final = 1_000
"""Estimated size of a recorded request without its questions, in bytes."""
_ADVICE = (
    "holds a secret that was given in this call, and a question is shown and recorded. Leave the"
    " secret out."
)


def allowed_to_ask(
    who: Source, asking: FormWanted, limits: Limits, hide: Callable[[str], str]
) -> FormWanted:
    """Check a form that a coroutine of a tool asks, and return it with its source: the tool, or
    the agent on whose behalf the tool asks.

    Raises:
        QuestionError: The form may not be asked.
        ValueError: The name of the agent is not valid.
    """
    problem = None if asking.problem is None else hide(asking.problem)[: limits.question]
    if asking.human_only:  # the form comes from another program
        limits = replace(
            limits,
            form=max(limits.form, FOREIGN_LIMITS.form),
            options=max(limits.options, FOREIGN_LIMITS.options),
        )
    form = checked_form(asking.form, limits, hide)
    if asking.on_behalf_of is None:
        return FormWanted(form, who, asking.on_failure, asking.human_only, problem)
    source = _agent(asking.on_behalf_of, hide)
    return replace(asking, form=_never_remembered(form), source=source, problem=problem)


def _agent(name: str, hide: Callable[[str], str]) -> Source:
    """Return the source for questions that another agent asks.

    Raises:
        QuestionError: The name contains a secret of the call.
        ValueError: The name is not valid.
    """
    check_text("on_behalf_of", name)
    try:
        key = canonical_name(name)
    except ValueError:
        key = ""
    if key in ("", canonical_name(RESERVED_NAME)) or len(name) > _MAX_AGENT_NAME:
        raise ValueError(
            f"`on_behalf_of` must be the name of an agent: one line of 1 to {_MAX_AGENT_NAME}"
            f" characters, and not `{RESERVED_NAME}`. Got {hide(name)[:_MAX_AGENT_NAME]!r}."
        )
    if hide(name) != name:
        raise QuestionError([Problem("/source/name", f"it {_ADVICE}")])
    return Source("other", name)


def _never_remembered(form: Form) -> Form:
    """Return the form with `persistence="none"` for every question. Remembered answers are stored
    by tool and question id, so several agents that use the same ids would share answers.
    """
    questions = tuple(replace(question, persistence="none") for question in form.questions)
    return replace(form, questions=questions)


def checked_form(form: Form, limits: Limits, hide: Callable[[str], str]) -> Form:
    """Check that a form may be asked in a call, and return it. `hide` replaces the secrets of the
    call.

    Raises:
        QuestionError: The form breaks rules, is too large, or contains a secret of the call. The
            message names each place, but does not contain a secret.
    """
    most = as_authored(form.questions, limits) if form.limit == limits.form else None
    if most is not None and 2 * most < limits.batch:  # the constructors already checked the form
        checked = form
    else:
        try:
            checked = _authored_again(form, limits)
            _check_size(checked, limits)
        except QuestionError as error:  # the error message may quote a secret
            hidden = [
                Problem(hide(problem.pointer), hide(problem.message)) for problem in error.problems
            ]
            raise QuestionError(hidden) from None
    if not bool(hide):  # the call has no secrets
        return checked
    leaks = [
        Problem(pointer, f"it {_ADVICE}")
        for pointer, text in _texts(checked, hide)
        if hide(text) != text
    ]
    if leaks:
        raise QuestionError(leaks)
    return checked


def _check_size(form: Form, limits: Limits) -> None:
    """Check that the form is small enough to record.

    The first request of a form contains the whole form, and repeats the first question.
    """
    sizes = [len(msgspec.json.encode(question.to_json())) for question in form.questions]
    size = sum(sizes) + max(sizes) + _REQUEST_OVERHEAD
    if size > limits.batch:
        room = f"{limits.batch:,} may be recorded at once (`limits.batch`)"
        raise QuestionError(
            [Problem("", f"the recorded questions have {size:,} bytes; {room}. Ask less.")]
        )


def _texts(form: Form, hide: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield every string in a form with its JSON Pointer.

    `type` and the other field names of an answer type are skipped.
    """
    for place, question in enumerate(form.questions):
        for name, value in _as_written(question).items():
            pointer = f"/questions/{place}/{name}"
            if name == "answer_type":
                parts = cast("Mapping[str, Json]", value)
                options = [
                    _option(option) for option in cast("Sequence[Json]", parts.get("options", ()))
                ]
                yield from _within(f"{pointer}/options", options, hide)
                yield from _within(f"{pointer}/schema", parts.get("schema"), hide)
            elif name != "when":  # `when` only repeats another question's id and answer
                yield from _within(pointer, cast("Json", value), hide)


def _option(option: Json) -> Json:
    """Return the texts of an option without its field names."""
    return list(option.values()) if isinstance(option, Mapping) else option


def _within(pointer: str, value: Json, hide: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield the strings, numbers and keys in a value, as text."""
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


def _authored_again(form: Form, limits: Limits) -> Form:
    """Build the form again with the constructors, because `replace` does not check a form.

    Raises:
        QuestionError: A question or the form breaks rules. Pointers have the form
            `/questions/0/text`.
    """
    return Form.from_entries(
        [_entry(question, limits) for question in form.questions],
        review=form.review,
        limit=limits.form,
    )


def _entry(question: Question[Any], limits: Limits) -> FormPlace:
    try:
        return FormPlace.of(author(Question[Any], _as_written(question), limits, question.returns))
    except QuestionError as error:
        id, when = cast("object", question.id), cast("object", question.when)  # noqa: A001  the wire's word
        return FormPlace(
            id if isinstance(id, str) else None,
            when if isinstance(when, When) else None,
            None,
            error.problems,
        )


def _as_written(question: Question[Any]) -> Mapping[str, object]:
    """Return the fields of a question that have a JSON form."""
    return written({name: getattr(question, name) for name in question.__struct_fields__})
