"""JSON Schemas of answers for models, and the supported JSON Schema keywords.

A schema does not depend on the text of the question, so that providers can cache it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, assert_never, cast

from midturn.question.answer_type import (
    AnswerType,
    BooleanType,
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectType,
    TextType,
    TypeTerms,
)
from midturn.question.json_value import Json, JsonObject, is_number
from midturn.question.text import did_you_mean

# --------------------------------------------------------------------------------------------------
# The supported keywords of JSON Schema 2020-12, and the allowed values of each keyword


DIALECT = "https://json-schema.org/draft/2020-12/schema"
LONGEST_PATTERN = 256
MOST_VALUES = 200  # maximum number of values in an enum
TYPES = ("string", "boolean", "integer", "number", "array", "object", "null")
FORMATS = (
    *(
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "idn-email",
        "hostname",
        "idn-hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
    ),
    *(
        "iri",
        "iri-reference",
        "uuid",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
        "regex",
    ),
)

REFUSED: Mapping[str, str] = {
    "$id": "schemas have no id here",
    "$anchor": "refer to parts of a schema by JSON pointer",
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
_ValueCheck: TypeAlias = Callable[
    [Json], str | None
]  # returns a description of the valid values, or None


def _string(value: Json) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def _flag(value: Json) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _number(value: Json) -> str | None:
    if not is_number(value):
        return "must be a number"
    return (
        "must be a number of at most 64 bits"
        if isinstance(value, int) and value.bit_length() > 64  # noqa: PLR2004
        else None
    )


def _positive(value: Json) -> str | None:
    return _number(value) or (None if cast("float", value) > 0 else "must be more than 0")


def _count(value: Json) -> str | None:
    whole = (
        _number(value) is None
        and float(cast("float", value)).is_integer()
        and cast("float", value) >= 0
    )
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
    known = (
        bool(names)
        and all(isinstance(name, str) and name in TYPES for name in names)
        and len(set(names)) == len(names)
    )
    return None if known else f"must be one of {', '.join(TYPES)}, or an array of different ones"


def _format(value: Json) -> str | None:
    return (
        None
        if isinstance(value, str) and value in FORMATS
        else f"must be one of {', '.join(FORMATS)}"
    )


def _pattern(value: Json) -> str | None:
    if not isinstance(value, str):
        return "must be a string"
    return (
        None if len(value) <= LONGEST_PATTERN else f"must have at most {LONGEST_PATTERN} characters"
    )


def _dialect(value: Json) -> str | None:
    return (
        None
        if value in (DIALECT, f"{DIALECT}#")
        else f"must be {DIALECT}; other dialects are not supported"
    )


def _anything(_: Json) -> None:
    return None


def _schema(value: Json) -> str | None:
    return (
        None if isinstance(value, bool | Mapping) else "must be a schema: an object, true or false"
    )


def _schemas(value: Json) -> str | None:
    return (
        None
        if isinstance(value, list | tuple) and value
        else "must be an array of at least one schema"
    )


def _schemas_by_name(value: Json) -> str | None:
    return None if isinstance(value, Mapping) else "must be an object of schemas"


_SHAPES: Mapping[_ValueCheck, str] = {
    _schema: " ".join(ONE_SCHEMA),
    _schemas: " ".join(SCHEMA_LISTS),
    _schemas_by_name: " ".join(SCHEMA_MAPS),
    _count: (
        "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains"
    ),
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
KEYWORDS: Mapping[str, _ValueCheck] = {
    keyword: judge for judge, keywords in _SHAPES.items() for keyword in keywords.split()
}


def keyword_problem(keyword: str, value: Json) -> str | None:
    """Return why the value of a supported keyword is invalid, or None."""
    wrong = KEYWORDS[keyword](value)
    if not wrong:
        return None
    advice = meant_type(value) if keyword == "type" else ""
    return f"`{keyword}` {wrong}.{advice}"


_KEYWORD_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("summary", "help", "doc", "text"), "description"),
    **dict.fromkeys(("choices", "options", "values", "allowed"), "enum"),
    "min": "minimum",
    "max": "maximum",
    "regex": "pattern",
    "optional": "required",
    "kind": "type",
}
"""Names that other libraries use for a keyword, mapped to the keyword."""
_TYPE_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("list", "tuple"), "array"),
    **dict.fromkeys(("dict", "map", "table"), "object"),
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "none": "null",
}


def keyword_refusal(keyword: str) -> str | None:
    """Return why a keyword is not supported, with a suggestion, or None if it is supported."""
    if keyword in KEYWORDS:
        return None
    if keyword in REFUSED:
        return f"`{keyword}` is not allowed: {REFUSED[keyword]}."
    meant = (
        f" Did you mean `{_KEYWORD_ALIASES[keyword]}`?"
        if keyword in _KEYWORD_ALIASES
        else did_you_mean(keyword, KEYWORDS)
    )
    return f"unknown keyword `{keyword[:64]}`.{meant or ' Remove it.'}"


def meant_type(given: object) -> str:
    """Return ` Did you mean …?` for the first unknown type name, or an empty string if no known
    type name is similar.
    """
    names = cast("Sequence[object]", given) if isinstance(given, list | tuple) else (given,)
    name = next((each for each in names if isinstance(each, str) and each not in TYPES), "")
    return (
        f" Did you mean `{_TYPE_ALIASES[name]}`?"
        if name in _TYPE_ALIASES
        else did_you_mean(name, TYPES)
    )


OTHER: JsonObject = {
    "type": "object",
    "properties": {"other": {"type": "string"}},
    "required": ["other"],
    "additionalProperties": False,
}


def answer_schema(question: TypeTerms) -> JsonObject:
    """Return the JSON Schema of the property `answer`.

    Raises:
        ValueError: The question asks for a secret. Models are never asked for secrets.
    """
    return or_null(question, _of_type(question.answer_type))


def rooted(node: JsonObject, root: str, unchanged: tuple[str, ...] = ()) -> JsonObject:
    """Copy a schema for use at the location `root` in another schema, such as `#/properties/q`.

    Local references inside the copy are adjusted, except references that start with one of
    `unchanged`.
    """

    def keyword_at(keyword: str, value: Json) -> Json:
        if keyword == "$ref" and isinstance(value, str) and value.startswith("#"):
            return value if value.startswith(unchanged) else f"{root}{value[1:]}"
        if keyword in ONE_SCHEMA:
            return schema_at(value)
        if keyword in SCHEMA_LISTS:
            return [schema_at(item) for item in cast("Sequence[Json]", value)]
        if keyword in SCHEMA_MAPS:
            return {name: schema_at(item) for name, item in cast("JsonObject", value).items()}
        return value

    def schema_at(value: Json) -> Json:
        return rooted(value, root, unchanged) if isinstance(value, Mapping) else value

    return {keyword: keyword_at(keyword, value) for keyword, value in node.items()}


def or_null(question: TypeTerms, schema: JsonObject) -> JsonObject:
    """Allow null in a schema if the question may be skipped."""
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
            raise ValueError("A model cannot be asked for a secret.")
        case _:
            assert_never(kind)


def _choice(kind: SelectType | MultiSelectType) -> JsonObject:
    values: JsonObject = {"enum": [option.value for option in kind.options]}
    return {"anyOf": [values, OTHER]} if kind.allow_other else values
