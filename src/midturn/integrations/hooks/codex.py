"""Codex's hooks. In its terminal our hook hides its dialog for a while; `codex exec` asks no one, and goes on where a hook fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import SpeaksLikeClaude, permission, questions_of
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import Approved, Decided
from midturn.question.json_value import JsonObject, objects, text

_ASKS = "request_user_input"


class Codex(SpeaksLikeClaude):
    """Reads what Codex says to a hook, and writes what it understands."""

    key = "codex"
    name = "Codex"
    wait = hook_agent.WAIT
    unreadable = hook_agent.Said(
        status=2, errors=f"{model_messages.FAILED}\n"
    )  # a hook that fails lets the command run, one that exits so does not

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.Occasion:
        """Say what the document is about. `codex exec` never sends a `PermissionRequest`, so every command is asked about there."""
        del environment
        alone = "exec" in hook_agent.started_with("codex")
        call = hook_agent.call_in(document)
        match text(document.get("hook_event_name")):
            case "PermissionRequest":
                return hook_agent.Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=False, seconds=hook_agent.HIDDEN)
            case "PreToolUse" if call.tool == _ASKS:
                return _question(call, gates=alone)
            case "PreToolUse" if alone:
                return hook_agent.Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=True)
            case "Stop":
                return hook_agent.Stopping(waits=alone)
            case _:
                return hook_agent.Nothing()

    def permitted(self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided) -> hook_agent.Said:
        """Tell what was decided about a call. It takes no changed arguments."""
        del occasion
        why = model_messages.denial(outcome)
        if why:
            return self.denied(document, why)
        is_asked = document.get("hook_event_name") == "PermissionRequest"
        return permission({"behavior": "allow"}) if is_asked and isinstance(outcome, Approved) else hook_agent.Said()

    def answered(self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided) -> hook_agent.Said:
        """Tell what was answered: it takes answers only as the words of a denial."""
        return self.answered_by_denying(document, occasion, outcome)


def _question(call: hook_agent.HookCall, *, gates: bool) -> hook_agent.Occasion:
    """Return what its model asks. A secret is not asked for here: nothing may write it down."""
    if any(asked.get("isSecret") is True for asked in objects(call.arguments.get("questions"))):
        return hook_agent.Nothing()
    asked = questions_of(call.arguments, gates=gates)
    if not isinstance(asked, hook_agent.PutForm):
        return asked
    return replace(asked, id=call.id, tool=_ASKS, seconds=None if gates else hook_agent.HIDDEN)


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its hooks are, and which go there."""
    own = Path(environment.get("CODEX_HOME") or home / ".codex")
    return Installation(
        file=(project / ".codex" if project else own) / "hooks.json",
        entries=(
            HookEntry(event="PermissionRequest", matcher="*", timeout=hook_agent.TIMEOUT),
            HookEntry(event="PreToolUse", matcher=f"Bash|apply_patch|{_ASKS}", timeout=hook_agent.TIMEOUT),
            HookEntry(event="Stop", timeout=hook_agent.TIMEOUT),
        ),
        advice="Codex asks once, in its terminal, whether you trust these hooks (`/hooks`); until then it does not run them.",
        killed="If the hook is killed, `codex exec` runs the command all the same: Codex goes on where a hook fails.",
    )
