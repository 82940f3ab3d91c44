"""References inside a schema: local, without cycles, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from midturn.core.json_value import Json
from midturn.core.schema.nodes import Nodes, SchemaNode, applied, reference
from midturn.core.schema.patterns import pattern_size
from midturn.errors import Problem

MOST_EXPANDED = 1_000
_LISTS = ("enum", "required", "type")
_SLOW = {"multipleOf": 80, "uniqueItems": 5, "format": 5, "dependentRequired": 20}  # how many plain keywords they cost


class Cost(NamedTuple):
    """What it takes to check one value: the schemas applied, the comparisons made, the kilobytes of patterns run over its text."""

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
    return [Problem(f"{around}/$ref", "the reference leads back to itself. Recursive schemas are not allowed; write the levels out.")]


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
