"""Forms of the Model Context Protocol and the Agent Client Protocol: read as our questions, and written from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.protocol_fields import KINDS, NUMBER_BOUNDS, TEXT_BOUNDS, ElicitedField, clipped, field_of, json_field, own_words
from midturn.question.answer_type import BooleanType, MultiSelectType, SchemaType, SelectOption, SelectType
from midturn.question.form import FOREIGN_LIMITS, Form
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, items, members
from midturn.question.question import Question
from midturn.question.text import QUESTION_ID, single_line

# Shared by both directions: a flat JSON Schema ------------------------------------------------------------------------


def checked_answers(
    questions: Sequence[Question[Any]], names: Mapping[str, str], received: Callable[[Question[Any], str], Json]
) -> dict[str, Json]:
    """Return the answers that came back, checked; nothing is filled in.

    Args:
        questions: What was asked.
        names: The property that each question is about, by its id.
        received: Returns what came back for a question under the name of its property.

    Raises:
        AnswerError: Something required is not there, or does not fit.
    """
    answers: dict[str, Json] = {}
    problems: list[Problem] = []
    for question in questions:
        name = names[question.id]
        try:
            answers[question.id] = cast("Json", question.check(received(question, name)))
        except AnswerError as error:
            problems += [Problem(f"/{name}{problem.pointer}", problem.message) for problem in error.problems]
    if problems:
        raise AnswerError(problems)
    return answers


_ID = re.compile(QUESTION_ID)


class Elicited(Struct, frozen=True):
    """A form of another program as a form of ours.

    `fields` are its properties, in the order of the questions. `kind` is `fields`; `confirmation` for a form without properties, which is a
    yes/no question; or `json` for a form that is too large to be shown, which is answered with one JSON object.
    """

    form: Form
    fields: tuple[ElicitedField, ...]
    kind: Literal["fields", "confirmation", "json"] = "fields"

    def declines(self, answers: Mapping[str, Json]) -> bool:
        """Return whether the answers decline the form: a no to a form without properties."""
        return self.kind == "confirmation" and not all(answers.values())

    def content(self, answers: Mapping[str, Json]) -> dict[str, Json]:
        """Return the object that the other program asked for. Skipped answers are left out, or null if the property is required."""
        match self.kind:
            case "confirmation":
                return {}
            case "json":
                return dict(members(answers.get(self.fields[0].question.id)))
            case "fields":
                values = ((field.name, field.sent(answers.get(field.question.id))) for field in self.fields)
                return {name: value for name, value in values if not isinstance(value, UnsetType)}

    def answers(self, content: object) -> dict[str, Json]:
        """Return the answers of a content that came from another program's form, checked; nothing is filled in.

        Raises:
            AnswerError: It is not an answer: something required is not there, or does not fit; or nothing is there at all.
        """
        given = members(content)
        by_id = {field.question.id: field for field in self.fields}
        names = {key: field.name for key, field in by_id.items()}
        return checked_answers(self.form.questions, names, lambda asked, name: by_id[asked.id].received(given.get(name)))


_CONFIRMED: Final = "confirm"


def form_of(schema: object, message: str, *, has_own_dialog: bool = False) -> Elicited:
    """Read a requested schema as a form: one question for each property, `message` above the first.

    What a program asks in this way, it asks a person. A form without properties is a yes/no question. A form with more than 200 properties
    is answered with one JSON object.

    Args:
        schema: The JSON Schema of an object, as the other program sent it.
        message: What the other program says above the form.
        has_own_dialog: The other program asks the person itself if we do not. A form that has no control here is left to it.

    Raises:
        QuestionError: The form is left to the other program.
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
        field_of(key, name, members(properties[name]), members(schema), is_required=name in needed, above=message if number == 0 else "")
        for number, (key, name) in enumerate(_ids(list(properties)).items())
    )
    without_control = next((field.name for field in fields if has_own_dialog and field.is_json), None)
    if without_control is not None:
        raise QuestionError([Problem(f"/properties/{without_control}", "there is no control for such a property.")])
    form = Form(tuple(field.question for field in fields), review=len(fields) > 1, limit=FOREIGN_LIMITS.form)
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
    """Return the name of each property by the id of its question: the name itself, if it can be an id."""
    own = {name for name in names if _ID.fullmatch(name)}
    free = (key for number in count(1) if (key := f"field_{number}") not in own)
    return {name if name in own else next(free): name for name in names}


# Outgoing forms: our questions as a flat JSON Schema ------------------------------------------------------------------


def heading(questions: Sequence[Question[Any]]) -> str:
    """Return what stands above a form of these questions."""
    first = questions[0]
    above = _above(first)
    if len(questions) > 1:
        return above or "Please answer these questions."
    return f"{above}\n\n{first.text}" if above else first.text


def _above(question: Question[Any]) -> str:
    """Return the context of a question and the previews of its options, which a form over there has no place for."""
    kind = question.answer_type
    options = kind.options if isinstance(kind, SelectType | MultiSelectType) else ()
    previews = [f"{option.label}:\n{option.preview.rstrip()}" for option in options if option.preview]
    if sum(map(len, previews)) > _PREVIEWS:
        previews = [_PREVIEWS_ELSEWHERE]
    return "\n\n".join([*([question.context] if question.context else []), *previews])


_PREVIEWS: Final = 4_000
"""Maximum number of characters of all previews that are shown in a form of another program."""
_PREVIEWS_ELSEWHERE: Final = "The options have previews, which do not fit here: midturn's page and `midturn answer` show them."


class Outgoing(Struct, frozen=True):
    """Our questions as another program's form: `names` are its properties, by the ids of the questions.

    Where own words will do as well, a property of its own takes them, for a form over there has no such choice.
    """

    questions: Sequence[Question[Any]]
    names: Mapping[str, str]

    @classmethod
    def of(cls, questions: Sequence[Question[Any]], *, in_order: bool = False) -> Outgoing:
        """Name the properties; `in_order`: the form is sorted by them over there."""
        return cls(questions, {asked.id: f"q{place:02}" if in_order else asked.id for place, asked in enumerate(questions)})

    @property
    def schema(self) -> dict[str, Any]:
        """The flat JSON Schema of the form."""
        properties: dict[str, Json] = {}
        for question in self.questions:
            name = self.names[question.id]
            properties[name] = _property(question)
            if takes_own_words(question):
                properties[_own(name)] = {"type": "string", "title": "Or in your own words"}
        needed = [self.names[asked.id] for asked in self.questions if not asked.optional and not takes_own_words(asked)]
        return {"type": "object", "properties": properties, "required": needed}

    def answers(self, content: object) -> dict[str, Json]:
        """Return the answers in what came back, checked; nothing is filled in.

        Raises:
            AnswerError: Something that is needed is not there, or does not fit.
        """
        given = members(content)
        return checked_answers(
            self.questions, self.names, lambda question, name: _received(question, given.get(name), given.get(_own(name)))
        )


def takes_own_words(question: Question[Any]) -> bool:
    """Say whether a choice may be answered with something that is none of its options."""
    return isinstance(question.answer_type, SelectType | MultiSelectType) and question.answer_type.allow_other


def _own(name: str) -> str:
    return f"{name}_other"


def _received(question: Question[Any], value: Json, own: Json) -> Json:
    """Return what came back as our answers are: options by their values, own words as such."""
    words = own.strip() if isinstance(own, str) and takes_own_words(question) else ""
    match question.answer_type:
        case SelectType(options=options):
            return {"other": words} if words else _value(options, value)
        case MultiSelectType(options=options):
            chosen = [_value(options, one) for one in items(value)]
            return [*chosen, {"other": words}] if words else chosen if isinstance(value, list | tuple) else value
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
            one = _choices(options, "anyOf")
            shape: dict[str, Json] = {"type": "array", "items": {"type": "string", **one} if "enum" in one else one}
            bounds = {"minItems": least or None, "maxItems": most}
            return shape | {name: bound for name, bound in bounds.items() if bound is not None}
        case SchemaType(schema=schema) if schema.get("type") in KINDS:
            return {key: value for key, value in schema.items() if key in ("type", *TEXT_BOUNDS, *NUMBER_BOUNDS)}
        case _:  # own words, or JSON in words: it is checked when it comes
            return {"type": "string"}


def _choices(options: Sequence[SelectOption], titled: str) -> dict[str, Json]:
    """Return options as they are, or with a title each where one has more to say."""
    if any(option.description for option in options):
        return {titled: [_choice(option) for option in options]}
    return {"enum": [str(option.value) for option in options]}


def _choice(option: SelectOption) -> Json:
    value = str(option.value)
    return {"const": value, "title": f"{value}: {option.description}" if option.description else value}


# Web addresses that a server wants opened, as a question --------------------------------------------------------------


_OPEN = "open_address"


def web_address_form(message: str, url: str) -> Form:
    """Ask whether the user opens an address: it is shown whole, with its host by itself, and nothing is fetched."""
    try:
        host = urlsplit(url).hostname or "(no host)"
    except ValueError:
        host = "(no host)"
    shown = f"Host: `{host}`" + _spelled(host)
    context = (
        f"{message}\n\n{shown}\n\nAddress: `{url}`\n\nOpen it yourself, in a browser, if you know the host. Nothing was fetched from it."
    )
    question = Question.boolean(_OPEN, "Do you want to open this address?", context=context, exclusive=True, persistence="none")
    return Form((question,))


def opens(answers: Mapping[str, Json]) -> bool:
    """Say whether the answer is a yes."""
    return answers.get(_OPEN) is True


def _spelled(host: str) -> str:
    """Say how a host is spelled that looks like another one."""
    if host.isascii() and "xn--" not in host:
        return ""
    try:
        decoded = host.encode("ascii").decode("idna") if host.isascii() else host
        return f" (international letters: `{decoded}` is `{decoded.encode('idna').decode()}`)"
    except UnicodeError:
        return " (international letters)"
