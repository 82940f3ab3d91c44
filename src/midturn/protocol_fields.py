"""One property of a form that another program asks for, as a question of ours.

Real servers send more than the specification of the Model Context Protocol allows: optional values as `anyOf` with `null`, lists of words,
formats of their own, choices that differ in one capital letter. Each property gets the simplest control that can hold its value. A property
that no control fits is asked as JSON, with its schema beside it, so that a person can answer or decline. midturn never answers a form in a
person's place because it is hard to display.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.question.answer_type import SchemaType, folded
from midturn.question.form import FOREIGN_LIMITS
from midturn.question.json_text import NotJson, compact, read_json
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, canonical, items, members, objects, resolved, text
from midturn.question.question import Question
from midturn.question.schema import check_schema
from midturn.question.text import cut_to_bytes, single_line

KINDS: Final = ("string", "number", "integer", "boolean")
"""The types that a form has a control for."""
TEXT_BOUNDS: Final = ("format", "minLength", "maxLength", "pattern")
NUMBER_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SHOWN_SCHEMA: Final = 4_000
"""Maximum number of characters of a schema that is shown beside a question."""
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
"""The formats of the protocol. Others are annotations, which check nothing."""
Sending: TypeAlias = Literal["as is", "by label", "lines"]


class ElicitedField(Struct, frozen=True):
    """A property, the question that asks for it, and how its answer is sent back.

    `sending` says how: as it is, as the value that a label stands for (`labels`), or as a list with an item for each line. A skipped answer
    is left out, or sent as null if the property is required (`sends_null`).
    """

    name: str
    question: Question[Any]
    sending: Sending = "as is"
    labels: Mapping[str, Json] = {}
    sends_null: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the property has no control of its own and is answered as JSON."""
        kind = self.question.answer_type
        return isinstance(kind, SchemaType) and kind.schema.get("type") not in KINDS

    def sent(self, answer: Json) -> Json | UnsetType:
        """Return what the other program receives for an answer; `UNSET` if the property is left out."""
        if answer is None:
            return None if self.sends_null else UNSET
        match self.sending:
            case "as is":
                return _on_the_wire(own_words(answer))
            case "by label":
                chosen = [self._value(one) for one in answer] if isinstance(answer, list | tuple) else self._value(answer)
                return _on_the_wire(chosen)
            case "lines":
                return [line for line in str(answer).splitlines() if line.strip()]

    def received(self, value: Json) -> Json:
        """Return the answer that a value of the other program's own form stands for, unchecked."""
        match self.sending:
            case "as is":
                return _read_back(value) if isinstance(self.question.answer_type, SchemaType) else value
            case "by label":
                return [self._label(one) for one in value] if isinstance(value, list | tuple) else self._label(value)
            case "lines":
                return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def _value(self, label: Json) -> Json:
        return self.labels[label] if isinstance(label, str) and label in self.labels else own_words(label)

    def _label(self, value: Json) -> Json:
        sent = {canonical(_on_the_wire(known)): label for label, known in self.labels.items()}
        return sent.get(canonical(value), value)


def _on_the_wire(value: Json) -> Json:
    """Return a value as the protocol can carry it: text, numbers, true, false, null and lists of text. Anything else is JSON in a text."""
    match value:
        case list() | tuple():
            return [one if isinstance(one, str) else compact(one) for one in value]
        case Mapping():
            return compact(value)
        case _:
            return value


def _read_back(value: Json) -> Json:
    """Return the value that a text of `_on_the_wire` holds; other values as they are."""
    if isinstance(value, list | tuple):
        return [_read_back(one) for one in value]
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    try:
        return read_json(value)
    except NotJson:
        return value


def own_words(answer: Json) -> Json:
    """Return an answer as another program's content has it: own words stand for themselves."""
    if isinstance(answer, Mapping) and list(answer) == ["other"]:
        return answer["other"]
    if isinstance(answer, list | tuple):
        return [own_words(one) for one in answer]
    return answer


def field_of(key: str, name: str, asked: JsonObject, root: JsonObject, *, is_required: bool, above: str) -> ElicitedField:
    """Return a property as a question.

    Args:
        key: The id of the question.
        name: The name of the property.
        asked: The schema of the property.
        root: The schema of the form, in which references are looked up.
        is_required: The other program requires the property.
        above: Text shown above the question.
    """
    written_out = _written_out(asked, root)
    plain, is_nullable = _without_null(written_out)
    words = [said for said in (text(asked.get("title")), text(asked.get("description"))) if said.strip()] or [name]
    line = single_line(words[0]) or key
    control = _control(plain, _definitions(asked, root))
    context = [above, *words[1:], words[0] if line != words[0] else "", control.hint]
    question: dict[str, Json] = {"id": key, "text": line, "answer_type": control.answer_type, "exclusive": True}
    if whole := clipped("\n\n".join(part for part in context if part)):
        question["context"] = whole
    if is_nullable or not is_required:
        question["optional"] = True
    field = ElicitedField(
        name=name,
        question=Question.from_json(question, FOREIGN_LIMITS),
        sending=control.sending,
        labels=control.labels,
        sends_null=is_nullable and is_required,
    )
    return _with_default(field, question, written_out)


def json_field(key: str, schema: Json, above: str) -> ElicitedField:
    """Return a whole form as one question that is answered with a JSON object."""
    question: dict[str, Json] = {
        "id": key,
        "text": "The answer as a JSON object",
        "answer_type": {"type": "schema", "schema": {"type": "object"}},
        "exclusive": True,
        "context": clipped("\n\n".join(part for part in (above, _schema_hint(schema)) if part)),
    }
    return ElicitedField(name="", question=Question.from_json(question, FOREIGN_LIMITS))


def clipped(context: str) -> str:
    """Cut a context at the limit, at the end of a character."""
    return cut_to_bytes(context, DEFAULT_LIMITS.context)


_DEEPEST: Final = 8
"""Maximum number of references that are followed, one after the other."""


def _written_out(schema: JsonObject, root: JsonObject, depth: int = _DEEPEST) -> JsonObject:
    """Return a schema with its references to `root` written out, as far as its control depends on them."""
    whole = dict(schema)
    reference, parts = whole.get("$ref"), objects(whole.get("allOf"))
    if depth == 0:
        return whole
    if isinstance(reference, str) and (target := resolved(reference, root)):
        del whole["$ref"]
        return _written_out({**target, **whole}, root, depth - 1)
    if len(parts) == 1:
        del whole["allOf"]
        return _written_out({**parts[0], **whole}, root, depth - 1)
    for keyword in ("anyOf", "oneOf"):
        if whole.get(keyword):
            whole[keyword] = [_written_out(one, root, depth - 1) for one in objects(whole[keyword])]
    if element := members(whole.get("items")):
        whole["items"] = _written_out(element, root, depth - 1)
    return whole


def _definitions(asked: JsonObject, root: JsonObject) -> JsonObject:
    """Return the definitions of a form, if a property refers to one."""
    return {"$defs": root["$defs"]} if "$defs" in root and '"$ref"' in compact(dict(asked)) else {}


def _with_default(field: ElicitedField, question: dict[str, Json], asked: JsonObject) -> ElicitedField:
    """Keep a default that fits. A default that does not is no reason not to ask."""
    if asked.get("default") is None:
        return field
    try:
        return replace(field, question=Question.from_json({**question, "default": field.received(asked["default"])}, FOREIGN_LIMITS))
    except QuestionError:
        return field


def _without_null(asked: JsonObject) -> tuple[JsonObject, bool]:
    """Return a schema without its null, and whether null is a value of it."""
    kinds = items(asked.get("type"))
    if "null" in kinds:
        rest = [kind for kind in kinds if kind != "null"]
        return {**asked, "type": rest[0] if len(rest) == 1 else rest}, True
    for keyword in ("anyOf", "oneOf"):
        listed = objects(asked.get(keyword))
        rest = [one for one in listed if one.get("type") != "null" and not ("const" in one and one["const"] is None)]
        if len(rest) < len(listed):
            bare = {key: value for key, value in asked.items() if key != keyword}
            return ({**bare, **rest[0]} if len(rest) == 1 and "const" not in rest[0] else {**bare, keyword: rest}), True
    enum = items(asked.get("enum"))
    if None in enum and len(enum) > 1:
        return {**asked, "enum": [value for value in enum if value is not None]}, True
    return asked, False


# The control of a property ---------------------------------------------------------------------------------------------


class _Control(Struct, frozen=True):
    """An answer type, how its answers are sent, and a hint for the person."""

    answer_type: dict[str, Json]
    sending: Sending = "as is"
    labels: Mapping[str, Json] = {}
    hint: str = ""


def _control(asked: JsonObject, definitions: JsonObject) -> _Control:
    """Return the simplest control that can hold the values of a schema."""
    choices = _choices(asked)
    if choices:
        return _select(choices, {"type": "select"})
    kind = asked.get("type")
    if kind == "array":
        return _list_control(asked, definitions)
    if kind == "boolean":
        return _Control({"type": "boolean"})
    if kind in KINDS:
        return _scalar(str(kind), asked)
    return _json_control({**asked, **definitions})


def _scalar(kind: str, asked: JsonObject) -> _Control:
    """Return a text field or a number; a bound that our checker does not support is left to the other program, and shown."""
    bounds = TEXT_BOUNDS if kind == "string" else NUMBER_BOUNDS
    kept: dict[str, Json] = {}
    left: dict[str, Json] = {}
    for bound in bounds:
        if bound not in asked:
            continue
        fits = text(asked[bound]) in _FORMATS if bound == "format" else not check_schema({"type": kind, **kept, bound: asked[bound]})
        (kept if fits else left)[bound] = asked[bound]
    hint = "" if not left or list(left) == ["format"] else _schema_hint(left)
    if _is_crossed(kept):
        return _Control(_plain(kind, {}), hint=_schema_hint(asked))
    return _Control(_plain(kind, kept), hint=hint)


def _plain(kind: str, bounds: Mapping[str, Json]) -> dict[str, Json]:
    if kind == "string" and not bounds:
        return {"type": "text"}
    return {"type": "schema", "schema": {"type": kind, **bounds}}


_PAIRS: Final = (("minimum", "maximum"), ("minLength", "maxLength"))


def _is_crossed(bounds: Mapping[str, Json]) -> bool:
    """Return whether no value can satisfy the bounds. A person is asked all the same, and can say so."""
    found = ((bounds.get(lower), bounds.get(upper)) for lower, upper in _PAIRS)
    return any(isinstance(least, int | float) and isinstance(most, int | float) and least > most for least, most in found)


def _list_control(asked: JsonObject, definitions: JsonObject) -> _Control:
    element = members(asked.get("items"))
    choices = _choices(element)
    if choices:
        least, most = asked.get("minItems"), asked.get("maxItems")
        bounds: dict[str, Json] = {}
        if isinstance(least, int) and 0 <= least <= len(choices):
            bounds["min"] = least
        if isinstance(most, int) and most >= max(1, bounds.get("min", 0) or 0):  # type: ignore[operator]  # it is an int
            bounds["max"] = most
        return _select(choices, {"type": "multi_select", **bounds})
    if element.get("type") == "string" and not {"minItems", "maxItems"} & set(asked):
        return _Control({"type": "text"}, sending="lines", hint="One entry per line.")
    return _json_control({**asked, **definitions})


def _json_control(asked: JsonObject) -> _Control:
    """Ask for JSON under the schema of the property, or under none if our checker does not support it."""
    bare = {key: value for key, value in asked.items() if key not in ("title", "description", "default")}
    checked = bool(bare) and not check_schema(bare)
    return _Control({"type": "schema", "schema": bare if checked else {}}, hint=_schema_hint(bare) if bare else "")


def _schema_hint(schema: Json) -> str:
    written = compact(schema)
    shown = written if len(written) <= _SHOWN_SCHEMA else f"{written[:_SHOWN_SCHEMA]}…"
    return f"It is checked against this JSON Schema by the program that asks:\n\n    {shown}"


class _Choice(Struct, frozen=True):
    value: Json
    title: str


def _choices(asked: JsonObject) -> list[_Choice]:
    """Return the values among which a schema lets a person choose; an empty list if it does not."""
    if "const" in asked:
        return [_Choice(asked["const"], text(asked.get("title")))]
    values = items(asked.get("enum"))
    if values:
        titles = items(asked.get("enumNames"))
        return _unique([_Choice(value, text(titles[at]) if at < len(titles) else "") for at, value in enumerate(values)])
    for keyword in ("oneOf", "anyOf"):
        listed = objects(asked.get(keyword))
        if listed and all("const" in entry for entry in listed):
            return _unique([_Choice(entry["const"], text(entry.get("title"))) for entry in listed])
    return []


def _unique(choices: Sequence[_Choice]) -> list[_Choice]:
    """Return each value once."""
    return list({canonical(choice.value): choice for choice in reversed(choices)}.values())[::-1]


_LONGEST_LABEL: Final = 2_000
"""Maximum number of characters of an option that is shown."""


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[:_LONGEST_LABEL]}…"


def _select(choices: Sequence[_Choice], kind: dict[str, Json]) -> _Control:
    """Return a choice. Options that are cut, or that a person could not tell apart, are numbered: `mm (1)`, `Mm (2)`."""
    if len(choices) > FOREIGN_LIMITS.options:
        return _json_control({"enum": [choice.value for choice in choices]})
    whole = [choice.value if isinstance(choice.value, str) else compact(choice.value) for choice in choices]
    labels = [_shortened(label) for label in whole]
    alike = Counter(map(folded, labels))
    marked = [
        f"{label} ({at})" if alike[folded(label)] > 1 or not label.strip() or label != whole[at - 1] else label
        for at, label in enumerate(labels, 1)
    ]
    is_plain = marked == labels and all(isinstance(choice.value, str | int | float | bool) for choice in choices)
    options: list[Json] = []
    for choice, label in zip(choices, marked, strict=True):
        value: Json = choice.value if is_plain else label
        has_title = choice.title and choice.title != value
        options.append({"value": value, "description": _shortened(choice.title)} if has_title else {"value": value})
    answer_type: dict[str, Json] = {**kind, "options": options}
    if is_plain:
        return _Control(answer_type)
    return _Control(answer_type, sending="by label", labels={label: choice.value for choice, label in zip(choices, marked, strict=True)})
