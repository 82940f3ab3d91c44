"""Forge, this team's coding agent. Its hooks use the format of Claude Code."""

from collections.abc import Mapping
from pathlib import Path

from midturn.integrations.hooks import model_messages as words
from midturn.integrations.hooks.claude import ClaudeDialect, permission
from midturn.integrations.hooks.clients import AgentSupport
from midturn.integrations.hooks.hook_agent import (
    WAIT,
    HookEntry,
    HookEvent,
    HookOutput,
    Installation,
    Nothing,
    Permit,
    call_in,
)
from midturn.integrations.hooks.model_messages import Decided
from midturn.question.json_value import JsonObject


class Forge(ClaudeDialect):
    """Reads Forge's hook input and writes its hook output."""

    key = "forge"
    name = "Forge"
    wait = WAIT
    unreadable = HookOutput(status=2, errors=f"{words.FAILED}\n")
    session_variable = "FORGE_SESSION"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> HookEvent:
        """Parse a hook document."""
        del environment
        call = call_in(document)
        if document.get("hook_event_name") != "PermissionRequest":
            return Nothing()
        return Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=True)

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> HookOutput:
        """Return the output for a decision about a call."""
        del occasion
        why = words.denial(outcome)
        return self.denied(document, why) if why else permission({"behavior": "allow"})


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return the path of the settings, and the hooks to install there."""
    del environment
    return Installation(
        file=(project or home) / ".forge" / "settings.json",
        entries=(HookEntry(event="PermissionRequest", matcher="*", timeout=600),),
        advice="Forge asks here from its next session on.",
        killed="If the hook is killed, Forge refuses the call.",
    )


FORGE = AgentSupport(hooks=Forge(), installation=installation)
