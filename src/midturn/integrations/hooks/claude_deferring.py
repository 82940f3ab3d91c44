"""Hooks of Claude Code that defer calls. Without a terminal, a run ends when a call needs a
person's decision. When the session is resumed, it continues with this call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks import claude, model_messages
from midturn.integrations.hooks.claude import (
    ASKS,
    Claude,
    answers_by_text,
    before_tool,
    is_unattended,
    questions_of,
)
from midturn.integrations.hooks.hook_agent import (
    HookEntry,
    HookEvent,
    HookOutput,
    Installation,
    Nothing,
    Permit,
    PutForm,
    Stopping,
    call_in,
)
from midturn.integrations.hooks.model_messages import Approved, Decided, FormCompleted
from midturn.question.json_value import JsonObject

_EVENT = "PreToolUse"  # the only event that can end a run in the middle of a call
_MATCHER = f"Bash|Write|Edit|MultiEdit|NotebookEdit|WebFetch|WebSearch|{ASKS}|mcp__.*"
_EDIT_TOOLS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
# prefix of midturn's own tools; they need no permission, because they only ask questions
_OWN_TOOLS = "mcp__midturn__"
_TIMEOUT = 120  # timeout of the hook in seconds; the hook does not wait for a person
_SESSION_PATTERN = r"[A-Za-z0-9][A-Za-z0-9-]{0,99}"
POLICY: Final = "defer"


class DeferringClaude(Claude):
    """Behaves like `Claude` if there is a terminal. Without a terminal, a call that needs a
    person's decision ends the run, and the resumed run repeats the call.
    """

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> HookEvent:
        """Return the event that the document describes. Without a terminal, the hook does not
        wait for an answer.
        """
        if not is_unattended(environment):
            return super().read(document, environment)
        occasion = (
            _before_tool(document)
            if document.get("hook_event_name") == _EVENT
            else super().read(document, environment)
        )
        return (
            replace(occasion, seconds=0.0)
            if isinstance(occasion, Permit | PutForm | Stopping)
            else occasion
        )

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> HookOutput:
        """Return the output for the decision about a call."""
        if document.get("hook_event_name") != _EVENT:
            return super().permitted(document, occasion, outcome)
        match outcome:
            case Approved(arguments=None):
                return before_tool("allow")
            case Approved(arguments=arguments):
                return before_tool("allow", updatedInput=arguments)
            case _:
                return before_tool("deny", model_messages.denial(outcome) or model_messages.FAILED)

    def answered(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> HookOutput:
        """Return the output with the answers."""
        if document.get("hook_event_name") != _EVENT:
            return super().answered(document, occasion, outcome)
        if isinstance(outcome, FormCompleted):
            given: JsonObject = {
                **call_in(document).arguments,
                "answers": answers_by_text(occasion.form, outcome),
            }
            return before_tool("allow", updatedInput=given)
        return before_tool("deny", model_messages.denial(outcome) or model_messages.FAILED)

    def denied(self, document: JsonObject, message: str) -> HookOutput:
        """Return the output that denies a call for a technical reason."""
        return (
            before_tool("deny", message)
            if document.get("hook_event_name") == _EVENT
            else super().denied(document, message)
        )

    def left_open(self, document: JsonObject) -> HookOutput:
        """Return the output that ends the run at this call."""
        return (
            before_tool(POLICY)
            if document.get("hook_event_name") == _EVENT
            else super().left_open(document)
        )


def _before_tool(document: JsonObject) -> HookEvent:
    """Return the event for a call. The document does not contain whether Claude Code itself would
    ask for permission, so midturn decides by the permission mode whether to ask.
    """
    call, mode = call_in(document), document.get("permission_mode")
    if not document.get("tool_name"):
        return Nothing()
    if (
        call.tool.startswith(_OWN_TOOLS)
        or mode == "bypassPermissions"
        or (mode == "acceptEdits" and call.tool in _EDIT_TOOLS)
    ):
        return Nothing()
    if call.tool != ASKS:
        return Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=True, defers=True)
    asked = questions_of(call.arguments, gates=True)
    return replace(asked, id=call.id, defers=True) if isinstance(asked, PutForm) else asked


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return the settings file and the hooks to install."""
    blocking = claude.installation(home, project, environment)
    return replace(
        blocking,
        entries=(HookEntry(event=_EVENT, matcher=_MATCHER, timeout=_TIMEOUT), *blocking.entries),
        advice=(
            f"{blocking.advice} Without a terminal (`claude -p`), every command and every change"
            " asks for permission and ends the run. `midturn answer ID VALUE --resume` answers and"
            " resumes the run."
        ),
        killed=(
            f"{blocking.killed} Without a terminal, the hook can also be killed before it defers a"
            " call. Claude Code's permission rules then decide about this call."
        ),
    )


def resume_command(asker: AskingAgent) -> Sequence[str] | None:
    """Return the command that resumes the session of an agent that has ended, or None if the
    session cannot be resumed.
    """
    if asker.agent != Claude.key or not re.fullmatch(_SESSION_PATTERN, asker.session):
        return None
    return ("claude", "-p", "--resume", asker.session)
