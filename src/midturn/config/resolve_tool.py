"""One tool's settings, and what its entry must not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from midturn.config.effective import TOOLS, tool_tree
from midturn.config.resolve_policy import tool_policy
from midturn.config.resolving import Resolving, declared, variables
from midturn.config.settings import ToolSettings, ToolSource
from midturn.config.tree import KeyPath, branch, plain
from midturn.core.enabling import Enable
from midturn.core.json_value import Json, JsonObject
from midturn.core.names import BUILT_IN_TOOLS


def tools(resolving: Resolving) -> dict[str, ToolSettings]:
    """Return every tool that has an entry of its own, by name. One whose command waits for approval is left out."""
    names = [name for name in branch(resolving.merged, *TOOLS) if name != "*"]
    return {name: tool(resolving, name) for name in names if _stands(resolving, name)}


def tool(resolving: Resolving, name: str) -> ToolSettings:
    """Return the settings of one tool; `'*'` gives those of every tool without an entry."""
    tree = tool_tree(resolving.merged, name)
    values = plain(tree)
    path = (*TOOLS, name)
    parameters = cast("Mapping[str, JsonObject]", values.get("parameters", {}))
    rename = cast("str | None", values.get("rename"))
    given: dict[str, Any] = {key: values[key] for key in _TAKEN_AS_THEY_ARE if key in values}
    return ToolSettings(
        **given,
        name=name,
        policy=tool_policy(rename or name, tree),
        source=_source(values),
        command=_command(resolving, values, path),
        parameters={key: _schema(definition) for key, definition in parameters.items()},
        required=tuple(key for key, definition in parameters.items() if definition.get("required") is True),
        environment=variables(values.get("environment")),
        enable=msgspec.convert(values["enable"], Enable),
        sandbox=declared(values),
    )


_TAKEN_AS_THEY_ARE = ("summary", "description", "shell", "protocol", "timeout", "cwd", "rename", "hidden", "style")


def _stands(resolving: Resolving, name: str) -> bool:
    path = (*TOOLS, name)
    values = plain(branch(resolving.merged, *path))
    if name in BUILT_IN_TOOLS:
        _check_built_in(resolving, values, path)
        return True
    source = _source(values)
    if source == "builtin":
        known = ", ".join(BUILT_IN_TOOLS)
        resolving.problem((*path, "source"), f"no built-in tool has this name, and one cannot be given another name. Built in: {known}")
    if source == "mcp" and "command" in values:
        resolving.problem((*path, "command"), "a tool of an MCP server has no command; the server has: `providers.mcp.<name>.command`")
    if "rename" in values:
        _check_rename(resolving, values, path)
    if "command" in values or source in {"builtin", "mcp"}:
        return True
    waits = resolving.is_withheld(*path, "command")
    if source == "local" and not waits:
        resolving.problem((*path, "source"), 'a local tool needs a command; set `command = ["program", "argument"]`')
    return source is None and not waits


def _check_built_in(resolving: Resolving, values: Mapping[str, Json], path: KeyPath) -> None:
    if values.get("source") != "builtin":
        message = f'`{path[-1]}` is built in and stays so (`source = "builtin"`); give your tool another name'
        resolving.problem((*path, "source"), message)
    for key in ("command", "shell", "protocol", "rename"):
        if key in values:
            resolving.problem((*path, key), f"`{path[-1]}` is built in: this key is for other tools. Give your tool another name")


def _check_rename(resolving: Resolving, values: Mapping[str, Json], path: KeyPath) -> None:
    name = values["rename"]
    if name in BUILT_IN_TOOLS:
        resolving.problem((*path, "rename"), f"`{name}` is built in; choose another name")
    elif name in branch(resolving.merged, *TOOLS) and name != path[-1]:
        resolving.problem((*path, "rename"), f"another tool is configured as `{name}`; choose another name")
    elif _source(values) == "local":
        resolving.problem((*path, "rename"), "a local tool is named by its table; rename the table")


def _source(values: Mapping[str, Json]) -> ToolSource | None:
    given = values.get("source")
    return cast("ToolSource", given) if given is not None else "local" if "command" in values else None


def _command(resolving: Resolving, values: Mapping[str, Json], path: KeyPath) -> tuple[str, ...]:
    command = values.get("command")
    if values.get("shell") is True and isinstance(command, str):
        return (command,)
    return resolving.command(command, (*path, "command"))


def _schema(definition: JsonObject) -> JsonObject:
    return {key: value for key, value in definition.items() if key != "required" or not isinstance(value, bool)}
