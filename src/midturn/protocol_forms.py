"""Convert forms of the Model Context Protocol and the Agent Client Protocol to midturn
questions, and back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.protocol_fields import (
    KINDS,
    NUMBER_BOUNDS,
    TEXT_BOUNDS,
    ElicitedField,
    clipped,
    field_of,
    json_field,
    own_words,
)
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SelectOption,
    SelectType,
)
from midturn.question.form import FOREIGN_LIMITS, Form
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, items, members
from midturn.question.question import Question
from midturn.question.text import QUESTION_ID, single_line

# Answers
# --------------------------------------------------------------------------------------------------


def checked_answers(
    questions: Sequence[Question[Any]],
    names: Mapping[str, str],
    received: Callable[[Question[Any], str], Json],
) -> dict[str, Json]:
    """Validate the answers that were received. Missing answers are not filled in.

    Args:
        questions: The questions that were asked.
        names: The property name of each question, by question ID.
        received: Returns the value that was received for a question under its property name.

    Raises:
        AnswerError: A required answer is missing, or an answer is invalid.
    """
    answers: dict[str, Json] = {}
    problems: list[Problem] = []
    for question in questions:
        name = names[question.id]
        try:
            answers[question.id] = cast("Json", question.check(received(question, name)))
        except AnswerError as error:
            problems += [
                Problem(f"/{name}{problem.pointer}", problem.message) for problem in error.problems
            ]
    if problems:
        raise AnswerError(problems)
    return answers


_ID = re.compile(QUESTION_ID)


class Elicited(Struct, frozen=True):
    """A form from another program, converted to a midturn form.

    `fields` are its properties in the order of the questions. `kind` is `fields`, `confirmation`
    for a form without properties, which becomes a yes/no question, or `json` for a form that is too
    large, which is answered with one JSON object.
    """

    form: Form
    fields: tuple[ElicitedField, ...]
    kind: Literal["fields", "confirmation", "json"] = "fields"

    def declines(self, answers: Mapping[str, Json]) -> bool:
        """Return whether the answers decline the form. A form without properties is a yes/no
        question, and the answer "no" declines the form.
        """
        return self.kind == "confirmation" and not all(answers.values())

    def content(self, answers: Mapping[str, Json]) -> dict[str, Json]:
        """Return the object to send to the other program, if its protocol allows only scalars and
        lists of strings. Skipped answers are omitted, or null if the property is required.
        """
        return self._object(answers, ElicitedField.sent)

    def values(self, answers: Mapping[str, Json]) -> dict[str, Json]:
        """Return the object to send to the other program, if its protocol allows all of JSON."""
        return self._object(answers, ElicitedField.value)

    def _object(
        self,
        answers: Mapping[str, Json],
        converted: Callable[[ElicitedField, Json], Json | UnsetType],
    ) -> dict[str, Json]:
        match self.kind:
            case "confirmation":
                return {}
            case "json":
                return dict(members(answers.get(self.fields[0].question.id)))
            case "fields":
                values = (
                    (field.name, converted(field, answers.get(field.question.id)))
                    for field in self.fields
                )
                return {name: value for name, value in values if not isinstance(value, UnsetType)}

    def answers(self, content: object) -> dict[str, Json]:
        """Validate and return the answers in an object from the other program's own dialog. Missing
        answers are not filled in.

        Raises:
            AnswerError: A required answer is missing, an answer is invalid, or there is no content.
        """
        given = members(content)
        by_id = {field.question.id: field for field in self.fields}
        names = {key: field.name for key, field in by_id.items()}
        return checked_answers(
            self.form.questions,
            names,
            lambda asked, name: by_id[asked.id].received(given.get(name)),
        )


_CONFIRMED: Final = "confirm"


def form_of(schema: object, message: str, *, has_own_dialog: bool = False) -> Elicited:
    """Convert a requested schema to a form with one question per property, and `message` above the
    first.

    The questions are only for people. A form without properties becomes a yes/no question. A form
    with more than 200 properties is answered with one JSON object.

    Args:
        schema: JSON Schema of an object, from the other program.
        message: The other program's message, shown above the form.
        has_own_dialog: Whether the other program asks the person itself if midturn does not. Forms
            that midturn cannot display are left to that program.

    Raises:
        QuestionError: midturn cannot show the form and leaves it to the other program.
    """
    properties = members(members(schema).get("properties"))
    if has_own_dialog and not properties:
        raise QuestionError([Problem("/properties", "the form has no properties.")])
    if not properties:
        return _confirmation(message)
    if len(properties) > FOREIGN_LIMITS.form:
        whole = json_field("answer", cast("Json", schema), message)
        return Elicited(Form((whole.question,)), (whole,), "json")
    needed = items(members(schema).get("required"))
    fields = tuple(
        field_of(
            key,
            name,
            members(properties[name]),
            members(schema),
            is_required=name in needed,
            above=message if number == 0 else "",
        )
        for number, (key, name) in enumerate(_ids(list(properties)).items())
    )
    without_control = next(
        (field.name for field in fields if has_own_dialog and field.is_json), None
    )
    if without_control is not None:
        raise QuestionError(
            [
                Problem(
                    f"/properties/{without_control}",
                    "midturn has no control for this kind of property.",
                )
            ]
        )
    form = Form(
        tuple(field.question for field in fields), review=len(fields) > 1, limit=FOREIGN_LIMITS.form
    )
    return Elicited(form, fields)


def _confirmation(message: str) -> Elicited:
    line = single_line(message.strip()) or "Do you agree?"
    is_whole = line == message.strip() and len(line) <= DEFAULT_LIMITS.question
    question = Question.boolean(
        _CONFIRMED,
        line if is_whole else "Do you agree?",
        context=None if is_whole else clipped(message),
        exclusive=True,
        persistence="none",
    )
    return Elicited(Form((question,)), (ElicitedField(_CONFIRMED, question),), "confirmation")


def _ids(names: Sequence[str]) -> dict[str, str]:
    """Return the property names by question ID. The ID is the property name, if the name is a
    valid ID.
    """
    own = {name for name in names if _ID.fullmatch(name)}
    free = (key for number in count(1) if (key := f"field_{number}") not in own)
    return {name if name in own else next(free): name for name in names}


# Forms sent to other programs: questions as a flat JSON Schema
# --------------------------------------------------------


def heading(questions: Sequence[Question[Any]]) -> str:
    """Return the message to show above a form of these questions."""
    first = questions[0]
    above = _above(first)
    if len(questions) > 1:
        return above or "Please answer these questions."
    return f"{above}\n\n{first.text}" if above else first.text


def _above(question: Question[Any]) -> str:
    """Return the context of a question with the previews of its options, since the other
    program's form cannot show previews.
    """
    kind = question.answer_type
    options = kind.options if isinstance(kind, SelectType | MultiSelectType) else ()
    previews = [
        f"{option.label}:\n{option.preview.rstrip()}" for option in options if option.preview
    ]
    if sum(map(len, previews)) > _MAX_PREVIEWS_LENGTH:
        previews = [_PREVIEWS_OMITTED]
    return "\n\n".join([*([question.context] if question.context else []), *previews])


_MAX_PREVIEWS_LENGTH: Final = 4_000
"""Maximum total length of the previews in another program's form, in characters."""
_PREVIEWS_OMITTED: Final = (
    "The previews of the options are too long to show here. To see them, use midturn's page or"
    " `midturn answer`."
)


class Outgoing(Struct, frozen=True):
    """Questions, converted to a form for another program. `names` maps question IDs to property
    names.

    A choice that accepts free text gets a second property for it, because the other program's form
    has no such control.
    """

    questions: Sequence[Question[Any]]
    names: Mapping[str, str]

    @classmethod
    def of(cls, questions: Sequence[Question[Any]], *, in_order: bool = False) -> Outgoing:
        """Create the form. Set `in_order` if the other program sorts properties by name."""
        return cls(
            questions,
            {
                asked.id: f"q{index:02}" if in_order else asked.id
                for index, asked in enumerate(questions)
            },
        )

    @property
    def schema(self) -> dict[str, Any]:
        """The flat JSON Schema of the form."""
        properties: dict[str, Json] = {}
        for question in self.questions:
            name = self.names[question.id]
            properties[name] = _property(question)
            if takes_own_words(question):
                properties[_free_text_name(name)] = {
                    "type": "string",
                    "title": "Or in your own words",
                }
        needed = [
            self.names[asked.id]
            for asked in self.questions
            if not asked.optional and not takes_own_words(asked)
        ]
        return {"type": "object", "properties": properties, "required": needed}

    def answers(self, content: object) -> dict[str, Json]:
        """Validate and return the answers in a received object. Missing answers are not filled in.

        Raises:
            AnswerError: A required answer is missing, or an answer is invalid.
        """
        given = members(content)
        return checked_answers(
            self.questions,
            self.names,
            lambda question, name: _received(
                question, given.get(name), given.get(_free_text_name(name))
            ),
        )


def takes_own_words(question: Question[Any]) -> bool:
    """Return whether a choice also accepts free text."""
    return (
        isinstance(question.answer_type, SelectType | MultiSelectType)
        and question.answer_type.allow_other
    )


def _free_text_name(name: str) -> str:
    return f"{name}_other"


def _received(question: Question[Any], value: Json, free_text: Json) -> Json:
    """Return a received value as an answer: the values of the selected options, or free text."""
    words = free_text.strip() if isinstance(free_text, str) and takes_own_words(question) else ""
    match question.answer_type:
        case SelectType(options=options):
            return {"other": words} if words else _value(options, value)
        case MultiSelectType(options=options):
            chosen = [_value(options, item) for item in items(value)]
            return (
                [*chosen, {"other": words}]
                if words
                else chosen
                if isinstance(value, list | tuple)
                else value
            )
        case _:
            return value


def _value(options: Sequence[SelectOption], received: Json) -> Json:
    return next((option.value for option in options if str(option.value) == received), received)


def _property(question: Question[Any]) -> JsonObject:
    described: dict[str, Json] = {"title": question.text}
    if above := _above(question):
        described["description"] = above
    if question.default is not UNSET:
        described["default"] = own_words(question.default)
    return {**_shape(question), **described}


def _shape(question: Question[Any]) -> dict[str, Json]:
    match question.answer_type:
        case BooleanType():
            return {"type": "boolean"}
        case SelectType(options=options):
            return {"type": "string", **_choices(options, "oneOf")}
        case MultiSelectType(options=options, min=least, max=most):
            option_schema = _choices(options, "anyOf")
            shape: dict[str, Json] = {
                "type": "array",
                "items": (
                    {"type": "string", **option_schema}
                    if "enum" in option_schema
                    else option_schema
                ),
            }
            bounds = {"minItems": least or None, "maxItems": most}
            return shape | {name: bound for name, bound in bounds.items() if bound is not None}
        case SchemaType(schema=schema) if schema.get("type") in KINDS:
            return {
                key: value
                for key, value in schema.items()
                if key in ("type", *TEXT_BOUNDS, *NUMBER_BOUNDS)
            }
        case _:  # free text, or JSON as text: it is validated when received
            return {"type": "string"}


def _choices(options: Sequence[SelectOption], titled: str) -> dict[str, Json]:
    """Return the options as an enum, or as a list with titles if an option has a description."""
    if any(option.description for option in options):
        return {titled: [_choice(option) for option in options]}
    return {"enum": [str(option.value) for option in options]}


def _choice(option: SelectOption) -> Json:
    value = str(option.value)
    return {
        "const": value,
        "title": f"{value}: {option.description}" if option.description else value,
    }


# URLs that a server asks the user to open
# --------------------------------------------------------------------------------------------------


_OPEN = "open_address"


def web_address_form(message: str, url: str) -> Form:
    """Ask whether to open a URL. The whole URL and its host are shown; nothing is fetched."""
    try:
        host = urlsplit(url).hostname or "(no host)"
    except ValueError:
        host = "(no host)"
    shown = f"Host: `{host}`" + _spelled(host)
    context = (
        f"{message}\n\n{shown}\n\nAddress: `{url}`\n\nOpen it yourself, in a browser, if you know"
        " the host. Nothing was fetched from it."
    )
    question = Question.boolean(
        _OPEN,
        "Do you want to open this address?",
        context=context,
        exclusive=True,
        persistence="none",
    )
    return Form((question,))


def opens(answers: Mapping[str, Json]) -> bool:
    """Return whether the answer is yes."""
    return answers.get(_OPEN) is True


def _spelled(host: str) -> str:
    """Return a note on an internationalized host name, which may look like another host name."""
    if host.isascii() and "xn--" not in host:
        return ""
    try:
        decoded = host.encode("ascii").decode("idna") if host.isascii() else host
        return f" (international letters: `{decoded}` is `{decoded.encode('idna').decode()}`)"
    except UnicodeError:
        return " (international letters)"
