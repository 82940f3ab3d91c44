"""Copilot CLI's hooks. Without a terminal it denies what needs permission, unless a hook allows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import SpeaksLikeClaude
from midturn.integrations.hooks.hook_agent import SERVER, HookEntry, Installation
from midturn.integrations.hooks.model_messages import Approved, Decided, FormCompleted
from midturn.question.answer_type import MultiSelectType, SelectType
from midturn.question.json_value import JsonObject, canonical, members, text
from midturn.routing.messages import user_added

if TYPE_CHECKING:
    from midturn.protocol_forms import Elicited

_ASKS = "ask_user"


class Copilot(SpeaksLikeClaude):
    """Reads what Copilot CLI says to a hook, and writes what it understands."""

    key = "copilot"
    name = "Copilot CLI"
    wait = hook_agent.WAIT
    unreadable = hook_agent.Said()  # its own dialog decides; where there is none, it denies

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return its session's id."""
        return text(document.get("sessionId")) or environment.get("COPILOT_AGENT_SESSION_ID", "")

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.Occasion:
        """Say what the document is about: only one of its events has a name in it."""
        del environment
        alone = hook_agent.has_prompt(hook_agent.started_with("copilot"))
        seconds = None if alone else hook_agent.HIDDEN
        if document.get("hookName") == "permissionRequest":
            call = hook_agent.call_in(document, "toolName", "toolInput")
            if call.tool.startswith(f"{SERVER}/"):
                return (
                    hook_agent.Nothing()
                )  # our own tools only ask: what it has been told about them decides, and no one is asked whether to ask
            return hook_agent.Permit(id="", tool=call.tool, arguments=call.arguments, gates=alone, seconds=seconds)
        if _is_asked(document) and document.get("toolName") == _ASKS:
            return _question(members(document.get("toolArgs")), gates=alone, seconds=seconds)
        return hook_agent.Stopping(waits=alone) if "stopReason" in document else hook_agent.Nothing()

    def permitted(self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided) -> hook_agent.Said:
        """Tell what was decided about a call. It takes no changed arguments."""
        del occasion
        why = model_messages.denial(outcome)
        if why:
            return self.denied(document, why)
        return hook_agent.Said({"behavior": "allow"}) if isinstance(outcome, Approved) else hook_agent.Said()

    def answered(self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided) -> hook_agent.Said:
        """Tell what was answered, by the names that its model gave: it takes answers only as the words of a denial."""
        if isinstance(outcome, FormCompleted):
            content = _elicited(occasion.arguments).content(outcome.answers)
            said = f"The user has answered already: {canonical(content).decode()}"
            return self.denied(document, "\n".join([said, *map(user_added, outcome.reasons.values())]))
        return self.answered_by_denying(document, occasion, outcome)

    def denied(self, document: JsonObject, message: str) -> hook_agent.Said:
        """Keep a call from running."""
        if _is_asked(document):
            return hook_agent.Said({"permissionDecision": "deny", "permissionDecisionReason": message})
        return hook_agent.Said({"behavior": "deny", "message": message})


def _is_asked(document: JsonObject) -> bool:
    """Say whether its event is the one before a tool runs (`preToolUse`), which has no name in it."""
    return "toolArgs" in document and "toolResult" not in document


def _question(arguments: JsonObject, *, gates: bool, seconds: float | None) -> hook_agent.Occasion:
    """Return what its model asks."""
    try:
        form = _elicited(arguments).form
    except QuestionError as error:
        return hook_agent.Unaskable(why=str(error), gates=gates)
    return hook_agent.PutForm(id="", tool=_ASKS, arguments=arguments, form=form, gates=gates, seconds=seconds)


def _elicited(arguments: JsonObject) -> Elicited:
    """Read what its model asks as a form. Its own dialog takes own words beside every choice, and so does ours."""
    elicited = hook_agent.elicited(arguments.get("requestedSchema"), text(arguments.get("message")))
    questions = [
        replace(asked, answer_type=replace(asked.answer_type, allow_other=True))
        if isinstance(asked.answer_type, SelectType | MultiSelectType)
        else asked
        for asked in elicited.form.questions
    ]
    return replace(elicited, form=replace(elicited.form, questions=questions))


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its hooks are, and which go there."""
    own = Path(environment.get("COPILOT_HOME") or home / ".copilot")
    return Installation(
        file=project / ".github" / "hooks" / "midturn.json" if project else own / "settings.json",
        entries=(
            HookEntry(event="permissionRequest", timeout=hook_agent.TIMEOUT),
            HookEntry(event="preToolUse", matcher=_ASKS, timeout=hook_agent.TIMEOUT),
            HookEntry(event="agentStop", timeout=hook_agent.TIMEOUT),
        ),
        written="copilot",
        beside={"version": 1} if project else {},
        advice=f"Its own dialog opens after {hook_agent.HIDDEN:.0f} seconds if nobody has answered. "
        "A project's hooks run only in a folder that you trust.",
        killed="If the hook is killed, Copilot CLI's own dialog decides; without a terminal it denies. "
        "A question of its model is not asked then.",
    )
