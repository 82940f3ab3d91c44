"""Checking that a schema stays in the closed subset of docs/questions.md, before any validator sees it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from midturn.core.json_value import Json, JsonObject, json_problem, pointer_to
from midturn.core.schema.keywords import KEYWORDS, REFUSED, keyword_problem
from midturn.core.schema.nodes import Nodes, SchemaNode, subschemas
from midturn.core.schema.patterns import pattern_size
from midturn.core.schema.references import MOST_EXPANDED, Cost, expanded_cost, reference_problems
from midturn.core.suggestion import did_you_mean
from midturn.errors import Problem

LARGEST = 16 * 1024  # bytes of compact JSON
MOST_NODES = 200  # schemas inside one another
DEEPEST = 8  # schemas inside one another, the whole one being the first
MOST_PROPERTIES = 100
MOST_PATTERNS = 1_024  # kilobytes of all different patterns when compiled
_DEEPEST_JSON = 64
_NOT_LINEAR = (
    "`pattern` cannot be matched in linear time, or is too large. "
    "Use no look-around or back-reference, and `maxLength` in place of long repetitions."
)
_MOST_REPORTED = 20


class Examined(Struct, frozen=True):
    """What is known about a schema: what is wrong with it, its nodes, and what it costs to check a value."""

    problems: tuple[Problem, ...]
    nodes: Nodes
    cost: Cost = Cost(0, 0, 0)


def check_schema(schema: Json) -> tuple[Problem, ...]:
    """Return every rule of the subset that a schema breaks, each with a JSON pointer; nothing where it may be used.

    Whatever is given is judged within 250 ms, and nothing is fetched.
    """
    encoded = encode(schema)
    return examine(encoded).problems if isinstance(encoded, bytes) else (encoded,)


def encode(schema: Json) -> bytes | Problem:
    """Return the compact JSON of a schema, or why it cannot be one: too large, too deep, not JSON."""
    problem = json_problem(schema, _DEEPEST_JSON, LARGEST)
    if problem is not None:
        return problem
    encoded = msgspec.json.encode(schema)
    if len(encoded) > LARGEST:
        return Problem("", f"the schema has {len(encoded):,} bytes; {LARGEST:,} are allowed. Simplify it.")
    return encoded


@lru_cache(maxsize=128)
def examine(encoded: bytes) -> Examined:
    """Examine a schema that is small enough to be looked at."""
    walk = _Walk(msgspec.json.decode(encoded))
    problems = walk.problems or reference_problems(walk.nodes) or _pattern_problems(walk.nodes)
    if problems:
        return Examined(tuple(problems[:_MOST_REPORTED]), walk.nodes)
    cost = expanded_cost(walk.nodes)
    if cost.nodes > MOST_EXPANDED:
        message = f"the schema has {cost.nodes:,} schemas with its references written out; {MOST_EXPANDED:,} are allowed. Simplify it."
        return Examined((Problem("", message),), walk.nodes)
    return Examined((), walk.nodes, cost)


def _pattern_problems(nodes: Nodes) -> list[Problem]:
    """Refuse what cannot be matched in linear time, or takes too much memory; one is enough, for compiling them takes time."""
    sizes: dict[str, int] = {}
    for pointer, node in nodes.items():
        pattern = None if isinstance(node, bool) else node.get("pattern")
        if not isinstance(pattern, str):
            continue
        size = pattern_size(pattern)
        if size is None:
            return [Problem(f"{pointer}/pattern", _NOT_LINEAR)]
        sizes[pattern] = size
        if sum(sizes.values()) > MOST_PATTERNS:
            return [Problem(f"{pointer}/pattern", "the patterns are too large together. Use fewer, or shorter repetitions.")]
    return []


class _Walk:
    """Goes through a schema once, and notes its nodes and what is wrong with them."""

    def __init__(self, schema: Json) -> None:
        self.problems: list[Problem] = []
        self.nodes: dict[str, SchemaNode] = {}
        self._properties = 0
        if isinstance(schema, Mapping):
            self._visit("", schema, 1)
        else:
            self._refuse("", "the schema must be an object.")
        if len(self.nodes) > MOST_NODES:
            self._refuse("", f"the schema has {len(self.nodes)} schemas inside one another; {MOST_NODES} are allowed. Simplify it.")
        if self._properties > MOST_PROPERTIES:
            self._refuse("", f"the schema has {self._properties} properties; {MOST_PROPERTIES} are allowed. Simplify it.")

    def _refuse(self, pointer: str, message: str) -> None:
        self.problems.append(Problem(pointer, message))

    def _visit(self, pointer: str, node: Json, depth: int) -> None:
        if isinstance(node, bool):
            self.nodes[pointer] = node
            return
        if not isinstance(node, Mapping):
            self._refuse(pointer, "must be a schema: an object, true or false.")
            return
        if depth > DEEPEST:
            self._refuse(pointer, f"schemas are nested deeper than {DEEPEST}. Flatten the schema, or use `$defs` and `$ref`.")
            return
        self.nodes[pointer] = node
        self._keywords(pointer, node)
        for step, inner in subschemas(node):
            self._visit(pointer + step, inner, depth + 1)

    def _keywords(self, pointer: str, node: JsonObject) -> None:
        for keyword, value in node.items():
            if keyword in KEYWORDS:
                problem = keyword_problem(keyword, value)
                if problem is not None:
                    self._refuse(pointer_to(pointer, keyword), problem)
            elif keyword in REFUSED:
                self._refuse(pointer_to(pointer, keyword), f"`{keyword}` is not allowed: {REFUSED[keyword]}.")
            else:
                near = did_you_mean(keyword, KEYWORDS) if len(self.problems) < _MOST_REPORTED else ""
                self._refuse(pointer_to(pointer, keyword), f"unknown keyword `{keyword[:64]}`.{near or ' Remove it.'}")
        properties = node.get("properties")
        self._properties += len(properties) if isinstance(properties, Mapping) else 0
