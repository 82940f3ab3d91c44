"""The schemas inside a schema, each named by its JSON pointer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from midturn.core.json_value import Json, pointer_to
from midturn.core.schema.keywords import DEFINITIONS, ONE_SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS

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
    from urllib.parse import unquote  # hardly ever needed

    return unquote(found[1:])
