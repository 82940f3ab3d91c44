"""`midturn hook`: permission prompts and questions of other agents."""

from __future__ import annotations

from collections.abc import Mapping

import click

from midturn.cli.hook.run import command_of
from midturn.cli.lazy import CommandEntry, LazyGroup, with_help
from midturn.integrations.hooks.clients import AGENTS_ADDED

SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Set up": {
        "install": CommandEntry("midturn.cli.hook.setup:install_command", "Have an agent ask through midturn."),
        "uninstall": CommandEntry("midturn.cli.hook.setup:uninstall_command", "Undo that."),
        "status": CommandEntry("midturn.cli.hook.setup:status_command", "Say which agents ask through midturn."),
    },
    "Beside an agent": {
        "opencode": CommandEntry("midturn.cli.hook.setup:opencode_command", "Carry what an opencode server asks, as long as this runs."),
        "codex-server": CommandEntry("midturn.cli.hook.setup:codex_server_command", "Run Codex without anybody at its terminal."),
    },
    "Run by an agent": {
        "claude": CommandEntry("midturn.cli.hook.run", "A hook of Claude Code."),
        "codex": CommandEntry("midturn.cli.hook.run", "A hook of Codex."),
        "gemini": CommandEntry("midturn.cli.hook.run", "A hook of Gemini CLI."),
        "qwen": CommandEntry("midturn.cli.hook.run", "A hook of Qwen Code."),
        "copilot": CommandEntry("midturn.cli.hook.run", "A hook of Copilot CLI."),
    },
}


class HookCommands(LazyGroup):
    """The commands that set hooks up, and one for each agent, which its hooks run."""

    sections = SECTIONS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; an agent's is the same for all of them."""
        if cmd_name not in SECTIONS["Run by an agent"]:
            return super().get_command(ctx, cmd_name)
        return self._run_by(cmd_name)

    @property
    def added(self) -> Mapping[str, str]:
        """The agents that packages add."""
        return AGENTS_ADDED.added

    def from_a_package(self, name: str) -> click.Command:
        """Return the command of an agent that a package adds."""
        return self._run_by(name)

    def _run_by(self, agent: str) -> click.Command:
        return with_help(command_of(agent))


command = HookCommands("hook", help="Carry the permission prompts and questions of other agents to one inbox.")
