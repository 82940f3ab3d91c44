"""Hooks of Qwen Code. The hooks of Qwen Code are the same as the hooks of Claude Code, with two
differences: timeouts are in milliseconds, and a hook cannot return answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import ClaudeDialect, permission, questions_of
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import Approved, Decided
from midturn.question.json_value import JsonObject, text

_QUESTION_TOOL = "ask_user_question"
_CHANGE_TOOLS = "run_shell_command|write_file|edit"


class Qwen(ClaudeDialect):
    """Hooks of Qwen Code."""

    key = "qwen"
    name = "Qwen Code"
    wait = hook_agent.WAIT
    unreadable = hook_agent.HookOutput(
        status=2, errors=f"{model_messages.FAILED}\n"
    )  # in yolo mode, an empty output would let the call run
    session_variable = "QWEN_CODE_SESSION_ID"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.HookEvent:
        """Return the event that the document describes."""
        del environment
        unattended = hook_agent.has_prompt(hook_agent.arguments_of_ancestor("qwen", "qwen-code"))
        seconds = None if unattended else hook_agent.HIDDEN
        call = hook_agent.call_in(document)
        match text(document.get("hook_event_name")):
            case "PermissionRequest" if call.tool == _QUESTION_TOOL:
                asked = questions_of(call.arguments, gates=unattended)
                return (
                    replace(asked, tool=call.tool, seconds=seconds)
                    if isinstance(asked, hook_agent.PutForm)
                    else asked
                )
            case "PermissionRequest":
                return hook_agent.Permit(
                    id="",
                    tool=call.tool,
                    arguments=call.arguments,
                    gates=unattended,
                    seconds=seconds,
                )
            case "PreToolUse" if (
                document.get("permission_mode") == "yolo"
            ):  # Qwen Code does not ask for permission in this mode
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
        """Return the output for the decision about a call. Qwen Code accepts changed arguments
        only if it asks for permission itself.
        """
        del occasion
        asks = document.get("hook_event_name") == "PermissionRequest"
        if asks and isinstance(outcome, Approved) and outcome.arguments is not None:
            return permission({"behavior": "allow", "updatedInput": outcome.arguments})
        why = model_messages.denial(outcome)
        if why:
            return self.denied(document, why)
        return permission({"behavior": "allow"}) if asks else hook_agent.HookOutput()

    def answered(
        self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return a denial with the answers as its reason, because Qwen Code cannot receive answers
        in another way.
        """
        return self.answered_by_denying(document, occasion, outcome)


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return the settings file and the hooks to install."""
    del environment
    return Installation(
        file=(project or home) / ".qwen" / "settings.json",
        entries=(
            HookEntry(event="PermissionRequest", matcher="*", timeout=hook_agent.TIMEOUT * 1000),
            HookEntry(event="PreToolUse", matcher=_CHANGE_TOOLS, timeout=hook_agent.TIMEOUT * 1000),
            HookEntry(event="Stop", timeout=hook_agent.TIMEOUT * 1000),
        ),
        advice=(
            f"Its own dialog opens after {hook_agent.HIDDEN:.0f} seconds if nobody has answered."
            " Without a terminal, run it with `--approval-mode yolo`, and the hook asks you;"
            " otherwise it offers its model no tool that changes anything."
        ),
        killed=(
            "If the hook is killed, Qwen Code's own dialog decides. With `--approval-mode yolo`, it"
            " does not ask, and the call runs."
        ),
    )
