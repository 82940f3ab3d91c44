"""The documents that Claude Code's hooks print, and those of the agents that have taken them over."""

from __future__ import annotations

from midturn.core.json_value import Json, JsonObject
from midturn.foreign import words
from midturn.foreign.errand import AnswersGiven, Decided
from midturn.foreign.occasion import PutForm, Said
from midturn.foreign.running import Runs


def permission(decision: JsonObject) -> Said:
    """Decide what a `PermissionRequest` is about."""
    return Said({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})


def before_tool(decision: str, reason: str = "", **besides: Json) -> Said:
    """Decide about a call before its tool runs (`PreToolUse`)."""
    said: dict[str, Json] = {"permissionDecisionReason": reason} if reason else {}
    return Said({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **said, **besides}})


class SpeaksLikeClaude(Runs):
    """What most agents say as Claude Code does: a denial by the event that asks, and a turn that goes on."""

    def answered(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> Said:
        """Say nothing: most ask no questions through hooks."""
        del document, occasion, outcome
        return Said()

    def answered_by_denying(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> Said:
        """Tell what was answered to an agent that takes answers only as the words of a denial."""
        if isinstance(outcome, AnswersGiven):
            listed = "\n".join(f"{asked.text} {words.answer_in_words(outcome.answers.get(asked.id))}" for asked in occasion.form.questions)
            return self.denied(document, f"The user has answered already:\n{listed}")
        why = words.denial(outcome)
        return self.denied(document, why) if why else Said()

    def denied(self, document: JsonObject, message: str) -> Said:
        """Keep a call from running."""
        if document.get("hook_event_name") == "PreToolUse":
            return before_tool("deny", message)
        return permission({"behavior": "deny", "message": message})

    def left_open(self, document: JsonObject) -> Said:
        """Keep a call from running that nobody has decided about in time."""
        return self.denied(document, words.NOBODY)

    def goes_on(self, document: JsonObject, message: str) -> Said:
        """Keep the agent from ending its turn, with news."""
        del document
        return Said({"decision": "block", "reason": message})
