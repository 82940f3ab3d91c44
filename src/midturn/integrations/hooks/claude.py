"""Hooks of Claude Code. Claude Code's own dialog and midturn's question are open at the same
time, and the first answer wins. Without a terminal, only midturn asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.hook_agent import HookEntry, Installation
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    DecidedElsewhere,
    FormCompleted,
    Refused,
    RepliedTo,
    TurnStopped,
)
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, items, objects, text
from midturn.question.text import cut_to_bytes, single_line

if TYPE_CHECKING:
    from midturn.question.form import Form

# --------------------------------------------------------------------------------------------------
# JSON output of Claude Code's hooks. Other agents use the same format.


def permission(decision: JsonObject) -> hook_agent.HookOutput:
    """Return the output that decides a `PermissionRequest`."""
    return hook_agent.HookOutput(
        {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    )


def before_tool(decision: str, reason: str = "", **besides: Json) -> hook_agent.HookOutput:
    """Return the output that allows or denies a call before its tool runs (`PreToolUse`)."""
    said: dict[str, Json] = {"permissionDecisionReason": reason} if reason else {}
    return hook_agent.HookOutput(
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": decision,
                **said,
                **besides,
            }
        }
    )


class ClaudeDialect(hook_agent.HookProcess):
    """Base class for the hook protocol that most agents share with Claude Code.

    The output for a denial depends on the name of the event.
    """

    def answered(
        self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return an empty output, because most agents do not ask questions through hooks."""
        del document, occasion, outcome
        return hook_agent.HookOutput()

    def answered_by_denying(
        self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return a denial with the answers as its reason, for agents that cannot receive answers in
        another way.
        """
        if isinstance(outcome, FormCompleted):
            listed = [
                f"{asked.text} {model_messages.answer_with_reason(outcome, asked.id)}"
                for asked in occasion.form.questions
            ]
            return self.denied(document, "\n".join(["The user has answered already:", *listed]))
        why = model_messages.denial(outcome)
        return self.denied(document, why) if why else hook_agent.HookOutput()

    def denied(self, document: JsonObject, message: str) -> hook_agent.HookOutput:
        """Return the output that denies a call."""
        if document.get("hook_event_name") == "PreToolUse":
            return before_tool("deny", message)
        return permission({"behavior": "deny", "message": message})

    def left_open(self, document: JsonObject) -> hook_agent.HookOutput:
        """Return the output that denies a call because no person decided in time."""
        return self.denied(document, model_messages.NOBODY)

    def goes_on(self, document: JsonObject, message: str) -> hook_agent.HookOutput:
        """Return the output that continues the agent's turn with a message."""
        del document
        return hook_agent.HookOutput({"decision": "block", "reason": message})


_SHORT_TIMEOUT = 60
"""Timeout, in seconds, for hooks that do not wait for a person."""
ASKS = "AskUserQuestion"
_EXIT_PLAN_TOOL = "ExitPlanMode"


class Claude(ClaudeDialect):
    """Hooks of Claude Code."""

    key = "claude"
    name = "Claude Code"
    wait = hook_agent.WAIT
    unreadable = (
        hook_agent.HookOutput()
    )  # Claude Code's own dialog decides; without a terminal it denies
    session_variable = "CLAUDE_CODE_SESSION_ID"
    process_variable = "CLAUDE_PID"

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> hook_agent.HookEvent:  # noqa: PLR0911  one return per event
        """Return the event that the document describes."""
        unattended = is_unattended(environment)
        call = _with_plan(hook_agent.call_in(document), document)
        match text(document.get("hook_event_name")):
            case "PermissionRequest" if call.tool == ASKS:
                return questions_of(call.arguments, gates=unattended)
            case "PermissionRequest":
                kept = suggested(document.get("permission_suggestions"))
                return hook_agent.Permit(
                    id="", tool=call.tool, arguments=call.arguments, gates=unattended, always=kept
                )
            case "Elicitation":
                return _elicitation(document, unattended=unattended)
            case "PostToolUse" | "PostToolUseFailure" if unattended:
                return hook_agent.Ran()
            case "PostToolUse" | "PostToolUseFailure":
                return hook_agent.Done(
                    tool=call.tool,
                    arguments=(
                        _questions_only(call.arguments) if call.tool == ASKS else call.arguments
                    ),
                )
            case "UserPromptSubmit" if not unattended:
                return hook_agent.MovedOn()
            case "Stop":
                return hook_agent.Stopping(waits=unattended)
            case _:
                return hook_agent.Nothing()

    def permitted(
        self, document: JsonObject, occasion: hook_agent.Permit, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return the output for the decision about a call."""
        del occasion
        match outcome:
            case Approved(arguments=None, always=always):
                chosen: Json = [
                    each
                    for each in objects(document.get("permission_suggestions"))
                    if always and _suggestion(each) == always
                ][:1]
                return permission(
                    {"behavior": "allow", **({"updatedPermissions": chosen} if chosen else {})}
                )
            case Approved(arguments=arguments):
                return permission({"behavior": "allow", "updatedInput": arguments})
            case Refused():
                return permission({"behavior": "deny", "message": model_messages.refused(outcome)})
            case RepliedTo():
                return permission({"behavior": "deny", "message": model_messages.replied(outcome)})
            case TurnStopped():
                return permission(
                    {"behavior": "deny", "message": model_messages.ENDED, "interrupt": True}
                )
            case DecidedElsewhere() | FormCompleted():
                return hook_agent.HookOutput()

    def answered(
        self, document: JsonObject, occasion: hook_agent.PutForm, outcome: Decided
    ) -> hook_agent.HookOutput:
        """Return the output with the answers."""
        if text(document.get("hook_event_name")) == "Elicitation":
            return _elicited(document, outcome)
        if isinstance(outcome, FormCompleted):
            arguments: JsonObject = {
                **hook_agent.call_in(document).arguments,
                "answers": answers_by_text(occasion.form, outcome),
            }
            return permission({"behavior": "allow", "updatedInput": arguments})
        return self.permitted(
            document,
            hook_agent.Permit(id="", tool=ASKS, arguments={}, gates=occasion.gates),
            outcome,
        )

    def denied(self, document: JsonObject, message: str) -> hook_agent.HookOutput:
        """Return the output that denies a call for a technical reason. If the call is a question
        from an MCP server, the output is empty, and Claude Code itself cancels the question.
        """
        return (
            permission({"behavior": "deny", "message": message})
            if document.get("hook_event_name") == "PermissionRequest"
            else hook_agent.HookOutput()
        )


def installation(home: Path, project: Path | None, environment: Mapping[str, str]) -> Installation:
    """Return the settings file and the hooks to install."""
    own = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    return Installation(
        file=(project / ".claude" if project else own) / "settings.json",
        entries=(
            HookEntry(event="PermissionRequest", matcher="*", timeout=hook_agent.TIMEOUT),
            HookEntry(event="Elicitation", matcher="*", timeout=hook_agent.TIMEOUT),
            HookEntry(event="PostToolUse", matcher="*", timeout=_SHORT_TIMEOUT, beside=True),
            HookEntry(event="PostToolUseFailure", matcher="*", timeout=_SHORT_TIMEOUT, beside=True),
            HookEntry(event="UserPromptSubmit", timeout=_SHORT_TIMEOUT, beside=True),
            HookEntry(event="Stop", timeout=hook_agent.TIMEOUT),
        ),
        advice=(
            "Running sessions keep the hooks that they started with. In a project, Claude Code asks"
            " once whether you trust it."
        ),
        killed=(
            "If the hook is killed, Claude Code's own dialog decides; without a terminal (`claude"
            " -p`) it denies."
        ),
    )


def is_unattended(environment: Mapping[str, str]) -> bool:
    """Return whether Claude Code runs without a terminal (`claude -p`)."""
    attended = environment.get("CLAUDE_CODE_SESSION_ATTENDED", "")
    return (
        attended == "0"
        if attended
        else environment.get("CLAUDE_CODE_ENTRYPOINT", "cli").startswith("sdk")
    )


def _with_plan(call: hook_agent.HookCall, document: JsonObject) -> hook_agent.HookCall:
    """If the call ends plan mode, return it with the text of the plan as an argument. Claude Code
    stores the plan in a file.
    """
    if (
        call.tool != _EXIT_PLAN_TOOL
        or "plan" in call.arguments
        or not (planned := hook_agent.last_plan(document))
    ):
        return call
    return replace(call, arguments={**call.arguments, "plan": planned})


# Standing permissions of Claude Code
# --------------------------------------------------------------------------------------------------


def suggested(suggestions: Json) -> tuple[str, ...]:
    """Return a description of each standing permission that the agent offers. Other suggestions
    are left out.
    """
    return tuple(dict.fromkeys(filter(None, map(_suggestion, objects(suggestions)))))


_MODES = {
    "acceptEdits": "change files without asking (its mode acceptEdits)",
    "bypassPermissions": "run everything without asking (its mode bypassPermissions)",
}
_DESTINATIONS = {
    "session": "until its session ends",
    "localSettings": "in this project, only for you",
    "projectSettings": "in this project, for everyone who works on it",
    "userSettings": "in all of your projects",
}


def _suggestion(suggestion: JsonObject) -> str:
    destination = text(suggestion.get("destination"))
    where = _DESTINATIONS.get(
        destination, f"kept in {destination or 'a place that it does not name'}"
    )
    match suggestion.get("type"):
        case "addRules" if suggestion.get("behavior") == "allow":
            rules = [_rule(rule) for rule in objects(suggestion.get("rules"))]
            return f"run {' and '.join(rules)} without asking, {where}" if rules else ""
        case "addDirectories":
            folders = [text(folder) for folder in items(suggestion.get("directories"))]
            return (
                f"work in {' and '.join(folders)} as in its own directory, {where}"
                if folders
                else ""
            )
        case "setMode":
            mode = text(suggestion.get("mode"))
            return (
                f"{_MODES.get(mode, f'change to its permission mode {mode}')}, {where}"
                if mode
                else ""
            )
        case _:
            return ""


def _rule(rule: JsonObject) -> str:
    content = text(rule.get("ruleContent"))
    tool = text(rule.get("toolName"))
    return f"{tool} calls that fit `{content}`" if content else f"every call of {tool}"


# Questions from the agent
# --------------------------------------------------------------------------------------------------


def _questions_only(arguments: JsonObject) -> JsonObject:
    """Return the questions without their answers, so that calls with the same questions have equal
    arguments.
    """
    return {"questions": arguments.get("questions")}


def questions_of(arguments: JsonObject, *, gates: bool) -> hook_agent.HookEvent:
    """Return the questions in a call to Claude Code's tool `AskUserQuestion` as a form."""
    from midturn.question.form import Form  # imported here, because few calls ask questions

    listed = objects(arguments.get("questions"))
    texts = [text(asked.get("question")) for asked in listed]
    if len(set(texts)) != len(texts):
        return hook_agent.Unaskable(
            why="two questions have the same text, so their answers could not be told apart",
            gates=gates,
        )
    try:
        asked = [
            _question(number, single_line(said), question)
            for number, (said, question) in enumerate(zip(texts, listed, strict=True))
        ]
        form = Form.from_json(asked)
    except QuestionError as error:
        return hook_agent.Unaskable(why=str(error), gates=gates)
    return hook_agent.PutForm(
        id="", tool=ASKS, arguments=_questions_only(arguments), form=form, gates=gates
    )


def _question(number: int, line: str, asked: JsonObject) -> Json:
    said = text(asked.get("question"))
    options: list[Json] = [_option(option) for option in objects(asked.get("options"))]
    kind = "multi_select" if asked.get("multiSelect") is True else "select"
    answer_type: JsonObject = (
        {"type": kind, "options": options, "allow_other": True} if options else {"type": "text"}
    )
    return {
        "id": f"q{number}",
        "text": line,
        "answer_type": answer_type,
        **({} if line == said else {"context": said}),
    }


def _option(option: JsonObject) -> Json:
    texts = {
        "description": text(option.get("description")),
        "preview": cut_to_bytes(text(option.get("preview")), DEFAULT_LIMITS.context),
    }
    return {
        "value": text(option.get("label")),
        **{name: said for name, said in texts.items() if said},
    }


def answers_by_text(form: Form, given: FormCompleted) -> dict[str, Json]:
    """Return the answers by question text, in the format of the agent's own dialog. Several labels
    are joined by commas.
    """
    return {
        question.context or question.text: model_messages.answer_with_reason(given, question.id)
        for question in form.questions
    }


# Questions from MCP servers
# --------------------------------------------------------------------------------------------------


def _elicitation(document: JsonObject, *, unattended: bool) -> hook_agent.HookEvent:
    server = text(document.get("mcp_server_name")) or "server"
    if document.get("mode") not in ("form", None, ""):
        return hook_agent.Nothing()  # only Claude Code's own dialog can open a web address
    message = f"The MCP server {server} asks: {text(document.get('message'))}"
    try:
        elicited = hook_agent.elicited(document.get("requested_schema"), message)
    except QuestionError:
        return hook_agent.Nothing()  # Claude Code's own dialog may support this schema
    arguments: JsonObject = {
        "message": document.get("message"),
        "requested_schema": document.get("requested_schema"),
    }
    return hook_agent.PutElicitation(
        id="",
        tool=f"mcp__{server}",
        arguments=arguments,
        form=elicited.form,
        gates=unattended,
        seconds=None if unattended else hook_agent.HIDDEN,
    )


def _elicited(document: JsonObject, outcome: Decided) -> hook_agent.HookOutput:
    answer: dict[str, Json] = {"hookEventName": "Elicitation"}
    match outcome:
        case FormCompleted(answers):
            elicited = hook_agent.elicited(document.get("requested_schema"), "")
            return hook_agent.HookOutput(
                {
                    "hookSpecificOutput": {
                        **answer,
                        "action": "accept",
                        "content": elicited.content(answers),
                    }
                }
            )
        case RepliedTo() | Refused():
            return hook_agent.HookOutput({"hookSpecificOutput": {**answer, "action": "decline"}})
        case TurnStopped():
            return hook_agent.HookOutput({"hookSpecificOutput": {**answer, "action": "cancel"}})
        case Approved() | DecidedElsewhere():
            return hook_agent.HookOutput()
