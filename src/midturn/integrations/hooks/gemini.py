"""Hooks of Gemini CLI. A hook can only deny a call. If Gemini's own dialog asks for permission,
midturn does not ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import ClaudeDialect, questions_of
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import Decided
from midturn.question.json_value import Json, JsonObject, objects, text

_QUESTION_TOOL = "ask_user"
_CHANGE_TOOLS = "run_shell_command|write_file|replace"


class Gemini(ClaudeDialect):
    """Hooks of Gemini CLI."""

    key = "gemini"
    name = "Gemini CLI"
    wait = hook_agent.WAIT
    unreadable = hook_agent.HookOutput({"decision": "deny", "reason": model_messages.FAILED})
    session_variable = "GEMINI_SESSION_ID"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.HookEvent:
        """Return the event that the document describes. midturn asks for permission only if
        Gemini does not: in yolo mode, or without a terminal.
        """
        del environment
        given = hook_agent.arguments_of_ancestor("gemini", "gemini-cli")
        unattended = hook_agent.has_prompt(given)
        has_no_dialog = (
            unattended
            or bool({"yolo", "--yolo", "-y", "--approval-mode=yolo"} & set(given))
            or not given
        )
        call = hook_agent.call_in(document)
        match text(document.get("hook_event_name")):
            case "BeforeTool" if call.tool == _QUESTION_TOOL:
                return _questions(call.arguments)
            case "BeforeTool" if has_no_dialog:
                return hook_agent.Permit(
                    id="", tool=call.tool, arguments=call.arguments, gates=True
                )
            case "AfterAgent":
                return hook_agent.Stopping(waits=unattended)
            case _:
                return hook_agent.Nothing()

    def permitted(
        self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return the output for the decision about a call. An empty output lets it run."""
        del occasion
        why = model_messages.denial(outcome)
        return self.denied(document, why) if why else hook_agent.HookOutput()

    def answered(
        self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return a denial with the answers as its reason, because Gemini cannot receive answers in
        another way.
        """
        return self.answered_by_denying(document, occasion, outcome)

    def denied(self, document: JsonObject, message: str) -> hook_agent.HookOutput:
        """Return the output that denies a call."""
        del document
        return hook_agent.HookOutput({"decision": "deny", "reason": message})

    def goes_on(self, document: JsonObject, message: str) -> hook_agent.HookOutput:
        """Return the output that continues the turn with a message. Gemini CLI uses the same JSON
        for this as for a denial.
        """
        return self.denied(document, message)


def _questions(arguments: JsonObject) -> hook_agent.HookEvent:
    """Return the model's questions as an event. Gemini's own dialog asks unsupported questions
    after the hook exits.
    """
    listed = [
        {**asked, "options": _YES_OR_NO} if asked.get("type") == "yesno" else asked
        for asked in objects(arguments.get("questions"))
    ]
    asked = questions_of({"questions": listed}, gates=False)
    return (
        replace(asked, tool=_QUESTION_TOOL, arguments=arguments, seconds=hook_agent.HIDDEN)
        if isinstance(asked, hook_agent.PutForm)
        else asked
    )


_YES_OR_NO: list[Json] = [{"label": "Yes"}, {"label": "No"}]


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return the settings file and the hooks to install."""
    del environment
    return Installation(
        file=(project or home) / ".gemini" / "settings.json",
        entries=(
            HookEntry(
                event="BeforeTool",
                matcher=f"{_CHANGE_TOOLS}|{_QUESTION_TOOL}",
                timeout=hook_agent.TIMEOUT * 1000,
            ),
            HookEntry(event="AfterAgent", timeout=hook_agent.TIMEOUT * 1000),
        ),
        advice=(
            "Without a terminal, run it with `--approval-mode yolo`, and the hook asks you;"
            " otherwise it offers its model no tool."
        ),
        killed=(
            "If the hook is killed, Gemini CLI's own dialog decides. With `--approval-mode yolo`, it"
            " does not ask, and the call runs."
        ),
    )
