"""Read JSON written by hand or by a model, with errors that give the line and column, and write
compact JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from midturn.question.json_value import Json

# quick check: JSON without a match does not contain a lone surrogate
_SURROGATE = r"\\u[dD][89a-fA-F]|[\ud800-\udfff]"


class NotJson(ValueError):  # noqa: N818 (the name describes the text)
    """The text is not JSON. `offset` is the index of the invalid character, or None if it is
    unknown.
    """

    def __init__(self, message: str, offset: int | None = None) -> None:
        self.offset = offset
        super().__init__(message)


def read_json(text: str) -> Json:
    """Read JSON strictly: no repeated keys, `NaN`, overflowing numbers or lone surrogates.

    Raises:
        NotJson: The text is not JSON. The message contains the reason, line and column.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
        if re.search(_SURROGATE, text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise NotJson(
            f"not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})", error.pos
        ) from None
    except UnicodeEncodeError:
        raise NotJson("not valid JSON: half of a surrogate pair") from None
    except RecursionError:
        raise NotJson("not accepted: nested too deeply") from None
    except NotJson:
        raise
    except ValueError:
        raise NotJson("not accepted: a number with too many digits") from None
    return cast("Json", value)


def compact(value: Json) -> str:
    """Return JSON in one line."""
    return json.dumps(value, ensure_ascii=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise NotJson(f"the key {compact(twice)} appears twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON; use a number or null")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotJson(f"{digits} is too large for a number")
    return number


# JSON from other programs, which may be malformed
# --------------------------------------------------------------------------------------------------


def read_loosely(content: bytes) -> object:
    """Read JSON leniently: invalid characters are replaced and constants such as NaN become
    strings. None if the content is not JSON.
    """
    try:
        return _as_text(json.loads(content.decode("utf-8", "replace"), parse_constant=str))
    except (ValueError, RecursionError):
        return None


def _as_text(value: object) -> object:
    """Replace lone surrogates, which JavaScript can write but stores cannot save."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_as_text(item) for item in cast("list[Any]", value)]
        case dict():
            return {
                _as_text(name): _as_text(item)
                for name, item in cast("Mapping[str, Any]", value).items()
            }
        case _:
            return value
