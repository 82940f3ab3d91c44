"""Checking one value against its key; every refusal says what is allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from midturn.config.nodes import Leaf, ValueKind
from midturn.config.tree import Origin
from midturn.core.json_value import Json

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_MAX_DEPTH = 128
_SCRIPTED = "scripted:"


class WrongValue(Exception):  # noqa: N818 (it says what was expected, and is caught where the place is known)
    """`expected` finishes the sentence "expected …"."""

    def __init__(self, expected: str) -> None:
        self.expected = expected
        super().__init__(expected)


def checked(value: Any, leaf: Leaf, origin: Origin) -> Json:
    """Return `value` as it is kept for the key `leaf`.

    Raises:
        WrongValue: It is of another type, or not one of what is allowed.
    """
    if leaf.allowed:
        return _one_of(value, leaf)
    if leaf.kind == "model":
        return _model(_string(value, leaf), origin)
    return _CHECKS[leaf.kind](value, leaf)


def _one_of(value: Any, leaf: Leaf) -> str:
    named = leaf.aliases.get(value, value) if isinstance(value, str) else value
    if named not in leaf.allowed:
        raise WrongValue(one_of(leaf.allowed))
    return cast("str", named)


def one_of(allowed: tuple[str, ...]) -> str:
    """Write the choices as a sentence does: `"a"`, `"b"` or `"c"`."""
    quoted = [f'"{choice}"' for choice in allowed]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def _string(value: Any, _: Leaf, what: str = "a string") -> str:
    if not isinstance(value, str):
        raise WrongValue(what)
    if "\0" in value or not _is_unicode(value):
        raise WrongValue(f"{what} of UTF-8 text without NUL characters")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _boolean(value: Any, _: Leaf) -> bool:
    if not isinstance(value, bool):
        raise WrongValue("true or false")
    return value


def _integer(value: Any, leaf: Leaf) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongValue("a whole number" + _bounds(leaf))
    return cast("int", _bounded(value, leaf, "a whole number"))


def _number(value: Any, leaf: Leaf) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not _is_finite(value):
        raise WrongValue("a number" + _bounds(leaf))
    return _bounded(value, leaf, "a number")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float can hold
        return False


def _bounded(value: float, leaf: Leaf, what: str) -> float:
    if (leaf.least is not None and value < leaf.least) or (leaf.most is not None and value > leaf.most):
        raise WrongValue(what + _bounds(leaf))
    return value


def _bounds(leaf: Leaf) -> str:
    least = f" of at least {leaf.least:g}" if leaf.least is not None else ""
    return least + (f" and at most {leaf.most:g}" if leaf.most is not None else "")


def _seconds(value: Any, _: Leaf) -> float:
    expected = 'seconds (a number above 0), or a duration such as "90s" or "2m"'
    if isinstance(value, str) and (match := re.fullmatch(_DURATION, value)):
        value = float(match[1]) * _UNITS[match[2]]
    if not isinstance(value, int | float) or isinstance(value, bool) or not (_is_finite(value) and value > 0):
        raise WrongValue(expected)
    return float(value)


def _argv(value: Any, leaf: Leaf) -> str | list[str]:
    expected = 'a command: a list such as ["git", "status"], or a string'
    if isinstance(value, str) and value.strip():
        return _string(value, leaf, expected)
    words = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    if not words or words[0] == "":
        raise WrongValue(expected)
    return [_string(word, leaf, expected) for word in words]


def _model(name: str, origin: Origin) -> str:
    """A script is found from where its name was written; the first base that has it wins."""
    if not name.strip():
        raise WrongValue('a model such as "anthropic/claude-haiku-4-5"')
    if not name.startswith(_SCRIPTED):
        return name
    file = Path(name.removeprefix(_SCRIPTED))
    candidates = [Path(base) / file for base in origin.bases] or [file]
    return _SCRIPTED + str(next((path for path in candidates if path.exists()), candidates[0]))


def _cache(value: Any, _: Leaf) -> str:
    if not isinstance(value, str) or not (value in {"off", "short", "long"} or re.fullmatch(_DURATION, value)):
        raise WrongValue('"off", "short", "long", or a duration such as "5m"')
    return value


def _variable(value: Any, leaf: Leaf) -> str | bool:
    expected = "a string, true (pass our own value on) or false (do not)"
    return value if isinstance(value, bool) else _string(value, leaf, expected)


def _paths(value: Any, leaf: Leaf) -> list[str]:
    expected = 'a list of paths, such as ["~/.cache/tool"]'
    given = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    return [_string(path, leaf, expected) for path in given]


def _json_type(value: Any, leaf: Leaf) -> str | list[str]:
    if isinstance(value, list) and value:
        return [cast("str", _json_type(item, leaf)) for item in cast("list[Any]", value)]
    if value not in _JSON_TYPES:
        raise WrongValue(one_of(_JSON_TYPES))
    return cast("str", value)


def _required(value: Any, leaf: Leaf) -> bool | list[str]:
    if isinstance(value, list):
        return [_string(name, leaf, "the names of required properties") for name in cast("list[Any]", value)]
    return _boolean(value, leaf)


def _json(value: Any, leaf: Leaf, depth: int = 0) -> Json:
    if depth > _MAX_DEPTH:
        raise WrongValue(f"JSON that is nested at most {_MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {_string(name, leaf): _json(item, leaf, depth + 1) for name, item in items}
    if isinstance(value, list):
        return [_json(item, leaf, depth + 1) for item in cast("list[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value, leaf)
    return _string(value, leaf, "JSON (write dates and times as strings)")


_CHECKS: dict[ValueKind, Callable[[Any, Leaf], Json]] = {
    "string": _string,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "seconds": _seconds,
    "argv": _argv,
    "cache": _cache,
    "variable": _variable,
    "paths": _paths,
    "json_type": _json_type,
    "required": _required,
    "json": _json,
}
