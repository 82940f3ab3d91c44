"""Forms of the Model Context Protocol and the Agent Client Protocol: read as our questions, and written from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, cast
from urllib.parse import urlsplit

from msgspec import UNSET, Struct

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.question.answer_type import BooleanType, MultiSelectType, SchemaType, SelectOption, SelectType
from midturn.question.authored_type import crossed_bounds
from midturn.question.form import Form
from midturn.question.question import Question
from midturn.values.json_value import Json, JsonObject, items, members, objects, text
from midturn.values.text import QUESTION_ID, single_line

# Shared by both directions: a flat JSON Schema ------------------------------------------------------------------------


KINDS: Final = ("string", "number", "integer", "boolean")
TEXT_BOUNDS: Final = ("format", "minLength", "maxLength", "pattern")
NUMBER_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


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


def sent(value: Json) -> Json:
    """Return an answer as a content has it: own words stand for themselves."""
    if isinstance(value, Mapping) and list(value) == ["other"]:
        return value["other"]
    if isinstance(value, list | tuple):
        return [sent(one) for one in value]
    return value


_ID = re.compile(QUESTION_ID)


class Elicited(Struct, frozen=True):
    """A schema as a form: `names` says which property each question is about, by its id."""

    form: Form
    names: Mapping[str, str]

    def content(self, answers: Mapping[str, Json]) -> dict[str, Json]:
        """Return the object that the schema asked for. What was skipped is left out."""
        return {name: sent(answers[key]) for key, name in self.names.items() if answers.get(key) is not None}

    def answers(self, content: object) -> dict[str, Json]:
        """Return the answers of a content that came from another program's form, checked; nothing is filled in.

        Raises:
            AnswerError: It is not an answer: something required is not there, or does not fit; or nothing is there at all.
        """
        given = members(content)
        return checked_answers(self.form.questions, self.names, lambda _, name: given.get(name))


def form_of(schema: object, message: str) -> Elicited:
    """Read a schema as a form: one question for each property, `message` above the first. What a server asks, it asks a person.

    Raises:
        QuestionError: A form of that client cannot show it.
    """
    properties = members(members(schema).get("properties"))
    if not properties:
        raise QuestionError([Problem("/properties", "a form has at least one property.")])
    needed = items(members(schema).get("required"))
    names = _ids(list(properties))
    questions: list[Json] = [
        _question(key, name, members(properties[name]), is_optional=name not in needed, above=message if number == 0 else "")
        for number, (key, name) in enumerate(names.items())
    ]
    return Elicited(Form.from_json(questions, review=len(questions) > 1), names)


def _ids(names: Sequence[str]) -> dict[str, str]:
    """Give every property an id of ours: its own name where that is one."""
    own = {name for name in names if _ID.fullmatch(name)}
    free = (key for number in count(1) if (key := f"field_{number}") not in own)
    return {name if name in own else next(free): name for name in names}


def _question(key: str, name: str, asked: JsonObject, *, is_optional: bool, above: str) -> dict[str, Json]:
    words = [said for said in (text(asked.get("title")), text(asked.get("description"))) if said.strip()] or [name]
    line = single_line(words[0])
    context = "\n\n".join(part for part in (above, *words[1:], words[0] if line != words[0] else "") if part)
    question: dict[str, Json] = {"id": key, "text": line, "answer_type": _answer_type(name, asked), "exclusive": True}
    if context:
        question["context"] = context
    if is_optional:
        question["optional"] = True
    return _with_default(question, asked)


def _with_default(question: dict[str, Json], asked: JsonObject) -> dict[str, Json]:
    """Keep a default that fits; one that does not is no reason not to ask."""
    if "default" not in asked:
        return question
    whole = {**question, "default": asked["default"]}
    try:
        Question.from_json(whole)
    except QuestionError:
        return question
    return whole


def _answer_type(name: str, asked: JsonObject) -> dict[str, Json]:
    _refuse_impossible(name, asked)
    options = _options(asked)
    kind = asked.get("type")
    if options is not None:
        return {"type": "select", "options": options}
    if kind == "array":
        return _several(name, asked)
    if kind not in KINDS:
        raise QuestionError([Problem(f"/properties/{name}/type", f"is one of {', '.join(KINDS)} and array of choices.")])
    if kind == "boolean":
        return {"type": "boolean"}
    bounds = TEXT_BOUNDS if kind == "string" else NUMBER_BOUNDS
    schema: dict[str, Json] = {"type": kind, **{bound: asked[bound] for bound in bounds if bound in asked}}
    return {"type": "text"} if schema == {"type": "string"} else {"type": "schema", "schema": schema}


def _refuse_impossible(name: str, asked: JsonObject) -> None:
    """Refuse what no answer fits: a person cannot be asked for it.

    Raises:
        QuestionError: It is a choice of nothing, or its least is more than its most.
    """
    if "enum" in asked and not items(asked["enum"]):
        raise QuestionError([Problem(f"/properties/{name}/enum", "a choice has at least one option.")])
    for lower, _, upper, most in crossed_bounds(asked):
        raise QuestionError([Problem(f"/properties/{name}/{lower}", f"is at most `{upper}`, which is {most}.")])


def _several(name: str, asked: JsonObject) -> dict[str, Json]:
    options = _options(members(asked.get("items")))
    if options is None:
        raise QuestionError([Problem(f"/properties/{name}/items", "an array is a choice among options: `enum`, or `anyOf` with `const`.")])
    several: dict[str, Json] = {"type": "multi_select", "options": options}
    for ours, theirs in (("min", "minItems"), ("max", "maxItems")):
        if isinstance(asked.get(theirs), int):
            several[ours] = asked[theirs]
    return several


def _options(asked: JsonObject) -> list[Json] | None:
    """Return the options of a choice; None where there is none."""
    values = items(asked.get("enum"))
    if values:
        titles = items(asked.get("enumNames"))
        return [_option(value, titles[place] if place < len(titles) else None) for place, value in enumerate(values)]
    for keyword in ("oneOf", "anyOf"):
        listed = objects(asked.get(keyword))
        if listed and all("const" in entry for entry in listed):
            return [_option(entry["const"], entry.get("title")) for entry in listed]
    return None


def _option(value: Json, title: Json) -> Json:
    return {"value": value, "description": title} if isinstance(title, str) and title and title != value else {"value": value}


# Outgoing forms: our questions as a flat JSON Schema ------------------------------------------------------------------


def heading(questions: Sequence[Question[Any]]) -> str:
    """Return what stands above a form of these questions."""
    first = questions[0]
    if len(questions) > 1:
        return first.context or "Please answer these questions."
    return f"{first.context}\n\n{first.text}" if first.context else first.text


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
    if question.context:
        described["description"] = question.context
    if question.default is not UNSET:
        described["default"] = sent(question.default)
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
