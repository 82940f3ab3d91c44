"""Copilot CLI's hooks. Without a terminal it denies what needs permission, unless a hook allows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from midturn.core.json_value import JsonObject
from midturn.core.loose_json import members, text
from midturn.foreign import words
from midturn.foreign.claude_words import SpeaksLikeClaude
from midturn.foreign.errand import Approved, Decided
from midturn.foreign.installing import HookEntry, Installation
from midturn.foreign.occasion import Nothing, Occasion, Permit, Said, Stopping
from midturn.foreign.running import started_with

TIMEOUT = 86_400  # seconds, as `install` tells it
_MARGIN = 60
_HIDDEN = 20.0  # seconds for which its dialog stays away


class Copilot(SpeaksLikeClaude):
    """Reads what Copilot CLI says to a hook, and writes what it understands."""

    key = "copilot"
    name = "Copilot CLI"
    wait: float = TIMEOUT - _MARGIN
    unreadable = Said()  # its own dialog decides; where there is none, it denies

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return its session's id."""
        return text(document.get("sessionId")) or environment.get("COPILOT_AGENT_SESSION_ID", "")

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> Occasion:
        """Say what the document is about: only one of its events has a name in it."""
        del environment
        alone = not {"-p", "--prompt"}.isdisjoint(started_with("copilot"))
        if document.get("hookName") == "permissionRequest":
            tool, arguments = text(document.get("toolName")) or "tool", members(document.get("toolInput"))
            return Permit(id="", tool=tool, arguments=arguments, gates=alone, seconds=None if alone else _HIDDEN)
        return Stopping(waits=alone) if "stopReason" in document else Nothing()

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> Said:
        """Tell what was decided about a call. It takes no changed arguments."""
        del occasion
        why = words.denial(outcome)
        if why:
            return self.denied(document, why)
        return Said({"behavior": "allow"}) if isinstance(outcome, Approved) else Said()

    def denied(self, document: JsonObject, message: str) -> Said:
        """Keep a call from running."""
        del document
        return Said({"behavior": "deny", "message": message})


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its hooks are, and which go there."""
    own = Path(environment.get("COPILOT_HOME") or home / ".copilot")
    return Installation(
        file=project / ".github" / "hooks" / "midturn.json" if project else own / "settings.json",
        entries=(HookEntry(event="permissionRequest", timeout=TIMEOUT), HookEntry(event="agentStop", timeout=TIMEOUT)),
        written="copilot",
        beside={"version": 1} if project else {},
        advice="Its own dialog opens after 20 seconds if nobody has answered. A project's hooks run only in a folder that you trust.",
        killed="If the hook is killed, Copilot CLI's own dialog decides; without a terminal it denies.",
    )
