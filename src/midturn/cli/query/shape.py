"""`--schema`: the shape of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import click
import msgspec

from midturn.core.json_value import Json, JsonObject


def read_schema(given: str | None) -> JsonObject | None:
    """Read a JSON Schema: the JSON itself, or a file that holds it.

    Raises:
        click.UsageError: It cannot be read, is not a JSON object, or is outside the subset that is understood.
    """
    if given is None:
        return None
    text, origin = (given, "--schema") if given.lstrip().startswith("{") else (_file(given), f"--schema {given}")
    try:
        schema = cast("Json", msgspec.json.decode(text))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{origin}: not valid JSON: {error}") from error
    if not isinstance(schema, Mapping):
        raise click.UsageError(f"{origin}: a JSON Schema is an object.")
    _check(cast("JsonObject", schema), origin)
    return cast("JsonObject", schema)


def _file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"--schema {name}: cannot be read: {error.strerror}.") from error


def _check(schema: JsonObject, origin: str) -> None:
    from midturn.core.schema import check_schema  # heavy, and most queries have no schema

    problems = check_schema(schema)
    if problems:
        raise click.UsageError("\n".join([f"{origin}: this schema cannot be used.", *map(str, problems)]))
