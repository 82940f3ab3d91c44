"""`midturn hook`: connect other coding agents to the inbox."""

from __future__ import annotations

from collections.abc import Mapping

import click

from midturn.cli.hook.run import command_of
from midturn.cli.lazy import CommandEntry, LazyGroup, with_help
from midturn.integrations.hooks.clients import AGENTS_ADDED

SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Set up": {
        "install": CommandEntry(
            "midturn.cli.hook.setup:install_command", "Add midturn's hooks to an agent"
        ),
        "uninstall": CommandEntry(
            "midturn.cli.hook.setup:uninstall_command", "Remove midturn's hooks from an agent"
        ),
        "status": CommandEntry(
            "midturn.cli.hook.setup:status_command",
            "Show whether hooks are installed and up to date",
        ),
    },
    "Run next to an agent": {
        "opencode": CommandEntry(
            "midturn.cli.hook.setup:opencode_command", "Connect opencode to the inbox until stopped"
        ),
        "codex-server": CommandEntry(
            "midturn.cli.hook.setup:codex_server_command", "Run Codex with one prompt"
        ),
    },
    "Run by an agent": {
        "claude": CommandEntry("midturn.cli.hook.run", "Hook for Claude Code"),
        "codex": CommandEntry("midturn.cli.hook.run", "Hook for Codex"),
        "gemini": CommandEntry("midturn.cli.hook.run", "Hook for Gemini CLI"),
        "qwen": CommandEntry("midturn.cli.hook.run", "Hook for Qwen Code"),
        "copilot": CommandEntry("midturn.cli.hook.run", "Hook for Copilot CLI"),
    },
}


class HookCommands(LazyGroup):
    """The commands that set up hooks, and for each agent the command that its hooks run."""

    sections = SECTIONS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in SECTIONS["Run by an agent"]:
            return super().get_command(ctx, cmd_name)
        return self._hook_command(cmd_name)

    @property
    def added(self) -> Mapping[str, str]:
        """The agents from plug-ins, each with the name of its package."""
        return AGENTS_ADDED.added

    def from_a_package(self, name: str) -> click.Command:
        """Return the hook command of a plug-in's agent."""
        return self._hook_command(name)

    def _hook_command(self, agent: str) -> click.Command:
        return with_help(command_of(agent))


command = HookCommands(
    "hook", help="Route permission prompts and questions of coding agents to your inbox"
)
