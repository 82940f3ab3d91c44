"""Convert one property of another program's form to a question.

Real servers send more than the Model Context Protocol allows: optional values as `anyOf` with
`null`, lists of strings, custom formats, options that differ in one capital letter. Each property
gets the simplest control that can hold its value. If no control fits, the property is asked as
JSON, with its schema shown next to it, so that a person can answer or decline. A form that is hard
to display is still shown: midturn never answers it instead of the person.
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
from midturn.question.json_value import (
    DEFAULT_LIMITS,
    Json,
    JsonObject,
    canonical,
    items,
    members,
    objects,
    resolved,
    text,
)
from midturn.question.question import Question
from midturn.question.schema import check_schema
from midturn.question.text import cut_to_bytes, single_line

KINDS: Final = ("string", "number", "integer", "boolean")
"""JSON types that have a control."""
TEXT_BOUNDS: Final = ("format", "minLength", "maxLength", "pattern")
NUMBER_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_MAX_SCHEMA_LENGTH: Final = 4_000
"""Maximum length of a schema shown with a question, in characters."""
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
"""Formats that the protocol defines. Other formats are annotations and are not validated."""
Sending: TypeAlias = Literal["as is", "by label", "lines"]


class ElicitedField(Struct, frozen=True):
    """A property, the question that asks for its value, and the conversion of the answer.

    `sending` selects the conversion: unchanged, the value of the selected label (`labels`), or a
    list with one item per line. A skipped answer is omitted, or sent as null if the property is
    required (`sends_null`).
    """

    name: str
    question: Question[Any]
    sending: Sending = "as is"
    labels: Mapping[str, Json] = {}
    sends_null: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the property has no control and is answered as JSON."""
        kind = self.question.answer_type
        return isinstance(kind, SchemaType) and kind.schema.get("type") not in KINDS

    def sent(self, answer: Json) -> Json | UnsetType:
        """Return the value to send over a protocol that allows only scalars and lists of strings,
        or `UNSET` if the property is omitted.
        """
        value = self.value(answer)
        return value if isinstance(value, UnsetType) else _to_wire(value)

    def value(self, answer: Json) -> Json | UnsetType:
        """Return the value to send over a protocol that allows any JSON, or `UNSET` if the property
        is omitted.
        """
        if answer is None:
            return None if self.sends_null else UNSET
        match self.sending:
            case "as is":
                return own_words(answer)
            case "by label":
                return (
                    [self._value(item) for item in answer]
                    if isinstance(answer, list | tuple)
                    else self._value(answer)
                )
            case "lines":
                return [line for line in str(answer).splitlines() if line.strip()]

    def received(self, value: Json) -> Json:
        """Return the answer for a value from the other program's own dialog, without validation."""
        match self.sending:
            case "as is":
                return (
                    _from_wire(value)
                    if isinstance(self.question.answer_type, SchemaType)
                    else value
                )
            case "by label":
                return (
                    [self._label(item) for item in value]
                    if isinstance(value, list | tuple)
                    else self._label(value)
                )
            case "lines":
                return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def _value(self, label: Json) -> Json:
        return (
            self.labels[label]
            if isinstance(label, str) and label in self.labels
            else own_words(label)
        )

    def _label(self, value: Json) -> Json:
        sent = {canonical(_to_wire(known)): label for label, known in self.labels.items()}
        return sent.get(canonical(value), value)


def _to_wire(value: Json) -> Json:
    """Return a value that the protocol allows: a scalar or a list of strings. Other values
    become JSON text.
    """
    match value:
        case list() | tuple():
            return [item if isinstance(item, str) else compact(item) for item in value]
        case Mapping():
            return compact(value)
        case _:
            return value


def _from_wire(value: Json) -> Json:
    """Reverse `_to_wire`: parse JSON text, and return other values unchanged."""
    if isinstance(value, list | tuple):
        return [_from_wire(item) for item in value]
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    try:
        return read_json(value)
    except NotJson:
        return value


def own_words(answer: Json) -> Json:
    """Return an answer as the other program expects it: free text instead of `{"other": text}`."""
    if isinstance(answer, Mapping) and list(answer) == ["other"]:
        return answer["other"]
    if isinstance(answer, list | tuple):
        return [own_words(item) for item in answer]
    return answer


def field_of(
    key: str, name: str, asked: JsonObject, root: JsonObject, *, is_required: bool, above: str
) -> ElicitedField:
    """Convert a property to a question.

    Args:
        key: The question ID.
        name: The property name.
        asked: The schema of the property.
        root: The schema of the form, to resolve references.
        is_required: Whether the other program requires the property.
        above: Text to show above the question.
    """
    expanded = _expand_references(asked, root)
    plain, is_nullable = _without_null(expanded)
    words = [
        value
        for value in (text(asked.get("title")), text(asked.get("description")))
        if value.strip()
    ] or [name]
    line = single_line(words[0]) or key
    control = _control(plain, _definitions(asked, root))
    context = [above, *words[1:], words[0] if line != words[0] else "", control.hint]
    question: dict[str, Json] = {
        "id": key,
        "text": line,
        "answer_type": control.answer_type,
        "exclusive": True,
    }
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
    return _with_default(field, question, expanded)


def json_field(key: str, schema: Json, above: str) -> ElicitedField:
    """Return a question that asks for a whole form as one JSON object."""
    question: dict[str, Json] = {
        "id": key,
        "text": "The answer as a JSON object",
        "answer_type": {"type": "schema", "schema": {"type": "object"}},
        "exclusive": True,
        "context": clipped("\n\n".join(part for part in (above, _schema_hint(schema)) if part)),
    }
    return ElicitedField(name="", question=Question.from_json(question, FOREIGN_LIMITS))


def clipped(context: str) -> str:
    """Truncate a context to its size limit, without splitting a character."""
    return cut_to_bytes(context, DEFAULT_LIMITS.context)


_MAX_REFERENCES: Final = 8
"""Maximum length of a chain of references."""


def _expand_references(
    schema: JsonObject, root: JsonObject, depth: int = _MAX_REFERENCES
) -> JsonObject:
    """Return a schema in which the references that affect its control are replaced by their
    targets in `root`.
    """
    whole = dict(schema)
    reference, parts = whole.get("$ref"), objects(whole.get("allOf"))
    if depth == 0:
        return whole
    if isinstance(reference, str) and (target := resolved(reference, root)):
        del whole["$ref"]
        return _expand_references({**target, **whole}, root, depth - 1)
    if len(parts) == 1:
        del whole["allOf"]
        return _expand_references({**parts[0], **whole}, root, depth - 1)
    for keyword in ("anyOf", "oneOf"):
        if whole.get(keyword):
            whole[keyword] = [
                _expand_references(variant, root, depth - 1) for variant in objects(whole[keyword])
            ]
    if element := members(whole.get("items")):
        whole["items"] = _expand_references(element, root, depth - 1)
    return whole


def _definitions(asked: JsonObject, root: JsonObject) -> JsonObject:
    """Return the definitions of a form, if the property refers to them."""
    return {"$defs": root["$defs"]} if "$defs" in root and '"$ref"' in compact(dict(asked)) else {}


def _with_default(
    field: ElicitedField, question: dict[str, Json], asked: JsonObject
) -> ElicitedField:
    """Add the default of the schema to the question, if it is a valid answer."""
    if asked.get("default") is None:
        return field
    try:
        return replace(
            field,
            question=Question.from_json(
                {**question, "default": field.received(asked["default"])}, FOREIGN_LIMITS
            ),
        )
    except QuestionError:
        return field


def _without_null(asked: JsonObject) -> tuple[JsonObject, bool]:
    """Return a schema without null, and whether it allowed null."""
    kinds = items(asked.get("type"))
    if "null" in kinds:
        rest = [kind for kind in kinds if kind != "null"]
        return {**asked, "type": rest[0] if len(rest) == 1 else rest}, True
    for keyword in ("anyOf", "oneOf"):
        listed = objects(asked.get(keyword))
        rest = [
            entry
            for entry in listed
            if entry.get("type") != "null" and not ("const" in entry and entry["const"] is None)
        ]
        if len(rest) < len(listed):
            bare = {key: value for key, value in asked.items() if key != keyword}
            return (
                {**bare, **rest[0]}
                if len(rest) == 1 and "const" not in rest[0]
                else {**bare, keyword: rest}
            ), True
    enum = items(asked.get("enum"))
    if None in enum and len(enum) > 1:
        return {**asked, "enum": [value for value in enum if value is not None]}, True
    return asked, False


# The control of a property
# --------------------------------------------------------------------------------------------------


class _Control(Struct, frozen=True):
    """An answer type, the conversion of its answers, and a hint for the person."""

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
    """Return a text or number control. Bounds that midturn cannot check are shown to the person,
    and the other program must check them.
    """
    bounds = TEXT_BOUNDS if kind == "string" else NUMBER_BOUNDS
    kept: dict[str, Json] = {}
    left: dict[str, Json] = {}
    for bound in bounds:
        if bound not in asked:
            continue
        fits = (
            text(asked[bound]) in _FORMATS
            if bound == "format"
            else not check_schema({"type": kind, **kept, bound: asked[bound]})
        )
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
    """Return whether no value satisfies the bounds. The question is asked anyway, and the person
    can decline.
    """
    pairs = ((bounds.get(lower), bounds.get(upper)) for lower, upper in _PAIRS)
    return any(
        isinstance(low, int | float) and isinstance(high, int | float) and low > high
        for low, high in pairs
    )


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
    """Return a control for JSON, validated by the property's schema if midturn supports it."""
    bare = {
        key: value for key, value in asked.items() if key not in ("title", "description", "default")
    }
    checked = bool(bare) and not check_schema(bare)
    return _Control(
        {"type": "schema", "schema": bare if checked else {}},
        hint=_schema_hint(bare) if bare else "",
    )


def _schema_hint(schema: Json) -> str:
    written = compact(schema)
    shown = written if len(written) <= _MAX_SCHEMA_LENGTH else f"{written[:_MAX_SCHEMA_LENGTH]}…"
    return f"The program that asks checks the answer against this JSON Schema:\n\n    {shown}"


class _Choice(Struct, frozen=True):
    value: Json
    title: str


def _choices(asked: JsonObject) -> list[_Choice]:
    """Return the options that a schema offers, or an empty list if it offers none."""
    if "const" in asked:
        return [_Choice(asked["const"], text(asked.get("title")))]
    values = items(asked.get("enum"))
    if values:
        titles = items(asked.get("enumNames"))
        return _unique(
            [
                _Choice(value, text(titles[index]) if index < len(titles) else "")
                for index, value in enumerate(values)
            ]
        )
    for keyword in ("oneOf", "anyOf"):
        listed = objects(asked.get(keyword))
        if listed and all("const" in entry for entry in listed):
            return _unique([_Choice(entry["const"], text(entry.get("title"))) for entry in listed])
    return []


def _unique(choices: Sequence[_Choice]) -> list[_Choice]:
    """Remove duplicate values, keeping the first of each."""
    return list({canonical(choice.value): choice for choice in reversed(choices)}.values())[::-1]


_MAX_LABEL_LENGTH: Final = 2_000
"""Maximum length of the label of an option, in characters."""


def _shortened(label: str) -> str:
    return label if len(label) <= _MAX_LABEL_LENGTH else f"{label[:_MAX_LABEL_LENGTH]}…"


def _select(choices: Sequence[_Choice], kind: dict[str, Json]) -> _Control:
    """Return a choice. Options that are truncated or look alike are numbered: `mm (1)`,
    `Mm (2)`.
    """
    if len(choices) > FOREIGN_LIMITS.options:
        return _json_control({"enum": [choice.value for choice in choices]})
    whole = [
        choice.value if isinstance(choice.value, str) else compact(choice.value)
        for choice in choices
    ]
    labels = [_shortened(label) for label in whole]
    occurrences = Counter(map(folded, labels))
    marked = [
        (
            f"{label} ({number})"
            if occurrences[folded(label)] > 1 or not label.strip() or label != whole[number - 1]
            else label
        )
        for number, label in enumerate(labels, 1)
    ]
    is_plain = marked == labels and all(
        isinstance(choice.value, str | int | float | bool) for choice in choices
    )
    options: list[Json] = []
    for choice, label in zip(choices, marked, strict=True):
        value: Json = choice.value if is_plain else label
        has_title = choice.title and choice.title != value
        options.append(
            {"value": value, "description": _shortened(choice.title)}
            if has_title
            else {"value": value}
        )
    answer_type: dict[str, Json] = {**kind, "options": options}
    if is_plain:
        return _Control(answer_type)
    return _Control(
        answer_type,
        sending="by label",
        labels={label: choice.value for choice, label in zip(choices, marked, strict=True)},
    )
