"""Values as TOML writes them: what `config` prints can be pasted into a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from midturn.config.tree import KeyPath, dotted
from midturn.core.json_value import Json


def assignments(table: Mapping[str, Json], path: KeyPath = ()) -> Iterator[tuple[str, str]]:
    """Yield each value below `table` as its dotted key and its TOML; an empty table is a value of its own."""
    for name, value in table.items():
        at = (*path, name)
        if isinstance(value, Mapping) and value:
            yield from assignments(cast("Mapping[str, Json]", value), at)
        else:
            yield dotted(at), toml(value)


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
