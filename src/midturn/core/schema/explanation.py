"""Finding out where a value breaks its schema.

A validator says quickly whether a value is valid; its own reports cost time and memory without bound (they repeat the value in every
branch). So the way down is found by asking it about one part after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from midturn.core.json_value import Json, JsonObject, pointer_to, shown
from midturn.core.schema.messages import fits_type, keyword_message
from midturn.core.schema.nodes import Nodes, reference
from midturn.errors import Problem

_MOST = 3  # errors that a person or a model is shown at once
_Part: TypeAlias = tuple[str, Json, str]  # the schema's pointer, the value that it judges, where that value is


class _Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...


class Validators(Protocol):
    """A validator for each schema, by its pointer behind a `#`."""

    def __getitem__(self, pointer: str, /) -> _Validator: ...


def explain(nodes: Nodes, validators: Validators, value: Json) -> tuple[Problem, ...]:
    """Return up to three reasons why an invalid value is invalid."""
    explainer = _Explainer(nodes, validators)
    explainer.explain(("", value, ""))
    return tuple(explainer.problems[:_MOST])


class _Explainer:
    def __init__(self, nodes: Nodes, validators: Validators) -> None:
        self._nodes = nodes
        self._validators = validators
        self.problems: list[Problem] = []
        self._noted = 0

    def explain(self, part: _Part) -> None:
        """Note why the value of an invalid part is invalid."""
        pointer, value, where = part
        node = self._nodes[pointer]
        before = self._noted
        if isinstance(node, bool):
            self._note(where, f"{shown(value)} is not allowed here.")
            return
        for message in self._own_messages(pointer, node, value):
            self._note(where, message)
        for inner in (*_inside(part, node), *self._conditional(part, node), *self._only_alternative(part, node)):
            if len(self.problems) >= _MOST:
                return
            if not self._is_valid(inner):
                self.explain(inner)
        if self._noted == before:
            self._note(where, f"{shown(value)} does not fit {_unexplained(node)}.")

    def _note(self, where: str, message: str) -> None:
        self._noted += 1
        if (where, message) not in self.problems:
            self.problems.append(Problem(where, message))

    def _is_valid(self, part: _Part) -> bool:
        return self._validators[f"#{part[0]}"].is_valid(part[1])

    def _own_messages(self, pointer: str, node: JsonObject, value: Json) -> Iterator[str]:
        """Yield what this node itself says against the value."""
        for keyword, constraint in node.items():
            message = keyword_message(keyword, constraint, value)
            if message is not None:
                yield message
        yield from self._alternatives_failed(pointer, node, value)
        if "not" in node and self._is_valid((f"{pointer}/not", value, "")):
            yield f"{shown(value)} is ruled out by the schema."
        if "contains" in node and isinstance(value, list | tuple):
            found = sum(self._is_valid((f"{pointer}/contains", item, "")) for item in cast("Sequence[Json]", value))
            least, most = node.get("minContains", 1), node.get("maxContains", found)
            if not cast("float", least) <= found <= cast("float", most):
                yield f"items of the kind that `contains` counts: {found}; at least {least}{_at_most(node)} must be there."

    def _alternatives_failed(self, pointer: str, node: JsonObject, value: Json) -> Iterator[str]:
        for keyword in ("anyOf", "oneOf"):
            fitting = sum(self._is_valid(part) for part in _alternatives((pointer, value, ""), node, keyword))
            if keyword in node and fitting == 0 and self._likely((pointer, value, ""), node, keyword) is None:
                yield f"{shown(value)} fits none of the alternatives."
            if keyword == "oneOf" and fitting > 1:
                yield f"{shown(value)} fits {fitting} alternatives; exactly one is allowed."

    def _likely(self, part: _Part, node: JsonObject, keyword: str) -> _Part | None:
        """Return the one alternative that is for values of this type, or None."""
        likely = [each for each in _alternatives(part, node, keyword) if self._is_for(each[0], part[1])]
        return likely[0] if len(likely) == 1 else None

    def _only_alternative(self, part: _Part, node: JsonObject) -> Iterator[_Part]:
        """Yield the alternative that was probably meant, where none fits."""
        for keyword in ("anyOf", "oneOf"):
            likely = self._likely(part, node, keyword)
            if likely is not None and not any(self._is_valid(each) for each in _alternatives(part, node, keyword)):
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
    """Name the keywords that only the validator judges."""
    named = [f"`{keyword}` {shown(node[keyword])}" for keyword in ("format", "pattern", "multipleOf") if keyword in node]
    return " or ".join(named) or "the schema"


def _at_most(node: JsonObject) -> str:
    return f", at most {node['maxContains']}" if "maxContains" in node else ""


def _alternatives(part: _Part, node: JsonObject, keyword: str) -> list[_Part]:
    pointer, value, where = part
    return [(f"{pointer}/{keyword}/{place}", value, where) for place in range(len(cast("Sequence[Json]", node.get(keyword, ()))))]


def _inside(part: _Part, node: JsonObject) -> Iterator[_Part]:
    """Yield the parts that must all be valid: the same value under other schemas, and what is inside the value."""
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
