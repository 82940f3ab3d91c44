"""Whether a result fits the schema that its server gave for it. Both are the server's: nothing is fetched, and no schema takes long."""

from __future__ import annotations

from typing import cast

from mcp import types

from midturn.core.json_value import Json
from midturn.core.schema import check_schema, validate
from midturn.core.schema.validation import TOO_LARGE


def misfit(schema: object, result: types.CallToolResult) -> str | None:
    """Say what does not fit. A schema that cannot be used here, or not on so much, says nothing of a result."""
    if schema is None or result.is_error:
        return None
    if result.structured_content is None:
        return "it has no structured content, which its own schema asks for"
    wanted = cast("Json", schema)
    if check_schema(wanted):
        return None
    for problem in validate(wanted, cast("Json", result.structured_content)):
        if problem.message != TOO_LARGE:
            return f"its structured content does not fit its own schema: {problem}"
    return None


async def unchecked(name: str, result: types.CallToolResult) -> None:
    """Check nothing: what the SDK does by itself matches patterns for as long as a server likes."""
    del name, result
