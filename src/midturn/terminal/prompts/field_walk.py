"""Asks a question with a flat object schema field by field, followed by a review of all fields.

The walk does not use a terminal: the caller displays `prompt` and passes the reply to `take`. The
question is answered only after the review.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from midturn.errors import AnswerError
from midturn.events.prompt import FormSubject, Prompt
from midturn.question.answer_type import (
    AnswerType,
    BooleanType,
    MultiSelectType,
    SchemaType,
    SelectType,
    TextType,
)
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, is_number
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply, Submitted, WentBack
from midturn.question.text import single_line
from midturn.terminal.prompts.answer_text import problem_text
from midturn.terminal.prompts.keys import AsJson, BackTo, ObjectField, initial
from midturn.terminal.prompts.schema_controls import FlatField, flat_fields

_REVIEW = "Send these answers?"
_BETWEEN = " · "
_TEXT_RULES = frozenset({"minLength", "maxLength", "pattern", "format"})


def field_walk(prompt: Prompt) -> FieldWalk | None:
    """Return the walk through the fields of a prompt, or None if the question is not asked field by
    field.
    """
    kind = prompt.question.answer_type
    if prompt.kind != "tool" or not isinstance(kind, SchemaType):
        return None
    fields = flat_fields(kind.schema, initial(prompt))
    return FieldWalk(prompt, fields) if fields else None


class FieldWalk:
    """A walk through the fields of a question: the answers so far, and the current field."""

    def __init__(self, prompt: Prompt, fields: Sequence[FlatField]) -> None:
        self._asked = prompt
        self._order = [field.name for field in fields]
        self._constants = {
            field.name: field.schema["const"] for field in fields if field.control == "const"
        }
        self._fields = [field for field in fields if field.control != "const"]
        self._questions = [
            _question(prompt, field, place) for place, field in enumerate(self._fields, 1)
        ]
        self._answers: dict[str, Json] = {}
        self._at = 0
        self._is_json = False
        self._unsubmitted: Json = None
        """Input that was typed into a field but not submitted when the person switched to JSON."""
        self._error: str | None = None

    @property
    def prompt(self) -> Prompt:
        """The prompt to display now: a field, the review, or all fields as JSON."""
        if self._is_json:
            return self._as_json()
        return self._review() if self._at == len(self._fields) else self._field()

    def take(self, reply: Reply) -> Reply | None:  # noqa: PLR0911  one for each kind of reply
        """Process a reply.

        Return the reply to the whole question, or None if another prompt follows.
        """
        match reply:
            case AsJson(begun=begun):
                self._is_json, self._unsubmitted = True, begun
                return None
            case BackTo(index=index):
                self._at, self._unsubmitted = index - 1, None
                return None
            case WentBack() if self._is_json:
                self._is_json, self._error = False, None
                return None
            case WentBack() if self._at > 0:
                self._at, self._unsubmitted = self._at - 1, None
                return None
            case Answered(value=value) if not self._is_json:
                self._answers[self._questions[self._at].id] = value  # type: ignore[assignment]  # no field is a secret
                self._at, self._unsubmitted = self._at + 1, None
                return self._finished() if len(self._fields) == 1 else None
            case Submitted():
                return self._finished()
            case _:
                return reply

    def _finished(self) -> Reply | None:
        """Return the answer.

        If the whole object is invalid, return None. The object is then asked for as JSON, with the
        errors.
        """
        value = self._value()
        try:
            self._asked.question.check(value)
        except AnswerError as error:
            self._is_json, self._error = True, "\n".join(map(problem_text, error.problems))
            return None
        return Answered(value)

    def _value(self) -> dict[str, Json]:
        """Return the object so far.

        A skipped field is omitted, or null if the field is required.
        """
        answered = {
            field.name: self._answers[key.id]
            for field, key in self._pairs()
            if key.id in self._answers
        }
        skipped = {
            field.name
            for field, _ in self._pairs()
            if answered.get(field.name) is None and not field.is_required
        }
        held = {
            **self._constants,
            **{name: value for name, value in answered.items() if name not in skipped},
        }
        return {name: held[name] for name in self._order if name in held}

    def _pairs(self) -> list[tuple[FlatField, Question[Any]]]:
        return list(zip(self._fields, self._questions, strict=True))

    def _field(self) -> Prompt:
        question = self._questions[self._at]
        is_first = self._at == 0
        context = [
            self._asked.question.context or "" if is_first else "",
            self._fields[self._at].hint,
        ]
        shown = "\n\n".join(part for part in context if part)
        is_alone = (
            self._asked.total == 1
        )  # a question that is part of a form keeps its position in the form
        return replace(
            _object_field(self._asked),
            question=replace(question, context=shown or None),
            prefill=self._prefill(),
            can_go_back=not is_first or self._asked.can_go_back,
            verdict=self._asked.verdict if is_first else None,
            error=self._asked.error if is_first and not self._answers else None,
            index=self._at + 1 if is_alone else self._asked.index,
            total=len(self._fields) if is_alone else self._asked.total,
        )

    def _prefill(self) -> Json | UnsetType:
        """Return the initial value of the current field: unsubmitted input if it is valid for the
        field, or else the last answer.
        """
        question, begun = self._questions[self._at], self._unsubmitted_value()
        is_kept = begun is not None and (
            not isinstance(begun, str) or self._fields[self._at].control == "string"
        )
        return begun if is_kept else self._answers.get(question.id, UNSET)

    def _unsubmitted_value(self) -> Json:
        """Return the unsubmitted input as a value. Text in a number field that is not a number is
        kept as text.
        """
        begun = self._unsubmitted
        if (
            not isinstance(begun, str)
            or self._at == len(self._fields)
            or self._fields[self._at].control != "number"
        ):
            return begun
        try:
            value = read_json(begun.strip())
        except NotJson:
            return begun
        return value if is_number(value) else begun

    def _review(self) -> Prompt:
        question: Question[Any] = Question.unchecked(
            id="__review__", text=_REVIEW, answer_type=BooleanType()
        )
        return replace(
            _object_field(self._asked),
            kind="review",
            question=question,
            subject=FormSubject(self._questions, dict(self._answers)),
            prefill=UNSET,
            can_go_back=True,
            verdict=None,
            error=None,
        )

    def _as_json(self) -> Prompt:
        start: Json | UnsetType = self._value() if self._answers else initial(self._asked)
        if (begun := self._unsubmitted_value()) is not None:
            held = {
                **(start if isinstance(start, Mapping) else self._constants),
                self._fields[self._at].name: begun,
            }
            start = {
                name: held[name] for name in dict.fromkeys((*self._order, *held)) if name in held
            }
        return replace(
            self._asked, prefill=start, can_go_back=True, error=self._error or self._asked.error
        )


def _object_field(prompt: Prompt) -> ObjectField:
    terms: dict[str, Any] = {**asdict(prompt), "may_remember": False}
    return ObjectField(**terms)


def _question(prompt: Prompt, field: FlatField, place: int) -> Question[Any]:
    """Return the question for one field."""
    question: Question[Any] = Question.unchecked(
        id=f"field_{place}",
        text=f"{prompt.question.text}{_BETWEEN}{single_line(field.label) or place}",
        answer_type=_answer_type(field),
        default=field.start,
        optional=field.is_nullable or not field.is_required,
        exclusive=prompt.question.exclusive,
        persistence="none",
    )
    return question


def _answer_type(field: FlatField) -> AnswerType:
    match field.control:
        case "boolean":
            return BooleanType()
        case "choice":
            return SelectType(field.options)
        case "array":
            return _several(field)
        case "string" if not set(field.schema) & _TEXT_RULES:
            return TextType()
        case _:
            kinds = {"string": "string", "number": "number"}
            kind = "integer" if field.schema.get("type") == "integer" else kinds[field.control]
            return SchemaType({**field.schema, "type": kind})


def _several(field: FlatField) -> MultiSelectType:
    least, most = (field.schema.get(key) for key in ("minItems", "maxItems"))
    lowest = least if isinstance(least, int) and least <= len(field.options) else 0
    return MultiSelectType(
        field.options, lowest, most if isinstance(most, int) and most >= max(1, lowest) else None
    )
