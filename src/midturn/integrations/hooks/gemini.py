"""Gemini CLI's hooks. They can deny, and nothing else: where its own dialog asks for permission, ours stays silent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import SpeaksLikeClaude, questions_of
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import Decided
from midturn.question.json_value import Json, JsonObject, objects, text

_ASKS = "ask_user"
_CHANGES = "run_shell_command|write_file|replace"


class Gemini(SpeaksLikeClaude):
    """Reads what Gemini CLI says to a hook, and writes what it understands."""

    key = "gemini"
    name = "Gemini CLI"
    wait = hook_agent.WAIT
    unreadable = hook_agent.Said({"decision": "deny", "reason": model_messages.FAILED})
    session_variable = "GEMINI_SESSION_ID"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.Occasion:
        """Say what the document is about. A call is asked about only where no one else asks: `--approval-mode yolo`, or no terminal."""
        del environment
        given = hook_agent.started_with("gemini", "gemini-cli")
        alone = hook_agent.has_prompt(given)
        unasked = alone or bool({"yolo", "--yolo", "-y", "--approval-mode=yolo"} & set(given)) or not given
        call = hook_agent.call_in(document)
        match text(document.get("hook_event_name")):
            case "BeforeTool" if call.tool == _ASKS:
                return _asked(call.arguments)
            case "BeforeTool" if unasked:
                return hook_agent.Permit(id="", tool=call.tool, arguments=call.arguments, gates=True)
            case "AfterAgent":
                return hook_agent.Stopping(waits=alone)
            case _:
                return hook_agent.Nothing()

    def permitted(self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided) -> hook_agent.Said:
        """Tell what was decided about a call: silence lets it run."""
        del occasion
        why = model_messages.denial(outcome)
        return self.denied(document, why) if why else hook_agent.Said()

    def answered(self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided) -> hook_agent.Said:
        """Tell what was answered: it takes answers only as the words of a denial."""
        return self.answered_by_denying(document, occasion, outcome)

    def denied(self, document: JsonObject, message: str) -> hook_agent.Said:
        """Keep a call from running."""
        del document
        return hook_agent.Said({"decision": "deny", "reason": message})

    def goes_on(self, document: JsonObject, message: str) -> hook_agent.Said:
        """Keep it from ending its turn, with news: the same word as for a call."""
        return self.denied(document, message)


def _asked(arguments: JsonObject) -> hook_agent.Occasion:
    """Return what its model asks; the own dialog, which opens after us, takes everything else."""
    listed = [{**asked, "options": _YES_OR_NO} if asked.get("type") == "yesno" else asked for asked in objects(arguments.get("questions"))]
    asked = questions_of({"questions": listed}, gates=False)
    return replace(asked, tool=_ASKS, arguments=arguments, seconds=hook_agent.HIDDEN) if isinstance(asked, hook_agent.PutForm) else asked


_YES_OR_NO: list[Json] = [{"label": "Yes"}, {"label": "No"}]


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its settings are, and which hooks go there."""
    del environment
    return Installation(
        file=(project or home) / ".gemini" / "settings.json",
        entries=(
            HookEntry(event="BeforeTool", matcher=f"{_CHANGES}|{_ASKS}", timeout=hook_agent.TIMEOUT * 1000),
            HookEntry(event="AfterAgent", timeout=hook_agent.TIMEOUT * 1000),
        ),
        advice="Without a terminal, run it with `--approval-mode yolo`, and the hook asks you; otherwise it offers its model no tool.",
        killed="If the hook is killed, the call runs where nobody else is asked (`--approval-mode yolo`).",
    )
