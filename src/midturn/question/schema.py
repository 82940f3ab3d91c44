"""Check that a JSON Schema is in the supported subset (docs/reference/questions.md): keywords,
patterns, references and cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from midturn.errors import Problem
from midturn.question.answer_schema import (
    DEFINITIONS,
    ONE_SCHEMA,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    keyword_problem,
    keyword_refusal,
)
from midturn.question.json_value import Json, JsonObject, json_problem, pointer_to

# Subschemas by their JSON pointers
# --------------------------------------------------------------------------------------------------


SchemaNode: TypeAlias = Mapping[str, Json] | bool
Nodes: TypeAlias = Mapping[str, SchemaNode]


def subschemas(node: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield the direct subschemas of a node, with their relative pointers. The subschemas may be
    invalid.
    """
    for keyword, value in node.items():
        if keyword in ONE_SCHEMA:
            yield f"/{keyword}", value
        elif keyword in SCHEMA_LISTS and isinstance(value, list | tuple):
            for place, item in enumerate(cast("Sequence[Json]", value)):
                yield f"/{keyword}/{place}", item
        elif keyword in SCHEMA_MAPS and isinstance(value, Mapping):
            for name, item in value.items():
                yield pointer_to(f"/{keyword}", name), item


def applied(pointer: str, node: SchemaNode) -> Iterator[str]:
    """Yield the pointers of the subschemas that apply whenever this node applies. Definitions are
    not included.
    """
    if isinstance(node, bool):
        return
    for step, _ in subschemas(node):
        if step.split("/", 2)[1] not in DEFINITIONS:
            yield pointer + step


def reference(node: SchemaNode) -> str | None:
    """Return the pointer that a node refers to, or None. Only local references count."""
    found = None if isinstance(node, bool) else node.get("$ref")
    if not isinstance(found, str) or not found.startswith("#"):
        return None
    if "%" not in found:
        return found[1:]

    return unquote(found[1:])


# Patterns, which are matched in linear time
# --------------------------------------------------------------------------------------------------


SIZES = (
    1,
    4,
    16,
    64,
    512,
    # size limits in KiB with which a pattern is compiled, to measure it; patterns above the last limit
    # are too slow
)


@lru_cache(maxsize=512)
def pattern_size(pattern: str) -> int | None:
    """Return the size of a compiled pattern in KiB. None if it is too large, or not supported by a
    linear-time engine.

    Matching takes at most about 0.1 µs per KiB of pattern and byte of text.
    """
    import jsonschema_rs  # imported here because most programs do not check schemas

    for size in SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=size * 1024, dfa_size_limit=size * 1024)
        try:
            jsonschema_rs.Draft202012Validator(
                {"pattern": pattern}, pattern_options=options, offline=True
            )
        except jsonschema_rs.ValidationError:
            continue
        return size
    return None


# Check the references in a schema: they must be local and must not form a cycle
# --------------------------------------------------------------------------------------------------


MOST_EXPANDED = 1_000
_LISTS = ("enum", "required", "type")
# cost of slow keywords, as a multiple of a simple one
_SLOW = {"multipleOf": 80, "uniqueItems": 5, "format": 5, "dependentRequired": 20}


class Cost(NamedTuple):
    """The cost of checking one value: the number of applied schemas, the number of comparisons, and
    the total size in KiB of the patterns that are matched against its text.
    """

    nodes: int
    comparisons: int
    patterns: int

    def plus(self, other: Cost) -> Cost:
        """Return the sum of both costs."""
        return Cost(
            self.nodes + other.nodes,
            self.comparisons + other.comparisons,
            self.patterns + other.patterns,
        )


def reference_problems(nodes: Nodes) -> list[Problem]:
    """Return the problems with the references: a target that is not local or does not exist, or a
    cycle.
    """
    problems = [
        problem
        for pointer, node in nodes.items()
        if (problem := _problem(pointer, node, nodes)) is not None
    ]
    if problems:
        return problems
    cycle_start = _cycle(nodes)
    if cycle_start is None:
        return []
    return [
        Problem(
            f"{cycle_start}/$ref",
            "the reference is recursive. A prompt shows every level of an answer, so recursive"
            " types are not allowed. Write out each level.",
        )
    ]


def expanded_cost(nodes: Nodes) -> Cost:
    """Return the total cost of a schema without cycles, with every reference expanded."""
    costs: dict[str, Cost] = {}

    def cost_of(pointer: str) -> Cost:
        if pointer not in costs:
            node = nodes[pointer]
            total = _own_cost(node)
            for part in _parts(pointer, node):
                total = total.plus(cost_of(part))
            costs[pointer] = total
        return costs[pointer]

    return cost_of("")


def _problem(pointer: str, node: SchemaNode, nodes: Nodes) -> Problem | None:
    if isinstance(node, bool) or "$ref" not in node:
        return None
    target = reference(node)
    if target is None or (target and not target.startswith("/")):
        return Problem(
            f"{pointer}/$ref",
            "a reference must be local, such as `#/$defs/<name>`. Remote schemas are not fetched.",
        )
    if target not in nodes:
        return Problem(
            f"{pointer}/$ref", "the reference does not point to a schema. Define it under `$defs`."
        )
    return None


def _cycle(nodes: Nodes) -> str | None:
    """Return a node whose reference closes a cycle, or None."""
    done: set[str] = set()
    path: set[str] = set()

    def find_cycle(pointer: str) -> str | None:
        if pointer in done:
            return None
        path.add(pointer)
        for part in _parts(pointer, nodes[pointer]):
            found = pointer if part in path else find_cycle(part)
            if found is not None:
                return found
        path.discard(pointer)
        done.add(pointer)
        return None

    return next((found for pointer in nodes if (found := find_cycle(pointer)) is not None), None)


def _parts(pointer: str, node: SchemaNode) -> list[str]:
    """Return the schemas that apply together with this node: its subschemas, and the schema that it
    refers to.
    """
    target = reference(node)
    return [*applied(pointer, node), *([] if target is None else [target])]


def _own_cost(node: SchemaNode) -> Cost:
    if isinstance(node, bool):
        return Cost(1, 1, 0)
    lists = sum(
        len(cast("Sequence[Json]", node[keyword]))
        for keyword in _LISTS
        if isinstance(node.get(keyword), list | tuple)
    )
    slow = sum(cost for keyword, cost in _SLOW.items() if keyword in node)
    pattern = node.get("pattern")
    return Cost(1, 1 + lists + slow, pattern_size(pattern) or 0 if isinstance(pattern, str) else 0)


LARGEST = 16 * 1024  # maximum size of a schema as compact JSON, in bytes
MOST_NODES = 200  # maximum number of subschemas in a schema
DEEPEST = 8  # maximum nesting depth of schemas, including the outermost one
MOST_PROPERTIES = 100
MOST_PATTERNS = 1_024  # maximum total size of all different compiled patterns, in KiB
_DEEPEST_JSON = 64
_UNSUPPORTED_PATTERN = (
    "`pattern` cannot be matched in linear time, or is too large. "
    "Remove lookaround and backreferences, and use `maxLength` instead of long repetitions."
)
_INVALID_PATTERN = "`pattern` is not a regular expression: {}."
# maximum length of a pattern for which the syntax error is reported, in characters
_MAX_EXPLAINED_LENGTH = 1_000
_MAX_REPORTED = 20


class Examined(Struct, frozen=True):
    """The result of checking a schema: its problems, its nodes, and the cost of checking a
    value.
    """

    problems: tuple[Problem, ...]
    nodes: Nodes
    cost: Cost = Cost(0, 0, 0)


def check_schema(schema: Json) -> tuple[Problem, ...]:
    """Return the problems with a schema, each with a JSON Pointer. Empty if the schema is
    supported.

    Takes at most 250 ms for any input, and does not access the network.
    """
    encoded = encode(schema)
    return examine(encoded).problems if isinstance(encoded, bytes) else (encoded,)


def keyword_problems(keyword: str, value: Json) -> tuple[Problem, ...]:
    """Return the problems with a keyword and with the schemas in its value. Pointers start with the
    keyword.

    References are not checked, because they depend on the whole schema. Use `check_schema` for
    that.
    """
    schema: JsonObject = {keyword: value}
    encoded = encode(schema)
    if isinstance(encoded, Problem):
        return (encoded,)
    walk = _Walk(schema)
    return tuple((walk.problems or _pattern_problems(walk.nodes))[:_MAX_REPORTED])


def encode(schema: Json) -> bytes | Problem:
    """Return the compact JSON of a schema, or a problem if it is too large, too deep or not
    JSON.
    """
    problem = json_problem(schema, _DEEPEST_JSON, LARGEST)
    if problem is not None:
        return problem
    encoded = msgspec.json.encode(schema)
    if len(encoded) > LARGEST:
        return Problem(
            "", f"the schema has {len(encoded):,} bytes; the limit is {LARGEST:,}. Simplify it."
        )
    return encoded


@lru_cache(maxsize=128)
def examine(encoded: bytes) -> Examined:
    """Check a schema that `encode` returned. `encode` limits the size."""
    walk = _Walk(msgspec.json.decode(encoded))
    problems = walk.problems or reference_problems(walk.nodes) or _pattern_problems(walk.nodes)
    if problems:
        return Examined(tuple(problems[:_MAX_REPORTED]), walk.nodes)
    cost = expanded_cost(walk.nodes)
    if cost.nodes > MOST_EXPANDED:
        message = (
            f"the schema has {cost.nodes:,} subschemas with all references expanded; the limit is"
            f" {MOST_EXPANDED:,}. Simplify it."
        )
        return Examined((Problem("", message),), walk.nodes)
    return Examined((), walk.nodes, cost)


def _pattern_problems(nodes: Nodes) -> list[Problem]:
    """Return a problem for the first pattern that is not supported or exceeds the size limit.
    Later patterns are not checked, because compiling patterns is slow.
    """
    sizes: dict[str, int] = {}
    for pointer, node in nodes.items():
        pattern = None if isinstance(node, bool) else node.get("pattern")
        if not isinstance(pattern, str):
            continue
        size = pattern_size(pattern)
        if size is None:
            mistake = _mistake(pattern)
            return [
                Problem(
                    f"{pointer}/pattern",
                    _INVALID_PATTERN.format(mistake) if mistake else _UNSUPPORTED_PATTERN,
                )
            ]
        sizes[pattern] = size
        if sum(sizes.values()) > MOST_PATTERNS:
            return [
                Problem(
                    f"{pointer}/pattern",
                    "the patterns together are too large. Use fewer patterns or shorter"
                    " repetitions.",
                )
            ]
    return []


def _mistake(pattern: str) -> str:
    """Return the syntax error in a pattern that does not compile, or an empty string if there is a
    different problem.
    """
    if len(pattern) > _MAX_EXPLAINED_LENGTH:
        return ""
    as_python_writes = (
        pattern.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
    )
    try:
        re.compile(re.sub(r"\\k<(\w+)>", r"(?P=\1)", as_python_writes))
    except re.error as error:
        return (
            error.msg
            if error.pos is None or as_python_writes != pattern
            else f"{error.msg}, at character {error.pos + 1}"
        )
    except (RecursionError, OverflowError):
        return ""
    return ""


class _Walk:
    """Traverses a schema once and collects its nodes and problems."""

    def __init__(self, schema: Json) -> None:
        self.problems: list[Problem] = []
        self.nodes: dict[str, SchemaNode] = {}
        self._properties = 0
        if isinstance(schema, Mapping):
            self._visit("", schema, 1)
        else:
            self._refuse("", "the schema must be an object.")
        if len(self.nodes) > MOST_NODES:
            self._refuse(
                "",
                f"the schema has {len(self.nodes)} subschemas; the limit is {MOST_NODES}."
                " Simplify it.",
            )
        if self._properties > MOST_PROPERTIES:
            self._refuse(
                "",
                f"the schema has {self._properties} properties; the limit is {MOST_PROPERTIES}."
                " Simplify it.",
            )

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
            self._refuse(
                pointer,
                f"schemas are nested deeper than {DEEPEST}. Flatten the schema, or use `$defs` and"
                " `$ref`.",
            )
            return
        self.nodes[pointer] = node
        self._keywords(pointer, node)
        for step, inner in subschemas(node):
            self._visit(pointer + step, inner, depth + 1)

    def _keywords(self, pointer: str, node: JsonObject) -> None:
        for keyword, value in node.items():
            if len(self.problems) >= _MAX_REPORTED:
                break
            problem = keyword_refusal(keyword) or keyword_problem(keyword, value)
            if problem is not None:
                self._refuse(pointer_to(pointer, keyword), problem)
        properties = node.get("properties")
        self._properties += len(properties) if isinstance(properties, Mapping) else 0
