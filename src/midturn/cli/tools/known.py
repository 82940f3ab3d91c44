"""The tools of this workspace as configuration knows them."""

from __future__ import annotations

from collections.abc import Mapping

from midturn.cli.loading import load_here, report_ignored
from midturn.compose.tools import known_tools
from midturn.config.settings import Settings, ToolSettings
from midturn.core.suggestion import did_you_mean
from midturn.errors import ConfigError


def settings_here() -> Settings:
    """Read the configuration."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    return loaded.settings


def tool_named(name: str, settings: Settings) -> ToolSettings:
    """Return what is configured for a tool.

    Raises:
        ConfigError: There is no such tool.
    """
    tools: Mapping[str, ToolSettings] = known_tools(settings)
    if name not in tools:
        raise ConfigError(f"There is no tool `{name}`.{did_you_mean(name, tools)} `midturn tools ls` lists them.")
    return tools[name]
