"""Values as TOML writes them: what `config` prints can be pasted into a file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from midturn.config.tree import KeyPath, dotted
from midturn.core.json_value import Json

_INDENT = "  "
_GOES_ON = "\\"


def assignments(table: Mapping[str, Json], path: KeyPath = ()) -> Iterator[tuple[str, str]]:
    """Yield each value below `table` as its dotted key and its TOML; an empty table is a value of its own."""
    for name, value in table.items():
        at = (*path, name)
        if isinstance(value, Mapping) and value:
            yield from assignments(cast("Mapping[str, Json]", value), at)
        else:
            yield dotted(at), toml(value)


def assignment(key: str, value: str, width: int | None) -> list[str]:
    """Write a value so that no word of it is broken in `width` cells: a list one item a row, a text as one of many rows. It stays TOML."""
    whole = f"{key} = {value}"
    if width is None or len(whole) <= width:
        return [whole]
    if value.startswith("[") and value != "[]":
        items = cast("list[Json]", tomllib.loads(f"x = {value}")["x"])
        return [f"{key} = [", *(f"{_INDENT}{toml(one)}," for one in items), "]"]
    if value.startswith('"') and " " in value and not value.startswith('" '):  # spaces at the beginning of a row do not count
        return [f'{key} = """\\', *_filled(value[1:-1], width - len(_INDENT) - len(_GOES_ON))]
    return [whole]


def _filled(text: str, room: int) -> Iterator[str]:
    """Break between words; what stands before the backslash at the end of a row is kept, and what the next row begins with is not."""
    row = ""
    for word in re.findall(r"[^ ]+ *", text):
        if row and len(row) + len(word) > room:
            yield f"{_INDENT}{row}\\"
            row = ""
        row += word
    yield f'{_INDENT}{row}"""'


def toml(value: Json) -> str:
    """Write one value on one line."""
    match value:
        case Mapping():
            table = cast("Mapping[str, Json]", value)
            return "{ " + ", ".join(f"{dotted((key,))} = {toml(one)}" for key, one in table.items()) + " }" if table else "{}"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML wants that one escaped, too
        case Sequence():
            return f"[{', '.join(map(toml, cast('Sequence[Json]', value)))}]"
        case _:
            return json.dumps(value)
