"""Qwen Code's hooks: those of Claude Code, with time-outs in milliseconds, and no way to hand answers back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import SpeaksLikeClaude, permission, questions_of
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import Approved, Decided
from midturn.question.json_value import JsonObject, text

_ASKS = "ask_user_question"
_CHANGES = "run_shell_command|write_file|edit"


class Qwen(SpeaksLikeClaude):
    """Reads what Qwen Code says to a hook, and writes what it understands."""

    key = "qwen"
    name = "Qwen Code"
    wait = hook_agent.WAIT
    unreadable = hook_agent.Said(status=2, errors=f"{model_messages.FAILED}\n")  # where it asks no one, silence would let the call run
    session_variable = "QWEN_CODE_SESSION_ID"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.Occasion:
        """Say what the document is about."""
        del environment
        alone = hook_agent.has_prompt(hook_agent.started_with("qwen", "qwen-code"))
        seconds = None if alone else hook_agent.HIDDEN
        call = hook_agent.call_in(document)
        match text(document.get("hook_event_name")):
            case "PermissionRequest" if call.tool == _ASKS:
                asked = questions_of(call.arguments, gates=alone)
                return replace(asked, tool=call.tool, seconds=seconds) if isinstance(asked, hook_agent.PutForm) else asked
            case "PermissionRequest":
                return hook_agent.Permit(id="", tool=call.tool, arguments=call.arguments, gates=alone, seconds=seconds)
            case "PreToolUse" if document.get("permission_mode") == "yolo":  # no one else asks
                return hook_agent.Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=True)
            case "Stop":
                return hook_agent.Stopping(waits=alone)
            case _:
                return hook_agent.Nothing()

    def permitted(self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided) -> hook_agent.Said:
        """Tell what was decided about a call. Where it asks by itself it takes changed arguments, where no one is asked it does not."""
        del occasion
        asks = document.get("hook_event_name") == "PermissionRequest"
        if asks and isinstance(outcome, Approved) and outcome.arguments is not None:
            return permission({"behavior": "allow", "updatedInput": outcome.arguments})
        why = model_messages.denial(outcome)
        if why:
            return self.denied(document, why)
        return permission({"behavior": "allow"}) if asks else hook_agent.Said()

    def answered(self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided) -> hook_agent.Said:
        """Tell what was answered: it takes answers only as the words of a denial."""
        return self.answered_by_denying(document, occasion, outcome)


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its settings are, and which hooks go there."""
    del environment
    return Installation(
        file=(project or home) / ".qwen" / "settings.json",
        entries=(
            HookEntry(event="PermissionRequest", matcher="*", timeout=hook_agent.TIMEOUT * 1000),
            HookEntry(event="PreToolUse", matcher=_CHANGES, timeout=hook_agent.TIMEOUT * 1000),
            HookEntry(event="Stop", timeout=hook_agent.TIMEOUT * 1000),
        ),
        advice=f"Its own dialog opens after {hook_agent.HIDDEN:.0f} seconds if nobody has answered. Without a terminal, run it with "
        "`--approval-mode yolo`, and the hook asks you; otherwise it offers its model no tool that changes anything.",
        killed="If the hook is killed, Qwen Code's own dialog decides; where nobody else is asked (`--approval-mode yolo`), the call runs.",
    )
