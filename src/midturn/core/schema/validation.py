"""Checking a value against a schema: offline, in bounded time, with at most a few errors that say where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from midturn.core.json_value import Json
from midturn.core.schema.explanation import explain
from midturn.core.schema.nodes import subschemas
from midturn.core.schema.patterns import SIZES
from midturn.core.schema.subset import encode, examine
from midturn.errors import Problem

if TYPE_CHECKING:
    from jsonschema_rs import ValidatorMap

TOO_LARGE = "the answer is too large to be checked against its schema. Make it smaller."
_MOST_COMPARED = 400_000  # comparisons that fit into a tenth of a second
_MOST_EXPLAINED = 100_000  # finding out where takes up to eight times as long as finding out whether
_MOST_MATCHED = 1_200_000  # kilobytes of pattern times bytes of text that fit into a tenth of a second
_BITS = 64
_MOST_ENORMOUS = 200  # integers of more bits are compared digit by digit, and `uniqueItems` compares each with each
_BYTES_A_PART = 32  # comparing that much text takes as long as looking at another value


def validate(schema: Json, value: Json) -> tuple[Problem, ...]:
    """Return why `value` is not valid under `schema`: the first three reasons, each with a JSON pointer into the value.

    The schema is examined first; one that breaks a rule of the closed subset has no valid values, and the reason says so.
    Beside `"type": "string"` a `format` is checked; alone it is the annotation that JSON Schema 2020-12 makes of it.
    Whatever is given is decided within 250 ms: a value that is too large for its schema is refused for that.
    """
    encoded = encode(schema)
    problems = (encoded,) if isinstance(encoded, Problem) else examine(encoded).problems
    if isinstance(encoded, Problem) or problems:
        where = problems[0]
        return (Problem("", f"the question's schema cannot be used: {where.pointer or 'it'}: {where.message}"),)
    return _judge(encoded, value)


def _judge(encoded: bytes, value: Json) -> tuple[Problem, ...]:
    examined = examine(encoded)
    size = _Size(value)
    comparisons = examined.cost.comparisons * (size.parts + size.text // _BYTES_A_PART)
    if size.enormous > _MOST_ENORMOUS:
        return (Problem("", f"more than {_MOST_ENORMOUS} numbers have over 64 bits. Use smaller ones, or strings."),)
    if comparisons > _MOST_COMPARED or examined.cost.patterns * size.text > _MOST_MATCHED:
        return (Problem("", TOO_LARGE),)
    validators = _compiled(encoded)
    if validators["#"].is_valid(value):
        return ()
    if comparisons > _MOST_EXPLAINED:
        return (Problem("", "the answer does not fit its schema; it is too large to say where."),)
    return explain(examined.nodes, validators, value)


class _Size:
    """How much there is to look at."""

    def __init__(self, value: Json) -> None:
        self.parts = 0
        self.text = 0
        self.enormous = 0
        self._add(value)

    def _add(self, value: Json) -> None:
        self.parts += 1
        if isinstance(value, str):
            self.text += len(value.encode())
        elif isinstance(value, int):  # before what may contain others: most values are small, and looking for protocols takes long
            self.enormous += value.bit_length() > _BITS
        elif isinstance(value, (dict, Mapping)):
            for key, item in value.items():
                self.text += len(key.encode())
                self._add(item)
        elif isinstance(value, (list, Sequence)):
            for item in value:
                self._add(item)


@lru_cache(maxsize=32)
def _compiled(encoded: bytes) -> ValidatorMap:
    """Compile a schema of the subset, and each schema in it."""
    import jsonschema_rs  # a heavy import, for questions that have a schema only

    largest = SIZES[-1] * 1024
    return jsonschema_rs.validator_map_for(
        cast("dict[str, Any]", _asserting(msgspec.json.decode(encoded))),
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=largest, dfa_size_limit=largest),
        offline=True,
    )


def _asserting(node: Json) -> Json:
    """Leave out each `format` that does not stand beside a `type` that is or has `string` (a schema of its own: it is changed)."""
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        types = members.get("type", "")
        if "string" not in (types if isinstance(types, list) else [types]):
            members.pop("format", None)
        for _, inner in subschemas(members):
            _asserting(inner)
    return node
