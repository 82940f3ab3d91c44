"""Codex's hooks. In its terminal our hook hides its dialog for a while; `codex exec` asks no one, and goes on where a hook fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from midturn.foreign import words
from midturn.foreign.claude import SpeaksLikeClaude, permission, questions_of
from midturn.foreign.hook_agent import (
    HIDDEN,
    TIMEOUT,
    WAIT,
    HookCall,
    Nothing,
    Occasion,
    Permit,
    PutForm,
    Said,
    Stopping,
    call_in,
    started_with,
)
from midturn.foreign.installing import HookEntry, Installation
from midturn.foreign.words import Approved, Decided
from midturn.values.json_value import JsonObject, objects, text

_ASKS = "request_user_input"


class Codex(SpeaksLikeClaude):
    """Reads what Codex says to a hook, and writes what it understands."""

    key = "codex"
    name = "Codex"
    wait = WAIT
    unreadable = Said(status=2, errors=f"{words.FAILED}\n")  # a hook that fails lets the command run, one that exits so does not

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> Occasion:
        """Say what the document is about. `codex exec` never sends a `PermissionRequest`, so every command is asked about there."""
        del environment
        alone = "exec" in started_with("codex")
        call = call_in(document)
        match text(document.get("hook_event_name")):
            case "PermissionRequest":
                return Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=False, seconds=HIDDEN)
            case "PreToolUse" if call.tool == _ASKS:
                return _question(call, gates=alone)
            case "PreToolUse" if alone:
                return Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=True)
            case "Stop":
                return Stopping(waits=alone)
            case _:
                return Nothing()

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> Said:
        """Tell what was decided about a call. It takes no changed arguments."""
        del occasion
        why = words.denial(outcome)
        if why:
            return self.denied(document, why)
        is_asked = document.get("hook_event_name") == "PermissionRequest"
        return permission({"behavior": "allow"}) if is_asked and isinstance(outcome, Approved) else Said()

    def answered(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> Said:
        """Tell what was answered: it takes answers only as the words of a denial."""
        return self.answered_by_denying(document, occasion, outcome)


def _question(call: HookCall, *, gates: bool) -> Occasion:
    """Return what its model asks. A secret is not asked for here: nothing may write it down."""
    if any(asked.get("isSecret") is True for asked in objects(call.arguments.get("questions"))):
        return Nothing()
    asked = questions_of(call.arguments, gates=gates)
    if not isinstance(asked, PutForm):
        return asked
    return replace(asked, id=call.id, tool=_ASKS, seconds=None if gates else HIDDEN)


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its hooks are, and which go there."""
    own = Path(environment.get("CODEX_HOME") or home / ".codex")
    return Installation(
        file=(project / ".codex" if project else own) / "hooks.json",
        entries=(
            HookEntry(event="PermissionRequest", matcher="*", timeout=TIMEOUT),
            HookEntry(event="PreToolUse", matcher=f"Bash|apply_patch|{_ASKS}", timeout=TIMEOUT),
            HookEntry(event="Stop", timeout=TIMEOUT),
        ),
        advice="Codex asks once, in its terminal, whether you trust these hooks (`/hooks`); until then it does not run them.",
        killed="If the hook is killed, `codex exec` runs the command all the same: Codex goes on where a hook fails.",
    )
