"""Our questions as a form of the Model Context Protocol or of the Agent Client Protocol: questions in, a flat JSON Schema out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from midturn.core.form.flat_schema import KINDS, NUMBER_BOUNDS, TEXT_BOUNDS, checked_answers, sent
from midturn.core.json_value import Json, JsonObject
from midturn.core.loose_json import items, members
from midturn.core.question import Question
from midturn.core.question.answer_type import BooleanType, MultiSelectType, SchemaType, SelectOption, SelectType


def heading(questions: Sequence[Question[Any]]) -> str:
    """Return what stands above a form of these questions."""
    first = questions[0]
    if len(questions) > 1:
        return first.context or "Please answer these questions."
    return f"{first.context}\n\n{first.text}" if first.context else first.text


class Outgoing(Struct, frozen=True):
    """Our questions as a form of somebody else's: `names` are its properties, by the ids of the questions.

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
