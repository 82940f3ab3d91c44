"""Claude Code with no one at its terminal, where nothing may wait: it ends where a person is needed, and goes on when it is resumed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from midturn.events.open_question import Asker
from midturn.integrations.hooks import claude, model_messages
from midturn.integrations.hooks.claude import ASKS, Claude, answers_by_text, before_tool, is_alone, questions_of
from midturn.integrations.hooks.hook_agent import HookEntry, Installation, Nothing, Occasion, Permit, PutForm, Said, Stopping, call_in
from midturn.integrations.hooks.model_messages import Approved, Decided, FormCompleted
from midturn.question.json_value import JsonObject

_EVENT = "PreToolUse"  # no other event lets it end in the middle of a call
_ASKED = f"Bash|Write|Edit|MultiEdit|NotebookEdit|WebFetch|WebSearch|{ASKS}|mcp__.*"
_EDITS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_OURS = "mcp__midturn__"  # these ask by themselves
_TIMEOUT = 120  # seconds: it waits for no one
_SESSION = r"[A-Za-z0-9][A-Za-z0-9-]{0,99}"
POLICY: Final = "defer"


class DeferringClaude(Claude):
    """At its terminal as usual. Without one, a call that a person must decide ends the run, and the same call comes again with the next."""

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> Occasion:
        """Say what the document is about; nothing waits."""
        if not is_alone(environment):
            return super().read(document, environment)
        occasion = _before_tool(document) if document.get("hook_event_name") == _EVENT else super().read(document, environment)
        return replace(occasion, seconds=0.0) if isinstance(occasion, Permit | PutForm | Stopping) else occasion

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> Said:
        """Tell what was decided about a call."""
        if document.get("hook_event_name") != _EVENT:
            return super().permitted(document, occasion, outcome)
        match outcome:
            case Approved(arguments=None):
                return before_tool("allow")
            case Approved(arguments=arguments):
                return before_tool("allow", updatedInput=arguments)
            case _:
                return before_tool("deny", model_messages.denial(outcome) or model_messages.FAILED)

    def answered(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> Said:
        """Tell what was answered."""
        if document.get("hook_event_name") != _EVENT:
            return super().answered(document, occasion, outcome)
        if isinstance(outcome, FormCompleted):
            given: JsonObject = {**call_in(document).arguments, "answers": answers_by_text(occasion.form, outcome)}
            return before_tool("allow", updatedInput=given)
        return before_tool("deny", model_messages.denial(outcome) or model_messages.FAILED)

    def denied(self, document: JsonObject, message: str) -> Said:
        """Keep a call from running, for a reason that is not a person's."""
        return before_tool("deny", message) if document.get("hook_event_name") == _EVENT else super().denied(document, message)

    def left_open(self, document: JsonObject) -> Said:
        """End the run with the call in it."""
        return before_tool(POLICY) if document.get("hook_event_name") == _EVENT else super().left_open(document)


def _before_tool(document: JsonObject) -> Occasion:
    """Say what a call is that is about to be made: it does not say whether Claude Code itself would ask about it."""
    call, mode = call_in(document), document.get("permission_mode")
    if not document.get("tool_name"):
        return Nothing()
    if call.tool.startswith(_OURS) or mode == "bypassPermissions" or (mode == "acceptEdits" and call.tool in _EDITS):
        return Nothing()
    if call.tool != ASKS:
        return Permit(id=call.id, tool=call.tool, arguments=call.arguments, gates=True, defers=True)
    asked = questions_of(call.arguments, gates=True)
    return replace(asked, id=call.id, defers=True) if isinstance(asked, PutForm) else asked


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its settings are, and which hooks go there."""
    waiting = claude.installation(home, project, environment)
    return replace(
        waiting,
        entries=(HookEntry(event=_EVENT, matcher=_ASKED, timeout=_TIMEOUT), *waiting.entries),
        advice=f"{waiting.advice} Without a terminal (`claude -p`), every command and every change is asked about, and ends the "
        "run; `midturn answer ID VALUE --resume` answers, and goes on.",
        killed=f"{waiting.killed} A call that was to be deferred is decided by its permission rules then.",
    )


def resuming(asker: Asker) -> Sequence[str] | None:
    """Return what goes on with the session of an agent that has ended; None where nothing does."""
    if asker.agent != Claude.key or not re.fullmatch(_SESSION, asker.session):
        return None
    return ("claude", "-p", "--resume", asker.session)
