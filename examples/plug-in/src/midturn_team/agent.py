"""Forge, the agent of this team: its hooks speak as Claude Code's do."""

from collections.abc import Mapping
from pathlib import Path

from midturn.integrations.hooks import model_messages as words
from midturn.integrations.hooks.claude import SpeaksLikeClaude, permission
from midturn.integrations.hooks.clients import AgentSupport
from midturn.integrations.hooks.hook_agent import WAIT, HookEntry, Installation, Nothing, Occasion, Permit, Said, call_in
from midturn.integrations.hooks.model_messages import Decided
from midturn.question.json_value import JsonObject


class Forge(SpeaksLikeClaude):
    """Reads what Forge says to a hook, and writes what it understands."""

    key = "forge"
    name = "Forge"
    wait = WAIT
    unreadable = Said(status=2, errors=f"{words.FAILED}\n")
    session_variable = "FORGE_SESSION"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> Occasion:
        """Say what the document is about."""
        del environment
        call = call_in(document)
        if document.get("hook_event_name") != "PermissionRequest":
            return Nothing()
        return Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=True)

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> Said:
        """Tell what was decided about a call."""
        del occasion
        why = words.denial(outcome)
        return self.denied(document, why) if why else permission({"behavior": "allow"})


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its settings are, and which hooks go there."""
    del environment
    return Installation(
        file=(project or home) / ".forge" / "settings.json",
        entries=(HookEntry(event="PermissionRequest", matcher="*", timeout=600),),
        advice="Forge asks here from its next session on.",
        killed="If the hook is killed, Forge refuses the call.",
    )


FORGE = AgentSupport(hooks=Forge(), installation=installation)
