"""Check that a schema stays in the closed subset of docs/questions.md (keywords, patterns, references, cost), before any validator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from midturn.errors import Problem
from midturn.question.answer_schema import DEFINITIONS, ONE_SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS, keyword_problem, keyword_refusal
from midturn.question.json_value import Json, JsonObject, json_problem, pointer_to

# Subschemas, each named by its JSON pointer ---------------------------------------------------------------------------


SchemaNode: TypeAlias = Mapping[str, Json] | bool
Nodes: TypeAlias = Mapping[str, SchemaNode]


def subschemas(node: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield what should be a schema inside a node, each with its pointer from there."""
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
    """Yield the pointers of the schemas that judge a value whenever this node does; definitions do not."""
    if isinstance(node, bool):
        return
    for step, _ in subschemas(node):
        if step.split("/", 2)[1] not in DEFINITIONS:
            yield pointer + step


def reference(node: SchemaNode) -> str | None:
    """Return the pointer to which a node refers, or None; only a local reference is one (see `references`)."""
    found = None if isinstance(node, bool) else node.get("$ref")
    if not isinstance(found, str) or not found.startswith("#"):
        return None
    if "%" not in found:
        return found[1:]

    return unquote(found[1:])


# Patterns, matched in linear time on any text -------------------------------------------------------------------------


SIZES = (1, 4, 16, 64, 512)  # kilobytes of the compiled pattern; what is larger takes too long to run


@lru_cache(maxsize=512)
def pattern_size(pattern: str) -> int | None:
    """Return how large a pattern is when compiled, in kilobytes, or None where it is too large, or none for a linear-time engine.

    Matching takes at most about a tenth of a microsecond for each of these kilobytes and each byte of text.
    """
    import jsonschema_rs  # here and in `schema_check` alone: most programs check no schema

    for size in SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=size * 1024, dfa_size_limit=size * 1024)
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options, offline=True)
        except jsonschema_rs.ValidationError:
            continue
        return size
    return None


# References inside a schema: local, without cycles, counted -----------------------------------------------------------


MOST_EXPANDED = 1_000
_LISTS = ("enum", "required", "type")
_SLOW = {"multipleOf": 80, "uniqueItems": 5, "format": 5, "dependentRequired": 20}  # how many plain keywords they cost


class Cost(NamedTuple):
    """The cost of checking one value: the schemas applied, the comparisons made, the kilobytes of patterns run over its text."""

    nodes: int
    comparisons: int
    patterns: int

    def plus(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(self.nodes + other.nodes, self.comparisons + other.comparisons, self.patterns + other.patterns)


def reference_problems(nodes: Nodes) -> list[Problem]:
    """Return what is wrong with the references: not local, leading nowhere, or around in a circle."""
    problems = [problem for pointer, node in nodes.items() if (problem := _problem(pointer, node, nodes)) is not None]
    if problems:
        return problems
    around = _cycle(nodes)
    if around is None:
        return []
    return [
        Problem(
            f"{around}/$ref",
            "the reference leads back to itself. A prompt shows every level of an answer, so recursive types are not allowed; "
            "write the levels out.",
        )
    ]


def expanded_cost(nodes: Nodes) -> Cost:
    """Return what the whole schema costs with every reference written out; it has no cycles."""
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
        return Problem(f"{pointer}/$ref", "a reference must be local: `#/$defs/<name>`. Nothing is ever fetched.")
    if target not in nodes:
        return Problem(f"{pointer}/$ref", "the reference leads to no schema. Name one under `$defs`.")
    return None


def _cycle(nodes: Nodes) -> str | None:
    """Return a node whose reference closes a circle, or None."""
    done: set[str] = set()
    path: set[str] = set()

    def closes(pointer: str) -> str | None:
        if pointer in done:
            return None
        path.add(pointer)
        for part in _parts(pointer, nodes[pointer]):
            found = pointer if part in path else closes(part)
            if found is not None:
                return found
        path.discard(pointer)
        done.add(pointer)
        return None

    return next((found for pointer in nodes if (found := closes(pointer)) is not None), None)


def _parts(pointer: str, node: SchemaNode) -> list[str]:
    """List the schemas that judge with this node: those inside it, and the one to which it refers."""
    target = reference(node)
    return [*applied(pointer, node), *([] if target is None else [target])]


def _own_cost(node: SchemaNode) -> Cost:
    if isinstance(node, bool):
        return Cost(1, 1, 0)
    lists = sum(len(cast("Sequence[Json]", node[keyword])) for keyword in _LISTS if isinstance(node.get(keyword), list | tuple))
    slow = sum(cost for keyword, cost in _SLOW.items() if keyword in node)
    pattern = node.get("pattern")
    return Cost(1, 1 + lists + slow, pattern_size(pattern) or 0 if isinstance(pattern, str) else 0)


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
_NO_PATTERN = "`pattern` is not a regular expression: {}."
_MOST_EXPLAINED = 1_000  # characters of a pattern whose mistake is looked for
_MOST_REPORTED = 20


class Examined(Struct, frozen=True):
    """Findings about a schema: its problems, its nodes, and the cost of checking a value."""

    problems: tuple[Problem, ...]
    nodes: Nodes
    cost: Cost = Cost(0, 0, 0)


def check_schema(schema: Json) -> tuple[Problem, ...]:
    """Return every rule of the subset that a schema breaks, each with a JSON pointer; nothing where it may be used.

    Whatever is given is judged within 250 ms, and nothing is fetched.
    """
    encoded = encode(schema)
    return examine(encoded).problems if isinstance(encoded, bytes) else (encoded,)


def keyword_problems(keyword: str, value: Json) -> tuple[Problem, ...]:
    """Return what is wrong with one keyword of a schema, and with the schemas in its value; the pointers begin with the keyword.

    References are not followed: they concern the whole schema, which `check_schema` judges.
    """
    schema: JsonObject = {keyword: value}
    encoded = encode(schema)
    if isinstance(encoded, Problem):
        return (encoded,)
    walk = _Walk(schema)
    return tuple((walk.problems or _pattern_problems(walk.nodes))[:_MOST_REPORTED])


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
            mistake = _mistake(pattern)
            return [Problem(f"{pointer}/pattern", _NO_PATTERN.format(mistake) if mistake else _NOT_LINEAR)]
        sizes[pattern] = size
        if sum(sizes.values()) > MOST_PATTERNS:
            return [Problem(f"{pointer}/pattern", "the patterns are too large together. Use fewer, or shorter repetitions.")]
    return []


def _mistake(pattern: str) -> str:
    """Return what is wrong in the syntax of a pattern that does not compile; empty where it is another reason."""
    if len(pattern) > _MOST_EXPLAINED:
        return ""
    as_python_writes = pattern.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
    try:
        re.compile(re.sub(r"\\k<(\w+)>", r"(?P=\1)", as_python_writes))
    except re.error as error:
        return error.msg if error.pos is None or as_python_writes != pattern else f"{error.msg}, at character {error.pos + 1}"
    except (RecursionError, OverflowError):
        return ""
    return ""


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
            if len(self.problems) >= _MOST_REPORTED:
                break
            problem = keyword_refusal(keyword) or keyword_problem(keyword, value)
            if problem is not None:
                self._refuse(pointer_to(pointer, keyword), problem)
        properties = node.get("properties")
        self._properties += len(properties) if isinstance(properties, Mapping) else 0
