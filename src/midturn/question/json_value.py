"""JSON values with strict equality (`true ≠ 1`, `1 == 1.0`), their validation, limits and
secrets.
"""

# No `from __future__ import annotations`: msgspec would compile each annotation of `Limits` from
# its text at every start.

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeGuard, cast

import msgspec
from msgspec import Struct

from midturn.errors import Problem

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:  # msgspec cannot decode into a recursive alias, so at run time it is Any
    Json = Any

Scalar: TypeAlias = bool | int | float | str
JsonObject: TypeAlias = Mapping[str, Json]
_Path: TypeAlias = "tuple[_Path, str | int] | None"

# maximum number of bits in an integer: the range of an IEEE double. Python does not parse much
# longer integers
LONGEST_INTEGER = 1024
# maximum number of nested values in a value; questions and answers contain far fewer. Checking a
# value of this size takes at most a tenth of a second
MOST_PARTS = 50_000
SHOWN = 60  # maximum length of a value in a message, in characters
# matches a float that may equal an integer, and text that looks like such a float
_MAYBE_INTEGRAL = re.compile(rb"\d(?:\.0(?!\d)|[eE])")
_LONE_SURROGATE = "[\ud800-\udfff]"


def canonical(value: Json) -> bytes:
    """Encode a value so that two values have the same bytes if and only if they are equal as
    JSON.
    """
    encoded = msgspec.json.encode(value, order="sorted", enc_hook=_as_dict)
    return encoded if is_canonical(encoded) else msgspec.json.encode(_plain(value), order="sorted")


def is_canonical(encoded: bytes) -> bool:
    """Return whether JSON with sorted keys is already canonical. Returns False if it may contain a
    float that equals an integer, such as `1.0`, which must be replaced.
    """
    return _MAYBE_INTEGRAL.search(encoded) is None


def json_equal(left: Json, right: Json) -> bool:
    """Compare as JSON: `true` differs from `1`, `1` equals `1.0`, and the order of keys is
    ignored.
    """
    return (
        left == right if type(left) is type(right) is str else canonical(left) == canonical(right)
    )


def overlay(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables recursively. Later tables take precedence. A value that is not a table replaces
    the earlier value.
    """
    merged: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            existing = merged.get(name)
            both = isinstance(value, Mapping) and isinstance(existing, Mapping)
            merged[name] = (
                overlay(cast("JsonObject", existing), cast("JsonObject", value)) if both else value
            )
    return merged


def pointer_to(parent: str, key: str | int) -> str:
    """Return the JSON pointer to the member `key` of `parent` (RFC 6901)."""
    return f"{parent}/{str(key).replace('~', '~0').replace('/', '~1')}"


def pointer_parts(pointer: str) -> tuple[str, ...]:
    """Return the keys of a JSON pointer, outermost first (RFC 6901)."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def shown(value: Json) -> str:
    """Return a value for a message, as JSON and truncated if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def json_problem(value: object, depth_limit: int, parts_limit: int = MOST_PARTS) -> Problem | None:
    """Return why `value` cannot be written, sent and read again as JSON, or None.

    Rejected are nesting deeper than `depth_limit` (`[]` has depth 1), more than `parts_limit`
    contained values, NaN and infinities, integers of more than 1,024 bits, lone surrogates, keys
    that are not strings, and other Python types. The traversal uses its own stack, so that deep
    values cannot cause a RecursionError, and builds a pointer only for a problem, so that long
    keys do not slow it down.
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
        open_values.extend(
            (member, (path, key), depth + 1) for key, member in reversed(list(members))
        )
    return None


_NOT_CONVERTED = (bytes, bytearray, memoryview)


def as_json(value: object) -> Any:
    """Convert a Python value to JSON. A value that cannot be represented as JSON is returned
    unchanged.

    Enum members, dataclasses, structs, dates and Pydantic models are converted, including those in
    lists and mappings. A set becomes a list. Bytes are not converted, because base64 text would
    look like ordinary text.
    """
    try:
        return msgspec.to_builtins(value, builtin_types=_NOT_CONVERTED, enc_hook=dumped)
    except (TypeError, ValueError, RecursionError):
        return value


def dumped(value: object) -> object:
    """Convert a Pydantic model to JSON, as msgspec's `enc_hook`.

    Raises:
        TypeError: `value` is not a Pydantic model.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def is_plain(value: object, depth_limit: int, parts_limit: int = MOST_PARTS) -> bool:
    """Return whether `value` is JSON that consists only of strings, booleans, null, lists, tuples
    and dicts. It may return False for other valid JSON.

    This fast check succeeds for most values.
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
    """Return a value that contains others, or None for a scalar."""
    if isinstance(item, _SCALARS):  # checked first, because checking for `Mapping` is slow
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
    """Return the problem with a value itself, ignoring nested values, or None."""
    match item:
        case None | bool() | list() | tuple():
            return None
        case str():
            return _text_problem(item)
        case int():
            return (
                None
                if item.bit_length() <= LONGEST_INTEGER
                else "the number is too large. Write it as a string."
            )
        case float():
            return (
                None
                if math.isfinite(item)
                else "NaN and infinities are not JSON. Use a finite number or null."
            )
        case Mapping():
            return next(
                filter(None, map(_key_problem, cast("Mapping[object, object]", item))), None
            )
        case _:
            return (
                f"a Python {type(item).__name__} is not JSON. Use a boolean, number, string, list,"
                " object or null."
            )


def _key_problem(key: object) -> str | None:
    return _text_problem(key) if isinstance(key, str) else "the keys of an object must be strings."


def _text_problem(text: str) -> str | None:
    return (
        "the text has a lone surrogate, which is not Unicode text. Remove it."
        if not _is_text(text)
        else None
    )


def _as_dict(value: object) -> Json:
    """Convert a mapping that is not a `dict`, as msgspec's `enc_hook`."""
    if isinstance(value, Mapping):
        return dict(cast("JsonObject", value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _plain(value: Json) -> Json:
    """Replace every integral float by the equal integer."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Json]", value)]
    return value


# JSON from other programs: values of the wrong type are treated as missing
# -------------------------------------------------------


def members(value: object) -> JsonObject:
    """Return the members of an object, or an empty mapping for other values."""
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Json]:
    """Return the items of an array, or an empty sequence for other values."""
    return cast("Sequence[Json]", value) if isinstance(value, list | tuple) else ()


def objects(value: object) -> list[JsonObject]:
    """Return the objects in an array."""
    return [members(item) for item in items(value) if isinstance(item, Mapping)]


def resolved(reference: str, root: JsonObject) -> JsonObject:
    """Return the schema in `root` that a reference points to, or an empty schema."""
    found: Json = root
    for part in pointer_parts(reference.removeprefix("#")):
        found = members(found).get(part)
    return members(found)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a JSON value is a number. Booleans are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text(value: object) -> str:
    """Return a string, or an empty string for other values."""
    return value if isinstance(value, str) else ""


class Limits(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Limits for questions, forms, turns and events.

    Args:
        question: Maximum length of a question's text and of each option, in characters.
        context: Maximum size of a question's context, in bytes.
        options: Maximum number of options in a question.
        form: Maximum number of questions in a form.
        shown: Maximum number of different questions shown to a person in one turn.
        repeats: How often a tool may ask the same question in one call.
        rejected_cycles: Maximum number of consecutive cycles (a model request and its calls) in
            which a reviewing model rejected a call. After that, only a person may answer.
        cycles: Maximum number of requests to the main model in one turn.
        seconds: Time limit of a turn in seconds, excluding the time spent waiting for people. None:
            no limit.
        tool_output: Maximum size of a tool result that is sent to the model, in bytes.
        batch: Maximum size of one batch of events, in bytes.
        json_depth: Maximum nesting depth of JSON: an answer, or the arguments of a call.
        event_line: Maximum size of one recorded event, in bytes.
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
    """Holds a secret that `repr`, `str`, formatting, pickle, copies and JSON never show. Tools read
    it with `reveal()`.

    Args:
        text: The secret.
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """Return the secret. Only the tool that asked for it should call this."""
        return self.__text

    def __repr__(self) -> str:
        return "SecretValue(hidden)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretValue) and self.__text == other.reveal()

    __hash__ = None  # type: ignore[assignment]  # a hash would reveal information about the secret

    def to_json(self) -> NoReturn:
        """Raise a TypeError, because no event, log or request may contain a secret."""
        raise TypeError("A secret cannot be written as JSON.")

    def __getstate__(self) -> NoReturn:
        raise TypeError("The state of a secret cannot be read.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret cannot be pickled, copied or sent to another process.")
