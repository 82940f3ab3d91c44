"""What a tool asks, looked at before anybody hears of it: is it a sound form, and does it hold a secret of its call?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from midturn.core.form import Form
from midturn.core.form.problems import QuestionRead
from midturn.core.json_value import Json, pointer_to
from midturn.core.limits import Limits
from midturn.core.question import Question, When
from midturn.core.question.answer_type import BooleanType, SecretType, SelectType, TextType
from midturn.core.question.authoring import author, is_as_authored, written
from midturn.errors import Problem, QuestionError

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


def _entry(question: Question[Any], limits: Limits) -> QuestionRead:
    try:
        return QuestionRead.of(author(Question[Any], as_written(question), limits, question.returns))
    except QuestionError as error:
        id, when = cast("object", question.id), cast("object", question.when)  # noqa: A001  the wire's word
        return QuestionRead(id if isinstance(id, str) else None, when if isinstance(when, When) else None, None, error.problems)


def as_written(question: Question[Any]) -> Mapping[str, object]:
    """Return a question's JSON as far as its fields have one."""
    return written({name: getattr(question, name) for name in question.__struct_fields__})
