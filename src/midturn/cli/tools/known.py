"""The tools of this workspace: those that configuration knows, and those of MCP servers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from midturn.cli.loading import load_here, report_ignored
from midturn.cli.place import find_place
from midturn.cli.servers import connected
from midturn.compose.tools import definition_of, known_tools
from midturn.config.settings import Settings, ToolSettings
from midturn.core.exchange import ToolDefinition
from midturn.core.suggestion import did_you_mean
from midturn.errors import ConfigError
from midturn.ports import Tool


class Known(Struct, frozen=True):
    """What is configured, and the tools of servers (`others`)."""

    settings: Settings
    others: Sequence[Tool]

    @property
    def tools(self) -> Mapping[str, ToolSettings]:
        """Every tool, by its name, enabled or not."""
        return known_tools(self.settings, self.others)

    def named(self, name: str) -> ToolSettings:
        """Return what is configured for a tool.

        Raises:
            ConfigError: There is no such tool.
        """
        if name not in self.tools:
            raise ConfigError(f"There is no tool `{name}`.{did_you_mean(name, self.tools)} `midturn tools ls` lists them.")
        return self.tools[name]

    def definition(self, tool: ToolSettings) -> ToolDefinition:
        """Return what a model is told about a tool."""
        return definition_of(tool, self.others)

    def source(self, tool: ToolSettings) -> str | None:
        """Return where a tool comes from."""
        return "mcp" if any(other.definition.name == tool.name for other in self.others) else tool.source


@contextmanager
def known_here() -> Generator[Known]:
    """Read the configuration, and ask its servers for their tools."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    with connected(loaded.settings, find_place().root, attached=True) as servers:
        yield Known(loaded.settings, servers.tools)
