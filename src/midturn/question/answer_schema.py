"""JSON Schema of a model's answer: the same for every question of a type, so that provider caches hit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, assert_never, cast

from midturn.question.answer_type import AnswerType, BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType, TypeTerms
from midturn.question.json_value import Json, JsonObject, is_number
from midturn.question.text import did_you_mean

# ----------------------------------------------------------------------------------------------------------------------
# The keywords of the closed subset and the form of their values (JSON Schema 2020-12)


DIALECT = "https://json-schema.org/draft/2020-12/schema"
LONGEST_PATTERN = 256
MOST_VALUES = 200  # of an enum
TYPES = ("string", "boolean", "integer", "number", "array", "object", "null")
FORMATS = (
    *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri", "uri-reference"),
    *("iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex"),
)

REFUSED: Mapping[str, str] = {
    "$id": "a schema has no identity of its own here",
    "$anchor": "only JSON pointers name parts of a schema here",
    "$dynamicRef": "references are local and fixed",
    "$dynamicAnchor": "references are local and fixed",
    "$recursiveRef": "references are local and fixed",
    "$recursiveAnchor": "references are local and fixed",
    "$vocabulary": "the vocabulary is fixed",
    "patternProperties": "list the properties under `properties`",
    "propertyNames": "list the properties under `properties`",
    "unevaluatedProperties": "use `additionalProperties`",
    "unevaluatedItems": "use `items`",
    "additionalItems": "use `prefixItems` and `items`",
    "dependencies": "use `dependentRequired` or `dependentSchemas`",
    "contentSchema": "describe the text itself",
}

ONE_SCHEMA = ("not", "if", "then", "else", "items", "contains", "additionalProperties")
SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SCHEMA_MAPS = ("properties", "dependentSchemas", "$defs", "definitions")
DEFINITIONS = ("$defs", "definitions")
_Judge: TypeAlias = Callable[[Json], str | None]  # says what the value must be instead, or None


def _string(value: Json) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def _flag(value: Json) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _number(value: Json) -> str | None:
    if not is_number(value):
        return "must be a number"
    return "must be a number of at most 64 bits" if isinstance(value, int) and value.bit_length() > 64 else None  # noqa: PLR2004


def _positive(value: Json) -> str | None:
    return _number(value) or (None if cast("float", value) > 0 else "must be more than 0")


def _count(value: Json) -> str | None:
    whole = _number(value) is None and float(cast("float", value)).is_integer() and cast("float", value) >= 0
    return None if whole else "must be a whole number, 0 or more"


def _list(value: Json) -> str | None:
    return None if isinstance(value, list | tuple) else "must be an array"


def _enum(value: Json) -> str | None:
    size = len(cast("Sequence[Json]", value)) if isinstance(value, list | tuple) else 0
    return None if 1 <= size <= MOST_VALUES else f"must be an array of 1 to {MOST_VALUES} values"


def _names(value: Json) -> str | None:
    names = cast("Sequence[Json]", value) if isinstance(value, list | tuple) else (None,)
    distinct = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return None if distinct else "must be an array of different property names"


def _names_by_property(value: Json) -> str | None:
    good = isinstance(value, Mapping) and all(_names(names) is None for names in value.values())
    return None if good else "must map properties to arrays of different property names"


def _type(value: Json) -> str | None:
    names = cast("Sequence[Json]", value) if isinstance(value, list | tuple) else (value,)
    known = bool(names) and all(isinstance(name, str) and name in TYPES for name in names) and len(set(names)) == len(names)
    return None if known else f"must be one of {', '.join(TYPES)}, or an array of different ones"


def _format(value: Json) -> str | None:
    return None if isinstance(value, str) and value in FORMATS else f"must be one of {', '.join(FORMATS)}"


def _pattern(value: Json) -> str | None:
    if not isinstance(value, str):
        return "must be a string"
    return None if len(value) <= LONGEST_PATTERN else f"must have at most {LONGEST_PATTERN} characters"


def _dialect(value: Json) -> str | None:
    return None if value in (DIALECT, f"{DIALECT}#") else f"must be {DIALECT}; other dialects are not read"


def _anything(_: Json) -> None:
    return None


def _schema(value: Json) -> str | None:
    return None if isinstance(value, bool | Mapping) else "must be a schema: an object, true or false"


def _schemas(value: Json) -> str | None:
    return None if isinstance(value, list | tuple) and value else "must be an array of at least one schema"


def _schemas_by_name(value: Json) -> str | None:
    return None if isinstance(value, Mapping) else "must be an object of schemas"


_SHAPES: Mapping[_Judge, str] = {
    _schema: " ".join(ONE_SCHEMA),
    _schemas: " ".join(SCHEMA_LISTS),
    _schemas_by_name: " ".join(SCHEMA_MAPS),
    _count: "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains",
    _number: "minimum maximum exclusiveMinimum exclusiveMaximum",
    _positive: "multipleOf",
    _string: "$ref $comment title description contentEncoding contentMediaType",
    _flag: "uniqueItems deprecated readOnly writeOnly",
    _list: "examples",
    _enum: "enum",
    _names: "required",
    _names_by_property: "dependentRequired",
    _type: "type",
    _format: "format",
    _pattern: "pattern",
    _dialect: "$schema",
    _anything: "const default",
}
KEYWORDS: Mapping[str, _Judge] = {keyword: judge for judge, keywords in _SHAPES.items() for keyword in keywords.split()}


def keyword_problem(keyword: str, value: Json) -> str | None:
    """Say what is wrong with the value of a keyword of the subset, or None."""
    wrong = KEYWORDS[keyword](value)
    if not wrong:
        return None
    advice = meant_type(value) if keyword == "type" else ""
    return f"`{keyword}` {wrong}.{advice}"


_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("summary", "help", "doc", "text"), "description"),
    **dict.fromkeys(("choices", "options", "values", "allowed"), "enum"),
    "min": "minimum",
    "max": "maximum",
    "regex": "pattern",
    "optional": "required",
    "kind": "type",
}
"""Words of other libraries, and the keyword that they mean."""
_MEANT_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("list", "tuple"), "array"),
    **dict.fromkeys(("dict", "map", "table"), "object"),
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "none": "null",
}


def keyword_refusal(keyword: str) -> str | None:
    """Return why a keyword cannot be used, with the nearest known one; None if it can be used."""
    if keyword in KEYWORDS:
        return None
    if keyword in REFUSED:
        return f"`{keyword}` is not allowed: {REFUSED[keyword]}."
    meant = f" Did you mean `{_MEANT[keyword]}`?" if keyword in _MEANT else did_you_mean(keyword, KEYWORDS)
    return f"unknown keyword `{keyword[:64]}`.{meant or ' Remove it.'}"


def meant_type(given: object) -> str:
    """Return ` Did you mean `string`?` for the first unknown type of those given, or nothing if none is near."""
    names = cast("Sequence[object]", given) if isinstance(given, list | tuple) else (given,)
    name = next((each for each in names if isinstance(each, str) and each not in TYPES), "")
    return f" Did you mean `{_MEANT_TYPES[name]}`?" if name in _MEANT_TYPES else did_you_mean(name, TYPES)


_OTHER: JsonObject = {"type": "object", "properties": {"other": {"type": "string"}}, "required": ["other"], "additionalProperties": False}


def answer_schema(question: TypeTerms) -> JsonObject:
    """Return the JSON Schema of an answer: of the property `answer` alone.

    Raises:
        ValueError: The question asks for a secret, which no model is ever asked for.
    """
    return or_null(question, _of_type(question.answer_type))


def or_null(question: TypeTerms, schema: JsonObject) -> JsonObject:
    """Return a schema that takes null, too, where the question may be skipped."""
    return {"anyOf": [schema, {"type": "null"}]} if question.optional else schema


def _of_type(kind: AnswerType) -> JsonObject:
    match kind:
        case BooleanType():
            return {"type": "boolean"}
        case SelectType():
            return _choice(kind)
        case MultiSelectType():
            return {"type": "array", "items": _choice(kind)}
        case TextType():
            return {"type": "string"}
        case SchemaType(schema):
            return schema
        case SecretType():
            raise ValueError("A secret is never asked of a model.")
        case _:
            assert_never(kind)


def _choice(kind: SelectType | MultiSelectType) -> JsonObject:
    values: JsonObject = {"enum": [option.value for option in kind.options]}
    return {"anyOf": [values, _OTHER]} if kind.allow_other else values
