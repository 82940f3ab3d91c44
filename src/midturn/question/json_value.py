"""Plain values: JSON with strict equality (`true ≠ 1`, `1 == 1.0`), and how such values from outside are looked at; limits; secrets."""

# Without `from __future__ import annotations`: msgspec reads `Limits`, and would compile each annotation from text at every start.

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeGuard, cast

import msgspec
from msgspec import Struct

from midturn.errors import Problem

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:  # msgspec cannot decode into a recursive alias: at run time any decoded value is one
    Json = Any

Scalar: TypeAlias = bool | int | float | str
JsonObject: TypeAlias = Mapping[str, Json]
_Path: TypeAlias = "tuple[_Path, str | int] | None"

LONGEST_INTEGER = 1024  # bits: what an IEEE double reaches, and far below the digits at which Python refuses to read a number
MOST_PARTS = 50_000  # values inside one another: far more than any question or answer needs, and judged within a tenth of a second
SHOWN = 60  # characters of a value in a message
_MAYBE_INTEGRAL = re.compile(rb"\d(?:\.0(?!\d)|[eE])")  # a float that may equal an integer, or a text that looks like one
_LONE_SURROGATE = "[\ud800-\udfff]"


def canonical(value: Json) -> bytes:
    """Encode `value` so that two values have the same bytes exactly when they are equal JSON."""
    encoded = msgspec.json.encode(value, order="sorted", enc_hook=_as_dict)
    return encoded if is_canonical(encoded) else msgspec.json.encode(_plain(value), order="sorted")


def is_canonical(encoded: bytes) -> bool:
    """Whether JSON with sorted keys surely has no float that equals an integer: such a one would be written as that."""
    return _MAYBE_INTEGRAL.search(encoded) is None


def json_equal(left: Json, right: Json) -> bool:
    """Compare as JSON: `true` is not `1`, `1` is `1.0`, the order of keys does not count."""
    return left == right if type(left) is type(right) is str else canonical(left) == canonical(right)


def overlay(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Lay tables over each other, field by field, the lowest first; what is not a table replaces what is below it."""
    merged: dict[str, Any] = {}
    for table in tables:
        for name, above in table.items():
            below = merged.get(name)
            both = isinstance(above, Mapping) and isinstance(below, Mapping)
            merged[name] = overlay(cast("JsonObject", below), cast("JsonObject", above)) if both else above
    return merged


def pointer_to(parent: str, key: str | int) -> str:
    """Return the JSON pointer of the member `key` of what `parent` points to (RFC 6901)."""
    return f"{parent}/{str(key).replace('~', '~0').replace('/', '~1')}"


def pointer_parts(pointer: str) -> tuple[str, ...]:
    """Return the keys of a JSON pointer, outermost first (RFC 6901)."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def shown(value: Json) -> str:
    """Return a value for a message: as JSON, cut where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def json_problem(value: object, depth_limit: int, parts_limit: int = MOST_PARTS) -> Problem | None:
    """Say what keeps `value` from being JSON that can be written, sent and read again, or None.

    Refused are nesting deeper than `depth_limit` (`[]` is 1 deep), more than `parts_limit` values in one another, NaN and infinities,
    integers beyond 1,024 bits, lone surrogates, keys that are not strings, and Python values that JSON does not know. The walk keeps its
    own stack, so that depth cannot exhaust Python's, and writes no pointer before one is needed, so that long keys cost nothing.
    """
    if (isinstance(value, str) and value.isascii()) or is_plain(value, depth_limit, parts_limit):
        return None
    open_values: list[tuple[object, _Path, int]] = [(value, None, 0)]
    parts = 0
    while open_values:
        item, path, depth = open_values.pop()
        container = _as_container(item)
        parts += 0 if container is None else len(container)
        if parts > parts_limit:
            return Problem("", f"the value has more than {parts_limit:,} parts. Make it smaller.")
        problem = _own_problem(item)
        if problem is None and container is not None and depth == depth_limit:
            problem = f"the value is nested deeper than {depth_limit} levels. Flatten it."
        if problem is not None:
            return Problem(_pointer(path), problem)
        if container is None:
            continue
        members = container.items() if isinstance(container, Mapping) else enumerate(container)
        open_values.extend((member, (path, key), depth + 1) for key, member in reversed(list(members)))
    return None


_NO_JSON = (bytes, bytearray, memoryview)


def as_json(value: object) -> Any:
    """Return the JSON of a Python value that has one; any other value is returned as it is.

    Enum members, dataclasses, structs, dates and Pydantic models have one, also inside lists and mappings; a set is a list. Bytes have
    none: as base64 they would be a text that nobody wrote.
    """
    try:
        return msgspec.to_builtins(value, builtin_types=_NO_JSON, enc_hook=dumped)
    except (TypeError, ValueError, RecursionError):
        return value


def dumped(value: object) -> object:
    """Return the JSON of a Pydantic model, for msgspec's `enc_hook`.

    Raises:
        TypeError: `value` is no Pydantic model.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"JSON knows no {type(value).__name__}")


def is_plain(value: object, depth_limit: int, parts_limit: int = MOST_PARTS) -> bool:
    """Whether `value` surely is JSON, of the very types that JSON is read into, without numbers.

    Nearly every value is, and then no pointers into it are needed.
    """
    level: list[Any] = [value]
    for _ in range(depth_limit):
        inside: list[Any] = []
        for item, kind in zip(level, map(type, level), strict=True):
            if kind is str:
                if not (item.isascii() or _is_text(item)):
                    return False
            elif kind is dict:
                inside += item.values() if len(item) <= parts_limit else ()
                parts_limit -= len(item)
                if not (_ONLY_TEXT.issuperset(map(type, item)) and _is_text("".join(item))):
                    return False
            elif kind is list or kind is tuple:
                inside += item if len(item) <= parts_limit else ()
                parts_limit -= len(item)
            elif kind not in _SURELY_JSON:
                return False
        if not inside or parts_limit < 0:
            return parts_limit >= 0
        level = inside
    return False


_SURELY_JSON = (bool, type(None))
_ONLY_TEXT = frozenset({str})


def _is_text(text: str) -> bool:
    return text.isascii() or not re.search(_LONE_SURROGATE, text)


_SCALARS = (str, bool, int, float, type(None))


def _as_container(item: object) -> Mapping[str, object] | Sequence[object] | None:
    """Return what has something inside; None for a scalar."""
    if isinstance(item, _SCALARS):  # most values are; asking a class for `Mapping` is slow
        return None
    if isinstance(item, Mapping):
        return cast("Mapping[str, object]", item)
    return cast("Sequence[object]", item) if isinstance(item, list | tuple) else None


def _pointer(path: _Path) -> str:
    keys: list[str | int] = []
    while path is not None:
        path, key = path
        keys.append(key)
    return "".join(pointer_to("", key) for key in reversed(keys))


def _own_problem(item: object) -> str | None:
    """Judge one value without what is inside it."""
    match item:
        case None | bool() | list() | tuple():
            return None
        case str():
            return _text_problem(item)
        case int():
            return None if item.bit_length() <= LONGEST_INTEGER else "the number is too large. Write it as a string."
        case float():
            return None if math.isfinite(item) else "NaN and infinities are not JSON. Use a finite number or null."
        case Mapping():
            return next(filter(None, map(_key_problem, cast("Mapping[object, object]", item))), None)
        case _:
            return f"a Python {type(item).__name__} is not JSON. Use a boolean, number, string, list, object or null."


def _key_problem(key: object) -> str | None:
    return _text_problem(key) if isinstance(key, str) else "the keys of an object are strings."


def _text_problem(text: str) -> str | None:
    return "the text has a lone surrogate, which is not Unicode text. Remove it." if not _is_text(text) else None


def _as_dict(value: object) -> Json:
    """Return what the encoder takes for a mapping that is no `dict`."""
    if isinstance(value, Mapping):
        return dict(cast("JsonObject", value))
    raise TypeError(f"JSON knows no {type(value).__name__}")


def _plain(value: Json) -> Json:
    """Write every integral float as the integer that it equals."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Json]", value)]
    return value


# JSON from other programs: a value of the wrong kind reads as absent --------------------------------------------------


def members(value: object) -> JsonObject:
    """Return an object's members; none where it is not an object."""
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Json]:
    """Return an array's items; none where it is not an array."""
    return cast("Sequence[Json]", value) if isinstance(value, list | tuple) else ()


def objects(value: object) -> list[JsonObject]:
    """Return the objects in an array."""
    return [members(item) for item in items(value) if isinstance(item, Mapping)]


def resolved(reference: str, root: JsonObject) -> JsonObject:
    """Return the schema in `root` that a reference leads to; an empty one where it leads to none."""
    found: Json = root
    for part in pointer_parts(reference.removeprefix("#")):
        found = members(found).get(part)
    return members(found)


def is_number(value: object) -> TypeGuard[float]:
    """Say whether a JSON value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text(value: object) -> str:
    """Return a text; an empty one where it is something else."""
    return value if isinstance(value, str) else ""


class Limits(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Each field is one limit; sizes are bytes, times are seconds.

    Args:
        question: The text of a question, and each of its options, in characters.
        context: The context above it, in bytes.
        options: How many options a question may have.
        form: How many questions a form may have.
        shown: How many different questions a person may be shown in one turn.
        repeats: How often a tool may ask the same question in one call.
        rejected_cycles: After how many rounds in a row that models rejected only a person may answer.
        cycles: How many requests to the main model a turn may take.
        seconds: How long a turn may work; None: as long as it takes. Waiting for people does not count.
        tool_output: How much of the result of a tool the model reads, in bytes.
        batch: How much one batch of events may weigh, in bytes.
        json_depth: How deep JSON may be nested: an answer, the arguments of a call.
        event_line: How long one recorded event may be, in bytes.
    """

    question: int = 2_048
    context: int = 16 * 1024
    options: int = 200
    form: int = 20
    shown: int = 20
    repeats: int = 3
    rejected_cycles: int = 3
    cycles: int = 50
    seconds: float | None = None
    tool_output: int = 256 * 1024
    batch: int = 2 * 1024 * 1024
    json_depth: int = 128
    event_line: int = 16 * 1024 * 1024


DEFAULT_LIMITS = Limits()


class SecretValue:
    """Holds a secret so that `repr`, `str`, formatting, pickle, copies and JSON never show it. `reveal()` gives it to a tool.

    Args:
        text: The secret.
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """Return the secret itself: only for the tool that asked for it."""
        return self.__text

    def __repr__(self) -> str:
        return "SecretValue(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretValue) and self.__text == other.reveal()

    __hash__ = None  # type: ignore[assignment]  # a hash would be a fingerprint of the secret

    def to_json(self) -> NoReturn:
        """Refuse: no event, log or request may hold a secret."""
        raise TypeError("A secret cannot be written as JSON.")

    def __getstate__(self) -> NoReturn:
        raise TypeError("The state of a secret cannot be taken out.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret cannot be pickled, copied or sent to another process.")
