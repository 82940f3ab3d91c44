"""From merged layers to settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast, get_args

import msgspec

from midturn.config.resolve_tool import tool, tools
from midturn.config.resolving import Resolving, declared, variables
from midturn.config.settings import (
    AssistantSettings,
    DisplaySettings,
    LlmProvider,
    McpServer,
    NotificationSettings,
    Settings,
    UserSettings,
    WebSettings,
)
from midturn.config.tree import KeyPath, branch, entry, plain
from midturn.config.values import one_of
from midturn.core.enabling import Toggle
from midturn.core.exchange import Family
from midturn.core.limits import Limits
from midturn.prompts.settings import PromptSettings

_T = TypeVar("_T")
_LLM, _MCP = ("providers", "llm"), ("providers", "mcp")
_KINDS = get_args(Family)


def resolve(resolving: Resolving, toggles: tuple[Toggle, ...] = ()) -> Settings:
    """Return the settings; what does not fit together stands in `resolving.problems`."""
    notify = entry(resolving.merged, "notify", "command")
    return Settings(
        assistant=_table(resolving, AssistantSettings, "assistant"),
        inquiry=plain(branch(resolving.merged, "conversation", "inquiry", "assistant")),
        tools=tools(resolving),
        any_tool=tool(resolving, "*"),
        toggles=toggles,
        llm=_providers(resolving),
        mcp=_servers(resolving),
        limits=_table(resolving, Limits, "limits"),
        prompt=_table(resolving, PromptSettings, "prompt"),
        display=_table(resolving, DisplaySettings, "display"),
        user=_table(resolving, UserSettings, "user"),
        web=_table(resolving, WebSettings, "web"),
        notify=resolving.command(notify.value, ("notify", "command")) if notify else (),
        notifications=_table(resolving, NotificationSettings, "notify"),
    )


def _table(resolving: Resolving, type: type[_T], *path: str) -> _T:
    return msgspec.convert(plain(branch(resolving.merged, *path)), type)


def _providers(resolving: Resolving) -> dict[str, LlmProvider]:
    found = {name: _provider(resolving, (*_LLM, name)) for name in branch(resolving.merged, *_LLM)}
    return {name: provider for name, provider in found.items() if provider is not None}


def _provider(resolving: Resolving, path: KeyPath) -> LlmProvider | None:
    values = plain(branch(resolving.merged, *path))
    kind = values.get("kind", path[-1] if path[-1] in _KINDS else None)
    if kind is None:
        resolving.problem(path, f"`kind` is missing: {one_of(_KINDS)}")
        return None
    if kind == "openai-compatible" and "base_url" not in values:
        if not resolving.is_withheld(*path, "base_url"):
            resolving.problem(path, 'an OpenAI-compatible server needs its address: `base_url = "http://127.0.0.1:8080/v1"`')
        return None
    return msgspec.convert({**values, "kind": kind}, LlmProvider)


def _servers(resolving: Resolving) -> dict[str, McpServer]:
    found = {name: _server(resolving, (*_MCP, name)) for name in branch(resolving.merged, *_MCP)}
    return {name: server for name, server in found.items() if server is not None}


def _server(resolving: Resolving, path: KeyPath) -> McpServer | None:
    values = plain(branch(resolving.merged, *path))
    if resolving.is_withheld(*path) and not {"command", "url"} & values.keys():
        return None
    if ("command" in values) == ("url" in values):
        resolving.problem(path, "an MCP server has either a `command` (we start it) or a `url` (it runs already)")
        return None
    return McpServer(
        command=resolving.command(values.get("command"), (*path, "command")),
        url=cast("str | None", values.get("url")),
        headers=cast("Mapping[str, str]", values.get("headers", {})),
        environment=variables(values.get("environment")),
        sandbox=declared(values),
        sampling=values.get("sampling") is True,
    )
