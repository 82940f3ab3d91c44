"""Hooks of Copilot CLI. Without a terminal, Copilot denies each call that needs permission,
unless a hook allows the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude import ClaudeDialect
from midturn.integrations.hooks.hook_agent import SERVER, HookEntry, Installation
from midturn.integrations.hooks.model_messages import Approved, Decided, FormCompleted
from midturn.question.answer_type import MultiSelectType, SelectType
from midturn.question.json_value import JsonObject, canonical, members, text
from midturn.routing.messages import user_added

if TYPE_CHECKING:
    from midturn.protocol_forms import Elicited

_QUESTION_TOOL = "ask_user"


class Copilot(ClaudeDialect):
    """Hooks of Copilot CLI."""

    key = "copilot"
    name = "Copilot CLI"
    wait = hook_agent.WAIT
    unreadable = (
        hook_agent.HookOutput()
    )  # with a terminal, Copilot's own dialog decides; without one, Copilot denies the call

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the session id."""
        return text(document.get("sessionId")) or environment.get("COPILOT_AGENT_SESSION_ID", "")

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.HookEvent:
        """Return the event that the document describes. Only the documents of `permissionRequest`
        contain the event's name. Other events are recognized by their fields.
        """
        del environment
        unattended = hook_agent.has_prompt(hook_agent.arguments_of_ancestor("copilot"))
        seconds = None if unattended else hook_agent.HIDDEN
        if document.get("hookName") == "permissionRequest":
            call = hook_agent.call_in(document, "toolName", "toolInput")
            if call.tool.startswith(f"{SERVER}/"):
                return (
                    hook_agent.Nothing()
                )  # midturn's tools only ask questions, so Copilot's own permissions are sufficient
            return hook_agent.Permit(
                id="", tool=call.tool, arguments=call.arguments, gates=unattended, seconds=seconds
            )
        if _is_pre_tool_use(document) and document.get("toolName") == _QUESTION_TOOL:
            return _question(members(document.get("toolArgs")), gates=unattended, seconds=seconds)
        return (
            hook_agent.Stopping(waits=unattended)
            if "stopReason" in document
            else hook_agent.Nothing()
        )

    def permitted(
        self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return the output for the decision about a call. Copilot does not accept changed
        arguments.
        """
        del occasion
        why = model_messages.denial(outcome)
        if why:
            return self.denied(document, why)
        return (
            hook_agent.HookOutput({"behavior": "allow"})
            if isinstance(outcome, Approved)
            else hook_agent.HookOutput()
        )

    def answered(
        self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return a denial with the answers as its reason, because Copilot cannot receive answers in
        another way. The answers are listed by the field names in the model's schema.
        """
        if isinstance(outcome, FormCompleted):
            content = _elicited(occasion.arguments).content(outcome.answers)
            said = f"The user has answered already: {canonical(content).decode()}"
            return self.denied(
                document, "\n".join([said, *map(user_added, outcome.reasons.values())])
            )
        return self.answered_by_denying(document, occasion, outcome)

    def denied(self, document: JsonObject, message: str) -> hook_agent.HookOutput:
        """Return the output that denies a call."""
        if _is_pre_tool_use(document):
            return hook_agent.HookOutput(
                {"permissionDecision": "deny", "permissionDecisionReason": message}
            )
        return hook_agent.HookOutput({"behavior": "deny", "message": message})


def _is_pre_tool_use(document: JsonObject) -> bool:
    """Return whether the event is `preToolUse`. Its documents do not contain the event's name."""
    return "toolArgs" in document and "toolResult" not in document


def _question(arguments: JsonObject, *, gates: bool, seconds: float | None) -> hook_agent.HookEvent:
    """Return the model's questions as an event."""
    try:
        form = _elicited(arguments).form
    except QuestionError as error:
        return hook_agent.Unaskable(why=str(error), gates=gates)
    return hook_agent.PutForm(
        id="", tool=_QUESTION_TOOL, arguments=arguments, form=form, gates=gates, seconds=seconds
    )


def _elicited(arguments: JsonObject) -> Elicited:
    """Return the model's questions as a form. Each list of options also accepts free text, as in
    Copilot's own dialog.
    """
    elicited = hook_agent.elicited(arguments.get("requestedSchema"), text(arguments.get("message")))
    questions = [
        (
            replace(asked, answer_type=replace(asked.answer_type, allow_other=True))
            if isinstance(asked.answer_type, SelectType | MultiSelectType)
            else asked
        )
        for asked in elicited.form.questions
    ]
    return replace(elicited, form=replace(elicited.form, questions=questions))


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return the settings file and the hooks to install."""
    own = Path(environment.get("COPILOT_HOME") or home / ".copilot")
    return Installation(
        file=project / ".github" / "hooks" / "midturn.json" if project else own / "settings.json",
        entries=(
            HookEntry(event="permissionRequest", timeout=hook_agent.TIMEOUT),
            HookEntry(event="preToolUse", matcher=_QUESTION_TOOL, timeout=hook_agent.TIMEOUT),
            HookEntry(event="agentStop", timeout=hook_agent.TIMEOUT),
        ),
        written="copilot",
        beside={"version": 1} if project else {},
        advice=(
            f"Its own dialog opens after {hook_agent.HIDDEN:.0f} seconds if nobody has answered. "
            "A project's hooks run only in a folder that you trust."
        ),
        killed=(
            "If the hook is killed, Copilot CLI's own dialog decides; without a terminal it denies."
            " In this case, a question from its model is not asked."
        ),
    )
