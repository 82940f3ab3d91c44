"""Form controls: convert a question to a control, and submitted fields to an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NoReturn, TypeAlias, assert_never

from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, Problem
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectOption,
    SelectType,
    TextType,
)
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject, SecretValue, is_number, members
from midturn.question.question import Question
from midturn.question.reply import Scope
from midturn.terminal.prompts.answer_text import options_of, skeleton, wants_number, written_out
from midturn.terminal.prompts.keys import other_text, position, pretty, scalar_text
from midturn.web.body import Fields
from midturn.web.hints import number_hints, sentence, text_hints
from midturn.web.schema_fields import SchemaField, fields_of

ControlKind: TypeAlias = Literal[
    "boolean", "one", "several", "text", "secret", "number", "json", "fields"
]
SEARCHED_FROM = 12  # a control with at least this number of options has a search field
OTHER = "other"


class ControlOption(Struct, frozen=True):
    """One option. `place` is its index among the options, which is also its value in the form."""

    place: int
    label: str
    description: str
    chosen: bool
    preview: str = ""


class Control(Struct, frozen=True, kw_only=True):
    """The control for a question.

    Args:
        text: Content of the field.
        limits: HTML attributes of the field.
        hint: Description of a valid answer.
        is_empty_meant: Whether empty text was submitted before. If it is submitted again, it is
            accepted.
        form: Fields for an answer with a JSON Schema, if the schema can be shown as a form.
        has_form: Whether an answer that is edited as JSON can also be edited as a form.
    """

    kind: ControlKind
    choices: tuple[ControlOption, ...] = ()
    allow_other: bool = False
    other: str | None = None
    text: str = ""
    placeholder: str = ""
    default: bool | None = None
    limits: Mapping[str, str] = {}
    hint: str = ""
    is_empty_meant: bool = False
    form: SchemaField | None = None
    has_form: bool = False

    @property
    def is_searched(self) -> bool:
        """Whether there are so many options that the control has a search field."""
        return len(self.choices) >= SEARCHED_FROM


def control_of(
    question: Question[Any], start: Json | UnsetType, typed: Fields | None = None
) -> Control:
    """Return the control for a question, filled with `start` or with the rejected input."""
    return _drawn(question, start, typed) or _plain(question, start, typed)


def _plain(question: Question[Any], start: Json | UnsetType, typed: Fields | None) -> Control:
    match native(question):
        case BooleanType():
            return Control(kind="boolean", default=start if isinstance(start, bool) else None)
        case SelectType(options=options, allow_other=allow_other):
            return Control(kind="one", **_choices(options, start, typed, allow_other=allow_other))
        case MultiSelectType(options=options, allow_other=allow_other) as several:
            hint = _how_many(several, len(options) + allow_other)
            return Control(
                kind="several",
                hint=hint,
                **_choices(options, start, typed, allow_other=allow_other),
            )
        case TextType():
            return _text(question, start, typed)
        case SecretType():
            return Control(kind="secret")
        case SchemaType(schema):
            return _of_schema(schema, start, typed)
        case _ as other:
            assert_never(other)


def _drawn(
    question: Question[Any], start: Json | UnsetType, typed: Fields | None
) -> Control | None:
    """Return the form for an answer with a JSON Schema, or a JSON field if the person switched to
    JSON.

    Return None if the schema has another kind of control.
    """
    kind = question.answer_type
    if not isinstance(kind, SchemaType):
        return None
    if typed is not None and (typed.one("as") == "json" or "answer" in typed):
        return _back_to_form(kind.schema, typed)
    form = fields_of(kind.schema, start, typed)
    if form is not None and typed is not None and typed.one("act") == "as json":
        given = as_far_as_typed(form)
        return _of_schema(kind.schema, given or UNSET, None)
    return None if form is None else Control(kind="fields", form=form)


def _back_to_form(schema: JsonObject, typed: Fields) -> Control | None:
    """Return the form with the content of the JSON field.

    Return None if the form was not requested or the JSON is invalid.
    """
    if typed.one("act") != "as fields" or fields_of(schema, UNSET) is None:
        return None
    with suppress(NotJson):
        form = fields_of(schema, read_json(typed.text("answer").strip() or "null"))
        return None if form is None else Control(kind="fields", form=form)
    return None


def native(
    question: Question[Any],
) -> BooleanType | SelectType | MultiSelectType | TextType | SecretType | SchemaType:
    """Return the answer type that determines the control. It differs from the question's type if
    the question has a schema for a boolean, a few values or a string: the control is then the
    simpler one for that type.
    """
    kind = question.answer_type
    if not isinstance(kind, SchemaType):
        return kind
    schema = written_out(kind.schema)
    if options := options_of(schema):
        return SelectType(options)
    match schema.get("type") if "enum" not in schema else None:
        case "boolean":
            return BooleanType()
        case "string":
            return TextType()
        case _:
            return SchemaType(schema)


def _choices(
    options: tuple[SelectOption, ...],
    start: Json | UnsetType,
    typed: Fields | None,
    *,
    allow_other: bool,
) -> dict[str, Any]:
    marked = _marked(options, start) if typed is None else set(typed.all("answer"))
    other = _other(start) if typed is None else typed.text(OTHER) if OTHER in marked else None
    choices = tuple(
        ControlOption(
            place,
            scalar_text(option.value),
            option.description or "",
            str(place) in marked,
            option.preview or "",
        )
        for place, option in enumerate(options)
    )
    return {"choices": choices, "allow_other": allow_other, "other": other}


def _marked(options: tuple[SelectOption, ...], start: Json | UnsetType) -> set[str]:
    places = (position(options, value) for value in _values(start))
    return {str(place) for place in places if place is not None}


def _other(start: Json | UnsetType) -> str | None:
    return next((text for value in _values(start) if (text := other_text(value)) is not None), None)


def _values(start: Json | UnsetType) -> Sequence[Json]:
    if start is UNSET or start is None:
        return ()
    return start if isinstance(start, list | tuple) else (start,)


def _how_many(kind: MultiSelectType, every: int) -> str:
    most = every if kind.max is None else kind.max
    if kind.min == most:
        return f"Select {most}."
    if kind.min and most < every:
        return f"Select {kind.min} to {most}."
    if kind.min:
        return f"Select at least {kind.min}."
    return f"Select up to {most}." if most < every else "Select any number, or none."


def _text(question: Question[Any], start: Json | UnsetType, typed: Fields | None) -> Control:
    text = (start if isinstance(start, str) else "") if typed is None else typed.text("answer")
    schema: JsonObject = (
        question.answer_type.schema if isinstance(question.answer_type, SchemaType) else {}
    )
    bounds = {"minlength": schema.get("minLength"), "maxlength": schema.get("maxLength")}
    return Control(
        kind="text",
        text=text,
        limits={name: str(bound) for name, bound in bounds.items() if bound is not None},
        hint=sentence(text_hints(schema)),
        is_empty_meant=typed is not None and not text,
    )


def _of_schema(schema: JsonObject, start: Json | UnsetType, typed: Fields | None) -> Control:
    kept = None if typed is None else typed.text("answer")
    if wants_number(schema):
        text = ("" if start is UNSET else scalar_text(start)) if kept is None else kept
        return Control(kind="number", text=text, hint=sentence(number_hints(schema)))
    text = ("" if start is UNSET else pretty(start)) if kept is None else kept
    has_form = fields_of(schema, UNSET) is not None
    return Control(
        kind="json",
        text=text,
        placeholder=pretty(skeleton(schema)),
        hint=_described(schema),
        has_form=has_form,
    )


def _described(schema: JsonObject) -> str:
    said = schema.get("description")
    return said if isinstance(said, str) else ""


# --------------------------------------------------------------------------------------------------
# From submitted fields to the answer


def sent_answer(question: Question[Any], sent: Fields) -> Json:
    """Return the submitted answer. A secret is the string that was typed.

    Raises:
        AnswerError: The fields are not an answer. The message can be shown to the person.
    """
    if sent.one("act") == "skip" and question.optional:
        return None
    kind = question.answer_type
    form = (
        fields_of(kind.schema, UNSET, sent)
        if isinstance(kind, SchemaType) and sent.one("as") == "fields"
        else None
    )
    return _plain_answer(question, sent) if form is None else typed_value(form)


def _plain_answer(question: Question[Any], sent: Fields) -> Json:
    match native(question):
        case BooleanType():
            return _yes_or_no(sent)
        case SelectType(options=options):
            return _chosen(options, sent)
        case MultiSelectType(options=options):
            return _all_chosen(options, sent)
        case TextType() | SecretType():
            return _typed_text(sent, question)
        case SchemaType(schema):
            return _typed_json(schema, sent)
        case _ as other:
            assert_never(other)


def _yes_or_no(sent: Fields) -> bool:
    match sent.one("answer"):
        case "yes":
            return True
        case "no":
            return False
        case _:
            return _refuse("Select yes or no.")


def _chosen(options: tuple[SelectOption, ...], sent: Fields) -> Json:
    place = sent.one("answer")
    if place is None:
        _refuse("Select one of the options.")
    return _option(options, place, sent)


def _all_chosen(options: tuple[SelectOption, ...], sent: Fields) -> Json:
    return [_option(options, place, sent) for place in sent.all("answer")]


def _option(options: tuple[SelectOption, ...], place: str, sent: Fields) -> Json:
    if place == OTHER:
        words = sent.text(OTHER).strip()
        return (
            {"other": words}
            if words
            else _refuse("Enter your own answer in the field, or select another option.")
        )
    if (
        place.isascii()
        and place.isdecimal()
        and len(place) <= len(str(len(options)))
        and int(place) < len(options)
    ):
        return options[int(place)].value
    return _refuse("Select one of the options on this page.")


def _typed_text(sent: Fields, question: Question[Any]) -> str:
    text = sent.text("answer")
    if not text and sent.one("empty") != "meant":
        again = (
            "Select Skip to leave it empty."
            if question.optional
            else "Send it again to submit an empty answer."
        )
        _refuse(f"The field is empty. {again}")
    return text


def _typed_json(schema: JsonObject, sent: Fields) -> Json:
    text = sent.text("answer").strip()
    if not text:
        _refuse("Enter a number." if wants_number(schema) else "Enter JSON.")
    try:
        return read_json(text)
    except NotJson as error:
        if wants_number(schema):
            _refuse("This is not a number.")
        _refuse(f"This is not valid JSON: {error}.")


def _refuse(message: str) -> NoReturn:
    raise AnswerError([Problem("", message)])


# --------------------------------------------------------------------------------------------------
# Content of the page of an open question: a question, the review of a form, or a decision


class FormPage(Struct, frozen=True, kw_only=True):
    """A question on its page.

    Args:
        covers: Description of the calls or questions for which the answer can be remembered. Empty
            if it cannot be remembered.
        holds_on: Whether the answer can be remembered for the whole conversation.
        carried: Encoded state of the form that contains the question.
        is_draft: Whether that state was restored from an earlier visit.
        secret_elsewhere: Why a secret is not accepted on this page. Empty if it is accepted.
    """

    asked: Question[Any]
    control: Control
    index: int = 1
    total: int = 1
    can_go_back: bool = False
    covers: str = ""
    holds_on: bool = False
    carried: str = ""
    is_draft: bool = False
    secret_elsewhere: str = ""


class ReviewPage(Struct, frozen=True):
    """The review of a form: all answers before they are submitted."""

    answers: list[tuple[Question[Any], Json | SecretValue]]
    carried: str
    is_draft: bool = False


class ScopeChoice(Struct, frozen=True):
    """A scope of a permission, with a description of the scope."""

    scope: Scope
    where: str


class DecisionPage(Struct, frozen=True, kw_only=True):
    """A call, result or form that has to be approved.

    Args:
        scopes: Scopes that the permission for a call can have.
        allows: Description of the calls that the permission would allow.
        beyond: Example of a call that the permission would not allow.
        editable: The editable text.
        about: Digest of the call, result or form.
    """

    kind: str
    arguments: Json = None
    content: str = ""
    is_error: bool = False
    answers: Sequence[tuple[Question[Any], Json | SecretValue]] = ()
    covers: str = ""
    always: Sequence[str] = ()
    scopes: Sequence[ScopeChoice] = ()
    allows: str = ""
    beyond: str = ""
    pictures: Sequence[str] = ()
    editable: str | None = None
    about: str = ""


ShownPage: TypeAlias = FormPage | ReviewPage | DecisionPage


class PageAgain(Exception):  # noqa: N818  named for what the page does next
    """The submitted fields were rejected. `shown` is the page to show again, and `problems` are the
    reasons.
    """

    def __init__(self, shown: ShownPage, problems: tuple[Problem, ...]) -> None:
        self.shown = shown
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


# --------------------------------------------------------------------------------------------------
# Conversion of a submitted schema form to the answer


def typed_value(field: SchemaField) -> Json:
    """Return the answer that was entered in a form.

    Raises:
        AnswerError: A field is missing or invalid. Each problem has the JSON Pointer of its field.
    """
    problems: list[Problem] = []
    value = _value(field, problems)
    if problems:
        raise AnswerError(problems)
    return None if value is UNSET else value


def as_far_as_typed(field: SchemaField) -> Json:
    """Return the content of a form, without missing and invalid fields."""
    value = _value(field, [])
    return None if value is UNSET else value


def _value(field: SchemaField, problems: list[Problem]) -> Json | UnsetType:  # noqa: PLR0911  one return per kind
    match field.kind:
        case "group" | "list" | "several" if field.given is False:
            return None if field.is_required else UNSET
        case "group":
            named = ((_key(part), _value(part, problems)) for part in field.parts)
            return {key: value for key, value in named if value is not UNSET}
        case "list":
            return [value for part in field.parts if (value := _value(part, problems)) is not UNSET]
        case "several":
            options = options_of(members(field.schema["items"]))
            return [options[int(choice.value)].value for choice in field.choices if choice.chosen]
        case "const":
            return field.value
        case "switch":
            return field.text == "yes"
        case "choice":
            return _picked(field, problems)
        case _:
            return _written(field, problems)


def _key(field: SchemaField) -> str:
    return field.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _missing(field: SchemaField, problems: list[Problem], words: str) -> Json | UnsetType:
    if field.is_required and field.is_nullable:
        return None
    if field.is_required:
        problems.append(Problem(field.pointer, words))
    return UNSET


def _picked(field: SchemaField, problems: list[Problem]) -> Json | UnsetType:
    chosen = next((choice.value for choice in field.choices if choice.chosen and choice.value), "")
    if not chosen:
        return _missing(field, problems, "Select one.")
    return (
        options_of(field.schema)[int(chosen)].value if "enum" in field.schema else chosen == "yes"
    )


def _written(field: SchemaField, problems: list[Problem]) -> Json | UnsetType:
    held = field.text if field.kind in ("line", "text") else field.text.strip()
    if not held:
        return _missing(field, problems, "Fill this in.")
    match field.kind:
        case "number":
            value = _read(held)
            if not is_number(value):
                problems.append(Problem(field.pointer, "This is not a number."))
            return value
        case "json":
            value = _read(held)
            if value is UNSET:
                problems.append(Problem(field.pointer, "This is not valid JSON."))
            return value
        case "moment" if field.zone is not None:
            seconds = held if held.count(":") > 1 else f"{held}:00"
            return f"{seconds}{field.zone.strip()}"
        case _:
            return held


def _read(held: str) -> Json | UnsetType:
    try:
        return read_json(held)
    except NotJson:
        return UNSET
