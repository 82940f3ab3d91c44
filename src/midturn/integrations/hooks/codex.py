"""Hooks of Codex. In a terminal, Codex's own dialog opens after the hook exits. `codex exec` has
no dialog, and runs the call if the hook fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import ClaudeDialect, permission, questions_of
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import Approved, Decided
from midturn.question.json_value import JsonObject, objects, text

_QUESTION_TOOL = "request_user_input"


class Codex(ClaudeDialect):
    """Hooks of Codex."""

    key = "codex"
    name = "Codex"
    wait = hook_agent.WAIT
    unreadable = hook_agent.HookOutput(
        status=2, errors=f"{model_messages.FAILED}\n"
    )  # this exit status denies the command; with any other failure of the hook, Codex runs it

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.HookEvent:
        """Return the event that the document describes.

        `codex exec` sends no `PermissionRequest`, so midturn asks about every command in such a
        run.
        """
        del environment
        unattended = "exec" in hook_agent.arguments_of_ancestor("codex")
        call = hook_agent.call_in(document)
        match text(document.get("hook_event_name")):
            case "PermissionRequest":
                return hook_agent.Permit(
                    id=call.id,
                    tool=call.tool,
                    arguments=call.arguments,
                    gates=False,
                    seconds=hook_agent.HIDDEN,
                )
            case "PreToolUse" if call.tool == _QUESTION_TOOL:
                return _question(call, gates=unattended)
            case "PreToolUse" if unattended:
                return hook_agent.Permit(
                    id=call.id, tool=call.tool, arguments=call.arguments, gates=True
                )
            case "Stop":
                return hook_agent.Stopping(waits=unattended)
            case _:
                return hook_agent.Nothing()

    def permitted(
        self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return the output for the decision about a call. Codex does not accept changed
        arguments.
        """
        del occasion
        why = model_messages.denial(outcome)
        if why:
            return self.denied(document, why)
        is_asked = document.get("hook_event_name") == "PermissionRequest"
        return (
            permission({"behavior": "allow"})
            if is_asked and isinstance(outcome, Approved)
            else hook_agent.HookOutput()
        )

    def answered(
        self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return a denial with the answers as its reason, because Codex cannot receive answers in
        another way.
        """
        return self.answered_by_denying(document, occasion, outcome)


def _question(call: hook_agent.HookCall, *, gates: bool) -> hook_agent.HookEvent:
    """Return the model's questions as an event. Secrets are not supported, because the agent
    would record the answer.
    """
    if any(asked.get("isSecret") is True for asked in objects(call.arguments.get("questions"))):
        return hook_agent.Nothing()
    asked = questions_of(call.arguments, gates=gates)
    if not isinstance(asked, hook_agent.PutForm):
        return asked
    return replace(
        asked, id=call.id, tool=_QUESTION_TOOL, seconds=None if gates else hook_agent.HIDDEN
    )


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return the settings file and the hooks to install."""
    own = Path(environment.get("CODEX_HOME") or home / ".codex")
    return Installation(
        file=(project / ".codex" if project else own) / "hooks.json",
        entries=(
            HookEntry(event="PermissionRequest", matcher="*", timeout=hook_agent.TIMEOUT),
            HookEntry(
                event="PreToolUse",
                matcher=f"Bash|apply_patch|{_QUESTION_TOOL}",
                timeout=hook_agent.TIMEOUT,
            ),
            HookEntry(event="Stop", timeout=hook_agent.TIMEOUT),
        ),
        advice=(
            "Codex asks once, in its terminal, whether you trust these hooks (`/hooks`); until then"
            " it does not run them."
        ),
        killed=(
            "If the hook is killed, `codex exec` runs the command without permission, because Codex"
            " continues if a hook fails."
        ),
    )
