"""A form of the Model Context Protocol or of the Agent Client Protocol as one of ours: a flat JSON Schema in, questions out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count

from msgspec import Struct

from midturn.core.form.flat_schema import KINDS, NUMBER_BOUNDS, TEXT_BOUNDS, checked_answers, sent
from midturn.core.form.form import Form
from midturn.core.json_value import Json, JsonObject
from midturn.core.loose_json import items, members, objects, text
from midturn.core.names import QUESTION_ID
from midturn.core.question import Question
from midturn.core.question.crossed_bounds import crossed_bounds
from midturn.errors import Problem, QuestionError

_ID = re.compile(QUESTION_ID)
_LONGEST = 2048


class Elicited(Struct, frozen=True):
    """A schema as a form: `names` says which property each question is about, by its id."""

    form: Form
    names: Mapping[str, str]

    def content(self, answers: Mapping[str, Json]) -> dict[str, Json]:
        """Return the object that the schema asked for. What was skipped is left out."""
        return {name: sent(answers[key]) for key, name in self.names.items() if answers.get(key) is not None}

    def answers(self, content: object) -> dict[str, Json]:
        """Return the answers of a content that came from somebody else's form, checked; nothing is filled in.

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
    line = one_line(words[0])
    context = "\n\n".join(part for part in (above, *words[1:], words[0] if line != words[0] else "") if part)
    question: dict[str, Json] = {"id": key, "text": line, "answer_type": _answer_type(name, asked), "exclusive": True}
    if context:
        question["context"] = context
    if is_optional:
        question["optional"] = True
    return _with_default(question, asked)


def _with_default(question: dict[str, Json], asked: JsonObject) -> dict[str, Json]:
    """Keep a default that fits; one that does not is no reason to ask nobody."""
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


def one_line(text: str) -> str:
    """Return a text as the one line that a question is."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
