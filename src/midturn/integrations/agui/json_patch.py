"""Applies JSON Patch (RFC 6902), the format in which agents send changes to their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Final, TypeAlias

import msgspec

from midturn.question.json_value import Json, JsonObject, json_equal, members, pointer_parts

_MAX_COPIED_BYTES: Final = 4 * 1024 * 1024
_Container: TypeAlias = "dict[str, Json] | list[Json]"


class InvalidPatch(ValueError):  # noqa: N818  named for the fault of the agent
    """A patch cannot be applied."""


class PatchedDocument:
    """A document to which patches are applied.

    Args:
        value: The document. It is changed in place.
    """

    def __init__(self, value: Json) -> None:
        self.value = value
        self._budget = _MAX_COPIED_BYTES

    def apply(self, operations: Sequence[Json]) -> None:
        """Apply all operations of a patch.

        Raises:
            InvalidPatch: An operation is invalid, or its path does not exist.
        """
        for operation in operations:
            self.value = self._applied(members(operation))

    def _applied(self, operation: JsonObject) -> Json:
        document, path = self.value, _parts(operation, "path")
        match operation.get("op"):
            case "add":
                document = _added(document, path, _value(operation))
            case "remove":
                document = _removed(document, path)
            case "replace":
                document = _added(_removed(document, path), path, _value(operation))
            case "move":
                source = _parts(operation, "from")
                moved = _found(document, source)
                document = _added(_removed(document, source), path, moved)
            case "copy":
                copied = self._limited(_found(document, _parts(operation, "from")))
                document = _added(document, path, deepcopy(copied))
            case "test":
                found = self._limited(_found(document, path))
                if not json_equal(found, _value(operation)):
                    raise InvalidPatch(f"the test at {_shown(path)} fails")
            case other:
                raise InvalidPatch(f"there is no operation {other!r:.40}")
        return document

    def _limited(self, value: Json) -> Json:
        """Return the value, and check the total size of copied and tested values. Without a limit,
        repeated copies would grow exponentially.
        """
        self._budget -= len(msgspec.json.encode(value))
        if self._budget < 0:
            raise InvalidPatch(f"it copies and tests more than {_MAX_COPIED_BYTES:,} bytes")
        return value


def _value(operation: Mapping[str, Json]) -> Json:
    if "value" not in operation:
        raise InvalidPatch("an operation has no `value`")
    return operation["value"]


def _parts(operation: Mapping[str, Json], name: str) -> list[str]:
    pointer = operation.get(name)
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise InvalidPatch(f"`{name}` is not a JSON pointer: {pointer!r:.100}")
    return [*pointer_parts(pointer)]


def _found(document: Json, path: Sequence[str]) -> Json:
    found = document
    for part in path:
        match found:
            case dict() if part in found:
                found = found[part]
            case list():
                found = found[_index(part, len(found) - 1, path)]
            case _:
                raise InvalidPatch(f"there is nothing at {_shown(path)}")
    return found


def _parent(document: Json, path: Sequence[str]) -> _Container:
    parent = _found(document, path[:-1])
    if not isinstance(parent, dict | list):
        raise InvalidPatch(f"there is no object and no array above {_shown(path)}")
    return parent


def _added(document: Json, path: Sequence[str], value: Json) -> Json:
    if not path:
        return value
    match _parent(document, path):
        case dict() as parent:
            parent[path[-1]] = value
        case parent:
            last = path[-1]
            place = len(parent) if last == "-" else _index(last, len(parent), path)
            parent.insert(place, value)
    return document


def _removed(document: Json, path: Sequence[str]) -> Json:
    if not path:
        return None
    match _parent(document, path):
        case dict() as parent if path[-1] in parent:
            del parent[path[-1]]
        case list() as parent:
            del parent[_index(path[-1], len(parent) - 1, path)]
        case _:
            raise InvalidPatch(f"there is nothing at {_shown(path)}")
    return document


def _index(part: str, last: int, path: Sequence[str]) -> int:
    is_number = part.isascii() and part.isdecimal() and (part == "0" or part[0] != "0")
    if not is_number or len(part) > len(str(last)) or int(part) > last:
        raise InvalidPatch(f"there is no element {part[:40]!r} at {_shown(path)}")
    return int(part)


def _shown(path: Sequence[str]) -> str:
    return f"`/{'/'.join(path)[:100]}`"
