"""Checks the values that tools store for later runs of a call (`ctx.keep`): their names and sizes,
and that they do not contain a secret that was given in the call.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Final, cast

from midturn.question.json_value import Json, Limits, as_json, canonical, json_problem

_MAX_NAME: Final = 100  # maximum length of a name, in characters
_MAX_VALUE: Final = 256 * 1024  # maximum size of a value as JSON, in bytes


def checked_value(name: str, value: object, limits: Limits, hide: Callable[[str], str]) -> Json:
    """Check a value, and return a copy as JSON. `hide` replaces the secrets of the call.

    Raises:
        TypeError: The name is not a string.
        ValueError: The name or the value is not allowed. The message does not contain a secret.
    """
    if not isinstance(cast("object", name), str):
        raise TypeError(
            f"The name of a kept value must be a string, not a `{type(name).__name__}`."
        )
    if not 0 < len(name) <= _MAX_NAME or json_problem(name, limits.json_depth):
        raise ValueError(
            f"The name of a kept value must have 1 to {_MAX_NAME} characters, but it has"
            f" {len(name):,}."
        )
    given = cast("Json", as_json(value))
    if problem := json_problem(given, limits.json_depth):
        raise ValueError(
            f"The value {hide(name)!r} cannot be kept, because it is not JSON: {problem}"
        )
    encoded = canonical(given)
    most = min(_MAX_VALUE, limits.batch // 2)
    if len(encoded) > most:
        raise ValueError(
            f"The value {hide(name)!r} has {len(encoded):,} bytes as JSON; at most {most:,} can be"
            " kept. Keep less, or store the data yourself and keep its ID."
        )
    text = encoded.decode()
    if hide(text) != text or hide(name) != name:
        raise ValueError(
            f"The value {hide(name)!r} contains a secret that was given in this call. Kept values"
            " are written to the log, so leave the secret out."
        )
    return deepcopy(given)
