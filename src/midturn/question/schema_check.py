"""Validate a value against a schema, without network access and in bounded time. Reports up to
three errors, each with a JSON Pointer and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import msgspec

from midturn.errors import Problem
from midturn.question.json_value import (
    Json,
    JsonObject,
    canonical,
    is_number,
    json_equal,
    pointer_to,
    shown,
)
from midturn.question.schema import (
    SIZES,
    Nodes,
    check_schema,
    encode,
    examine,
    reference,
    subschemas,
)

if TYPE_CHECKING:
    from jsonschema_rs import ValidatorMap


# Error messages for failed keywords
# --------------------------------------------------------------------------------------------------


_Check: TypeAlias = Callable[[Any, Any], str | None]
_MAX_LISTED = 8  # maximum number of enum values in a message


_KINDS: Mapping[str, tuple[str, Callable[[Json], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "integer": ("a whole number", lambda value: is_number(value) and value == value // 1),
    "number": ("a number", is_number),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, Mapping)),
    "null": ("null", lambda value: value is None),
}


def keyword_message(keyword: str, constraint: Json, value: Json) -> str | None:
    """Return the error message if a value violates a keyword without subschemas, such as
    `minLength`. None if the value is valid or the keyword does not apply to its type.
    """
    kind, check = _CHECKS.get(keyword, _NO_CHECK)
    return check(constraint, value) if not kind or _KINDS[kind][1](value) else None


def fits_type(node: JsonObject, value: Json) -> bool:
    """Return whether a value matches the `type` of a node, if the node has one."""
    return "type" not in node or keyword_message("type", node["type"], value) is None


def _type(types: str | Sequence[str], value: Json) -> str | None:
    names = [types] if isinstance(types, str) else types
    if any(_KINDS[name][1](value) for name in names):
        return None
    return f"must be {' or '.join(_KINDS[name][0] for name in names)}, not {shown(value)}."


def _enum(values: Sequence[Json], value: Json) -> str | None:
    if any(json_equal(value, each) for each in values):
        return None
    more = f" … ({len(values)} values)" if len(values) > _MAX_LISTED else ""
    return (
        f"must be one of {', '.join(map(shown, values[:_MAX_LISTED]))}{more}, not {shown(value)}."
    )


def _const(only: Json, value: Json) -> str | None:
    return None if json_equal(only, value) else f"must be {shown(only)}, not {shown(value)}."


def _bound(holds: Callable[[float, float], bool], words: str) -> _Check:
    return lambda limit, value: (
        None if holds(value, limit) else f"must be {words} {shown(limit)}, not {shown(value)}."
    )


def _at_least_items(singular: str, plural: str) -> _Check:
    return lambda least, value: (
        None
        if len(value) >= least
        else f"must have at least {_counted(least, singular, plural)}, not {len(value)}."
    )


def _at_most_items(singular: str, plural: str) -> _Check:
    return lambda most, value: (
        None
        if len(value) <= most
        else f"must have at most {_counted(most, singular, plural)}, not {len(value)}."
    )


def _counted(count: float, singular: str, plural: str) -> str:
    return f"{int(count)} {singular if count == 1 else plural}"


def _unique(wanted: bool, value: Sequence[Json]) -> str | None:  # noqa: FBT001 (the value of the keyword)
    return (
        "the items must be unique."
        if wanted and len({canonical(item) for item in value}) < len(value)
        else None
    )


def _required(names: Sequence[str], value: JsonObject) -> str | None:
    missing = [f"`{name}`" for name in names if name not in value]
    if not missing:
        return None
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing."


def _dependent_required(names: Mapping[str, Sequence[str]], value: JsonObject) -> str | None:
    return next(
        (
            f"with `{name}`, {message}"
            for name in names
            if name in value and (message := _required(names[name], value))
        ),
        None,
    )


_CHECKS: Mapping[str, tuple[str, _Check]] = {
    "type": ("", _type),
    "enum": ("", _enum),
    "const": ("", _const),
    "minimum": ("number", _bound(ge, "at least")),
    "maximum": ("number", _bound(le, "at most")),
    "exclusiveMinimum": ("number", _bound(gt, "more than")),
    "exclusiveMaximum": ("number", _bound(lt, "less than")),
    "minLength": ("string", _at_least_items("character", "characters")),
    "maxLength": ("string", _at_most_items("character", "characters")),
    "minItems": ("array", _at_least_items("item", "items")),
    "maxItems": ("array", _at_most_items("item", "items")),
    "uniqueItems": ("array", _unique),
    "minProperties": ("object", _at_least_items("property", "properties")),
    "maxProperties": ("object", _at_most_items("property", "properties")),
    "required": ("object", _required),
    "dependentRequired": ("object", _dependent_required),
}
"""Checks by keyword. Each entry contains the type of value that the keyword applies to (empty: any
type), and the check.
"""
_NO_CHECK: tuple[str, _Check] = ("", lambda _, __: None)


# Find the invalid part of a value
# --------------------------------------------------------------------------------------------------
# The validator decides quickly whether a value is valid, but its error reports need unlimited time
# and memory, because they repeat the value for every alternative. So the invalid part is found by
# validating the parts one by one.


_MAX_PROBLEMS = 3  # maximum number of problems that are reported together
_Part: TypeAlias = tuple[
    str, Json, str
]  # the pointer of the schema, the value, and the pointer of the value


class _Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...


class Validators(Protocol):
    """Validators of all subschemas. The key is `#` followed by the JSON pointer of the subschema,
    such as `#/items`.
    """

    def __getitem__(self, pointer: str, /) -> _Validator: ...


def explain(nodes: Nodes, validators: Validators, value: Json) -> tuple[Problem, ...]:
    """Return up to three reasons why a value is invalid."""
    explainer = _Explainer(nodes, validators)
    explainer.explain(("", value, ""))
    return tuple(explainer.problems[:_MAX_PROBLEMS])


class _Explainer:
    def __init__(self, nodes: Nodes, validators: Validators) -> None:
        self._nodes = nodes
        self._validators = validators
        self.problems: list[Problem] = []
        self._noted = 0

    def explain(self, part: _Part) -> None:
        """Record the reasons why a part is invalid."""
        pointer, value, where = part
        node = self._nodes[pointer]
        before = self._noted
        if isinstance(node, bool):
            self._note(where, f"{shown(value)} is not allowed here.")
            return
        for message in self._own_messages(pointer, node, value):
            self._note(where, message)
        for inner in (
            *_inside(part, node),
            *self._conditional(part, node),
            *self._only_alternative(part, node),
        ):
            if len(self.problems) >= _MAX_PROBLEMS:
                return
            if not self._is_valid(inner):
                self.explain(inner)
        if self._noted == before:
            self._note(where, f"{shown(value)} does not match {_unexplained(node)}.")

    def _note(self, where: str, message: str) -> None:
        self._noted += 1
        if (where, message) not in self.problems:
            self.problems.append(Problem(where, message))

    def _is_valid(self, part: _Part) -> bool:
        return self._validators[f"#{part[0]}"].is_valid(part[1])

    def _own_messages(self, pointer: str, node: JsonObject, value: Json) -> Iterator[str]:
        """Yield the reasons why the value is invalid under this node itself, without reasons in
        subschemas.
        """
        for keyword, constraint in node.items():
            message = keyword_message(keyword, constraint, value)
            if message is not None:
                yield message
        yield from self._alternatives_failed(pointer, node, value)
        if "not" in node and self._is_valid((f"{pointer}/not", value, "")):
            yield f"{shown(value)} is excluded by the schema."
        if "contains" in node and isinstance(value, list | tuple):
            found = sum(
                self._is_valid((f"{pointer}/contains", item, ""))
                for item in cast("Sequence[Json]", value)
            )
            least, most = node.get("minContains", 1), node.get("maxContains", found)
            if not cast("float", least) <= found <= cast("float", most):
                yield f"{found} items match `contains`; required: at least {least}{_at_most(node)}."

    def _alternatives_failed(self, pointer: str, node: JsonObject, value: Json) -> Iterator[str]:
        for keyword in ("anyOf", "oneOf"):
            fitting = sum(
                self._is_valid(part) for part in _alternatives((pointer, value, ""), node, keyword)
            )
            if (
                keyword in node
                and fitting == 0
                and self._likely((pointer, value, ""), node, keyword) is None
            ):
                yield f"{shown(value)} matches none of the alternatives."
            if keyword == "oneOf" and fitting > 1:
                yield f"{shown(value)} matches {fitting} alternatives; exactly one is allowed."

    def _likely(self, part: _Part, node: JsonObject, keyword: str) -> _Part | None:
        """Return the alternative that accepts the type of the value, or None if there is not
        exactly one.
        """
        likely = [
            each for each in _alternatives(part, node, keyword) if self._is_for(each[0], part[1])
        ]
        return likely[0] if len(likely) == 1 else None

    def _only_alternative(self, part: _Part, node: JsonObject) -> Iterator[_Part]:
        """Yield the alternative that was probably meant, if none matches."""
        for keyword in ("anyOf", "oneOf"):
            likely = self._likely(part, node, keyword)
            if likely is not None and not any(
                self._is_valid(each) for each in _alternatives(part, node, keyword)
            ):
                yield likely

    def _is_for(self, pointer: str, value: Json) -> bool:
        node = self._nodes[pointer]
        if isinstance(node, bool):
            return node
        target = reference(node)
        return fits_type(node, value) and (target is None or self._is_for(target, value))

    def _conditional(self, part: _Part, node: JsonObject) -> Iterator[_Part]:
        pointer, value, where = part
        if "if" in node:
            branch = "then" if self._is_valid((f"{pointer}/if", value, where)) else "else"
            if branch in node:
                yield (f"{pointer}/{branch}", value, where)


def _unexplained(node: JsonObject) -> str:
    """Return a list of the keywords without an error message of their own, with their values, as
    text.
    """
    named = [
        f"`{keyword}` {shown(node[keyword])}"
        for keyword in ("format", "pattern", "multipleOf")
        if keyword in node
    ]
    return " or ".join(named) or "the schema"


def _at_most(node: JsonObject) -> str:
    return f", at most {node['maxContains']}" if "maxContains" in node else ""


def _alternatives(part: _Part, node: JsonObject, keyword: str) -> list[_Part]:
    pointer, value, where = part
    return [
        (f"{pointer}/{keyword}/{place}", value, where)
        for place in range(len(cast("Sequence[Json]", node.get(keyword, ()))))
    ]


def _inside(part: _Part, node: JsonObject) -> Iterator[_Part]:
    """Yield the parts that must all be valid: the same value under other schemas, and the values
    inside it.
    """
    _, value, where = part
    target = reference(node)
    if target is not None:
        yield (target, value, where)
    yield from _alternatives(part, node, "allOf")
    if isinstance(value, Mapping):
        yield from _members(part, node)
    elif isinstance(value, list | tuple):
        yield from _items(part, node)


def _members(part: _Part, node: JsonObject) -> Iterator[_Part]:
    pointer, value, where = part
    members = cast("JsonObject", value)
    properties = cast("JsonObject", node.get("properties", {}))
    for name, item in members.items():
        if name in properties:
            yield (pointer_to(f"{pointer}/properties", name), item, pointer_to(where, name))
        elif "additionalProperties" in node:
            yield (f"{pointer}/additionalProperties", item, pointer_to(where, name))
    for name in cast("JsonObject", node.get("dependentSchemas", {})):
        if name in members:
            yield (pointer_to(f"{pointer}/dependentSchemas", name), value, where)


def _items(part: _Part, node: JsonObject) -> Iterator[_Part]:
    pointer, value, where = part
    listed = len(cast("Sequence[Json]", node.get("prefixItems", ())))
    for place, item in enumerate(cast("Sequence[Json]", value)):
        if place < listed:
            yield (f"{pointer}/prefixItems/{place}", item, pointer_to(where, place))
        elif "items" in node:
            yield (f"{pointer}/items", item, pointer_to(where, place))


TOO_LARGE = "the answer is too large to be checked against its schema. Make it smaller."
_MAX_COMPARISONS = 400_000  # maximum per validation; they take a tenth of a second
# maximum number of comparisons for a value whose invalid part is searched for: the search takes up
# to eight times as long as the validation
_MAX_EXPLAINED_COMPARISONS = 100_000
# maximum of (KiB of compiled patterns) x (bytes of text) per validation; it takes a tenth of a
# second
_MAX_MATCHING_COST = 1_200_000
_FAST_INTEGER_BITS = 64  # maximum number of bits of an integer that is compared quickly
# maximum number of integers above 64 bits in a value: they are compared digit by digit, and
# `uniqueItems` compares all pairs
_MAX_BIG_INTEGERS = 200
# number of bytes of text that count as one comparison, because comparing them takes as long
_BYTES_PER_COMPARISON = 32


def validate(schema: Json, value: Json) -> tuple[Problem, ...]:
    """Return up to three reasons why `value` is invalid under `schema`, each with a JSON pointer
    into the value.

    The schema is checked first. If the schema is outside the supported subset, every value is
    rejected for this reason. `format` is only checked next to `"type": "string"`; otherwise it is
    an annotation, as JSON Schema 2020-12 defines. Takes at most 250 ms: a value that is too large
    for its schema is rejected.
    """
    encoded = encode(schema)
    problems = (encoded,) if isinstance(encoded, Problem) else examine(encoded).problems
    if isinstance(encoded, Problem) or problems:
        where = problems[0]
        return (
            Problem(
                "", f"the question's schema cannot be used: {where.pointer or '/'}: {where.message}"
            ),
        )
    return _validate_encoded(encoded, value)


def foreign_schema_problems(schema: Json, value: Json) -> tuple[Problem, ...]:
    """Return why `value` is invalid under a schema from another program. Empty if `value` is valid,
    or if the schema is outside the supported subset.
    """
    return () if check_schema(schema) else validate(schema, value)


def _validate_encoded(encoded: bytes, value: Json) -> tuple[Problem, ...]:
    examined = examine(encoded)
    size = _Size(value)
    comparisons = examined.cost.comparisons * (size.parts + size.text // _BYTES_PER_COMPARISON)
    if size.enormous > _MAX_BIG_INTEGERS:
        return (
            Problem(
                "",
                f"more than {_MAX_BIG_INTEGERS} numbers have more than 64 bits. Use smaller"
                " numbers, or strings.",
            ),
        )
    if comparisons > _MAX_COMPARISONS or examined.cost.patterns * size.text > _MAX_MATCHING_COST:
        return (Problem("", TOO_LARGE),)
    validators = _compiled(encoded)
    if validators["#"].is_valid(value):
        return ()
    if comparisons > _MAX_EXPLAINED_COMPARISONS:
        return (
            Problem("", "the answer does not match its schema. It is too large to find the place."),
        )
    return explain(examined.nodes, validators, value)


class _Size:
    """The number of parts, bytes of text and big integers in a value."""

    def __init__(self, value: Json) -> None:
        self.parts = 0
        self.text = 0
        self.enormous = 0
        self._add(value)

    def _add(self, value: Json) -> None:
        self.parts += 1
        if isinstance(value, str):
            self.text += len(value.encode())
        elif isinstance(
            value, int
        ):  # checked before containers, because checking for a protocol is slow
            self.enormous += value.bit_length() > _FAST_INTEGER_BITS
        elif isinstance(value, (dict, Mapping)):
            for key, item in value.items():
                self.text += len(key.encode())
                self._add(item)
        elif isinstance(value, (list, Sequence)):
            for item in value:
                self._add(item)


@lru_cache(maxsize=32)
def _compiled(encoded: bytes) -> ValidatorMap:
    """Compile a supported schema, with a validator for each subschema."""
    import jsonschema_rs

    largest = SIZES[-1] * 1024
    return jsonschema_rs.validator_map_for(
        cast("dict[str, Any]", _asserting(msgspec.json.decode(encoded))),
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=largest, dfa_size_limit=largest),
        offline=True,
    )


def _asserting(node: Json) -> Json:
    """Remove every `format` that is not next to a `type` with `string`. Modifies the schema."""
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        types = members.get("type", "")
        if "string" not in (types if isinstance(types, list) else [types]):
            members.pop("format", None)
        for _, inner in subschemas(members):
            _asserting(inner)
    return node
