"""Claude Code's hooks. Its own dialog is open at the same time, and the first answer wins; without a terminal no one else is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere, FormCompleted, Refused, RepliedTo, TurnStopped
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, items, objects, text
from midturn.question.text import cut_to_bytes, single_line

if TYPE_CHECKING:
    from midturn.question.form import Form

# ----------------------------------------------------------------------------------------------------------------------
# The documents that Claude Code's hooks print, and those of the agents that have taken them over


def permission(decision: JsonObject) -> hook_agent.Said:
    """Decide what a `PermissionRequest` is about."""
    return hook_agent.Said({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})


def before_tool(decision: str, reason: str = "", **besides: Json) -> hook_agent.Said:
    """Decide about a call before its tool runs (`PreToolUse`)."""
    said: dict[str, Json] = {"permissionDecisionReason": reason} if reason else {}
    return hook_agent.Said({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **said, **besides}})


class SpeaksLikeClaude(hook_agent.Runs):
    """The dialect that most agents share with Claude Code: a denial by the event that asks, and a turn that goes on."""

    def answered(self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided) -> hook_agent.Said:
        """Say nothing: most ask no questions through hooks."""
        del document, occasion, outcome
        return hook_agent.Said()

    def answered_by_denying(self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided) -> hook_agent.Said:
        """Tell what was answered to an agent that takes answers only as the words of a denial."""
        if isinstance(outcome, FormCompleted):
            listed = [f"{asked.text} {model_messages.answer_with_reason(outcome, asked.id)}" for asked in occasion.form.questions]
            return self.denied(document, "\n".join(["The user has answered already:", *listed]))
        why = model_messages.denial(outcome)
        return self.denied(document, why) if why else hook_agent.Said()

    def denied(self, document: JsonObject, message: str) -> hook_agent.Said:
        """Keep a call from running."""
        if document.get("hook_event_name") == "PreToolUse":
            return before_tool("deny", message)
        return permission({"behavior": "deny", "message": message})

    def left_open(self, document: JsonObject) -> hook_agent.Said:
        """Keep a call from running that was not decided in time."""
        return self.denied(document, model_messages.NOBODY)

    def goes_on(self, document: JsonObject, message: str) -> hook_agent.Said:
        """Keep the agent from ending its turn, with news."""
        del document
        return hook_agent.Said({"decision": "block", "reason": message})


_BESIDE = 60
"""Seconds for a hook that waits for no one."""
ASKS = "AskUserQuestion"
_PLANNED = "ExitPlanMode"


class Claude(SpeaksLikeClaude):
    """Reads what Claude Code says to a hook, and writes what it understands."""

    key = "claude"
    name = "Claude Code"
    wait = hook_agent.WAIT
    unreadable = hook_agent.Said()  # its own dialog decides; where there is none, it denies
    session_variable = "CLAUDE_CODE_SESSION_ID"
    process_variable = "CLAUDE_PID"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.Occasion:  # noqa: PLR0911  one return an event
        """Say what the document is about."""
        alone = is_alone(environment)
        call = _with_its_plan(hook_agent.call_in(document), document)
        match text(document.get("hook_event_name")):
            case "PermissionRequest" if call.tool == ASKS:
                return questions_of(call.arguments, gates=alone)
            case "PermissionRequest":
                kept = suggested(document.get("permission_suggestions"))
                return hook_agent.Permit(id="", tool=call.tool, arguments=call.arguments, gates=alone, always=kept)
            case "Elicitation":
                return _elicitation(document, alone=alone)
            case "PostToolUse" | "PostToolUseFailure" if alone:
                return hook_agent.Ran()
            case "PostToolUse" | "PostToolUseFailure":
                return hook_agent.Done(tool=call.tool, arguments=_asked(call.arguments) if call.tool == ASKS else call.arguments)
            case "UserPromptSubmit" if not alone:
                return hook_agent.MovedOn()
            case "Stop":
                return hook_agent.Stopping(waits=alone)
            case _:
                return hook_agent.Nothing()

    def permitted(self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided) -> hook_agent.Said:
        """Tell what was decided about a call."""
        del occasion
        match outcome:
            case Approved(arguments=None, always=always):
                chosen: Json = [one for one in objects(document.get("permission_suggestions")) if always and _suggestion(one) == always][:1]
                return permission({"behavior": "allow", **({"updatedPermissions": chosen} if chosen else {})})
            case Approved(arguments=arguments):
                return permission({"behavior": "allow", "updatedInput": arguments})
            case Refused():
                return permission({"behavior": "deny", "message": model_messages.refused(outcome)})
            case RepliedTo():
                return permission({"behavior": "deny", "message": model_messages.replied(outcome)})
            case TurnStopped():
                return permission({"behavior": "deny", "message": model_messages.ENDED, "interrupt": True})
            case DecidedElsewhere() | FormCompleted():
                return hook_agent.Said()

    def answered(self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided) -> hook_agent.Said:
        """Tell what was answered."""
        if text(document.get("hook_event_name")) == "Elicitation":
            return _elicited(document, outcome)
        if isinstance(outcome, FormCompleted):
            arguments: JsonObject = {**hook_agent.call_in(document).arguments, "answers": answers_by_text(occasion.form, outcome)}
            return permission({"behavior": "allow", "updatedInput": arguments})
        return self.permitted(document, hook_agent.Permit(id="", tool=ASKS, arguments={}, gates=occasion.gates), outcome)

    def denied(self, document: JsonObject, message: str) -> hook_agent.Said:
        """Keep a call from running, for a reason that is not a person's. What a server asks is left to Claude Code, which cancels it."""
        return (
            permission({"behavior": "deny", "message": message})
            if document.get("hook_event_name") == "PermissionRequest"
            else hook_agent.Said()
        )


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return where its settings are, and which hooks go there."""
    own = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    return Installation(
        file=(project / ".claude" if project else own) / "settings.json",
        entries=(
            HookEntry(event="PermissionRequest", matcher="*", timeout=hook_agent.TIMEOUT),
            HookEntry(event="Elicitation", matcher="*", timeout=hook_agent.TIMEOUT),
            HookEntry(event="PostToolUse", matcher="*", timeout=_BESIDE, beside=True),
            HookEntry(event="PostToolUseFailure", matcher="*", timeout=_BESIDE, beside=True),
            HookEntry(event="UserPromptSubmit", timeout=_BESIDE, beside=True),
            HookEntry(event="Stop", timeout=hook_agent.TIMEOUT),
        ),
        advice="A session that runs already keeps the hooks that it began with. In a project, Claude Code asks once whether you trust it.",
        killed="If the hook is killed, Claude Code's own dialog decides; without a terminal (`claude -p`) it denies.",
    )


def is_alone(environment: Mapping[str, str]) -> bool:
    """Say whether it runs without a person at its terminal (`claude -p`)."""
    attended = environment.get("CLAUDE_CODE_SESSION_ATTENDED", "")
    return attended == "0" if attended else environment.get("CLAUDE_CODE_ENTRYPOINT", "cli").startswith("sdk")


def _with_its_plan(call: hook_agent.HookCall, document: JsonObject) -> hook_agent.HookCall:
    """Return the call that ends its plan mode with what is to be decided about: the plan itself is in a file of it."""
    if call.tool != _PLANNED or "plan" in call.arguments or not (planned := hook_agent.plan(document)):
        return call
    return replace(call, arguments={**call.arguments, "plan": planned})


# What it keeps of a yes -------------------------------------------------------------------------------------------------


def suggested(suggestions: Json) -> tuple[str, ...]:
    """Say what each thing lets through that it offers to keep of a yes; what we cannot name, or is no yes, is not offered."""
    return tuple(dict.fromkeys(filter(None, map(_suggestion, objects(suggestions)))))


_MODES = {
    "acceptEdits": "change files without asking (its mode acceptEdits)",
    "bypassPermissions": "run everything without asking (its mode bypassPermissions)",
}
_WHERE = {
    "session": "until its session ends",
    "localSettings": "in this project, for you alone",
    "projectSettings": "in this project, for everyone who works on it",
    "userSettings": "in all of your projects",
}


def _suggestion(suggestion: JsonObject) -> str:
    destination = text(suggestion.get("destination"))
    where = _WHERE.get(destination, f"kept in {destination or 'a place that it does not name'}")
    match suggestion.get("type"):
        case "addRules" if suggestion.get("behavior") == "allow":
            rules = [_rule(rule) for rule in objects(suggestion.get("rules"))]
            return f"run {' and '.join(rules)} without asking, {where}" if rules else ""
        case "addDirectories":
            folders = [text(folder) for folder in items(suggestion.get("directories"))]
            return f"work in {' and '.join(folders)} as in its own directory, {where}" if folders else ""
        case "setMode":
            mode = text(suggestion.get("mode"))
            return f"{_MODES.get(mode, f'change to its permission mode {mode}')}, {where}" if mode else ""
        case _:
            return ""


def _rule(rule: JsonObject) -> str:
    content = text(rule.get("ruleContent"))
    tool = text(rule.get("toolName"))
    return f"{tool} calls that fit `{content}`" if content else f"every call of {tool}"


# Its own questions ------------------------------------------------------------------------------------------------------


def _asked(arguments: JsonObject) -> JsonObject:
    """Return what names a set of questions: it carries the answers, too, once there are some."""
    return {"questions": arguments.get("questions")}


def questions_of(arguments: JsonObject, *, gates: bool) -> hook_agent.Occasion:
    """Return the questions of its own tool as a form."""
    from midturn.question.form import Form  # few calls ask

    listed = objects(arguments.get("questions"))
    texts = [text(asked.get("question")) for asked in listed]
    if len(set(texts)) != len(texts):
        return hook_agent.Unaskable(why="two questions have the same text, by which their answers go", gates=gates)
    try:
        asked = [_question(number, single_line(said), question) for number, (said, question) in enumerate(zip(texts, listed, strict=True))]
        form = Form.from_json(asked)
    except QuestionError as error:
        return hook_agent.Unaskable(why=str(error), gates=gates)
    return hook_agent.PutForm(id="", tool=ASKS, arguments=_asked(arguments), form=form, gates=gates)


def _question(number: int, line: str, asked: JsonObject) -> Json:
    said = text(asked.get("question"))
    options: list[Json] = [_option(option) for option in objects(asked.get("options"))]
    kind = "multi_select" if asked.get("multiSelect") is True else "select"
    answer_type: JsonObject = {"type": kind, "options": options, "allow_other": True} if options else {"type": "text"}
    return {"id": f"q{number}", "text": line, "answer_type": answer_type, **({} if line == said else {"context": said})}


def _option(option: JsonObject) -> Json:
    texts = {"description": text(option.get("description")), "preview": cut_to_bytes(text(option.get("preview")), DEFAULT_LIMITS.context)}
    return {"value": text(option.get("label")), **{name: said for name, said in texts.items() if said}}


def answers_by_text(form: Form, given: FormCompleted) -> dict[str, Json]:
    """Return the answers by the text of their questions. Several are joined by commas; those that have a comma themselves are in quotes."""
    return {question.context or question.text: model_messages.answer_with_reason(given, question.id) for question in form.questions}


# What servers ask through it --------------------------------------------------------------------------------------------


def _elicitation(document: JsonObject, *, alone: bool) -> hook_agent.Occasion:
    server = text(document.get("mcp_server_name")) or "server"
    if document.get("mode") not in ("form", None, ""):
        return hook_agent.Nothing()  # an address is opened where the browser is
    message = f"The MCP server {server} asks: {text(document.get('message'))}"
    try:
        elicited = hook_agent.elicited(document.get("requested_schema"), message)
    except QuestionError:
        return hook_agent.Nothing()  # its own dialog may know how
    arguments: JsonObject = {"message": document.get("message"), "requested_schema": document.get("requested_schema")}
    return hook_agent.PutElicitation(
        id="", tool=f"mcp__{server}", arguments=arguments, form=elicited.form, gates=alone, seconds=None if alone else hook_agent.HIDDEN
    )


def _elicited(document: JsonObject, outcome: Decided) -> hook_agent.Said:
    answer: dict[str, Json] = {"hookEventName": "Elicitation"}
    match outcome:
        case FormCompleted(answers):
            elicited = hook_agent.elicited(document.get("requested_schema"), "")
            return hook_agent.Said({"hookSpecificOutput": {**answer, "action": "accept", "content": elicited.content(answers)}})
        case RepliedTo() | Refused():
            return hook_agent.Said({"hookSpecificOutput": {**answer, "action": "decline"}})
        case TurnStopped():
            return hook_agent.Said({"hookSpecificOutput": {**answer, "action": "cancel"}})
        case Approved() | DecidedElsewhere():
            return hook_agent.Said()
