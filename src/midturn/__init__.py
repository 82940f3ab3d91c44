"""The question layer for AI agents. Every public name is loaded on first use, so that `import midturn` costs little."""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_HOMES: dict[str, str] = {
    ".agent.agent": "Agent",
    ".agent.turn_events": "Asked ModelRetried QuestionAnswered Streamed ToolFinished ToolStarted TurnEnded",
    ".agent.inbox_prompter": "InboxPrompter",
    ".agent.input_prompter": "InputPrompter",
    ".agent.history": "HistoryMessage",
    ".agent.result": "RunResult",
    ".agent.rules": "Rules",
    ".agent.turn_stream": "SyncTurnStream TurnStream",
    ".agent.turn_usage": "TurnUsage",
    ".core.question.answer_type": "AnswerType BooleanType MultiSelectType SchemaType SecretType SelectOption SelectType TextType",
    ".core.exchange": (
        "Finished InquiryAsked ModelEvent ModelRequest Part ReasoningDelta "
        "ReasoningPart StructuredPart TextDelta TextPart ToolCallPart ToolDefinition Usage"
    ),
    ".core.form": "Form",
    ".core.form.steps": "Ask Cancelled Completed FormEnded Review Step",
    ".core.form.walker": "FormWalker",
    ".core.limits": "Limits",
    ".core.outcome": "NeedsInput Outcome Success ToolError",
    ".core.prompt": "Prompt",
    ".core.subject": "AnswersSubject CallSubject ResultSubject",
    ".core.tool_call": "ToolCall",
    ".core.question": "Persistence Question When",
    ".core.reply": "Answered Edited EndedTurn Replied Reply Submitted Unavailable WentBack",
    ".core.routing.policy": "DetachedPolicy Target",
    ".core.routing.table": "AskAssistant AskUser Fail Route Suspend UseCached UseConfigured UseDefault route",
    ".core.secret": "SecretValue",
    ".core.source": "Source",
    ".core.stream": "OpenQuestion sanitize",
    ".errors": (
        "AlreadyAnswered AnswerError Busy CallEnded ConfigError MidturnError ModelError "
        "NotAllowed NotOpen PersonNeeded Problem QuestionError StoreError StoreLocked Suspended TurnOpen"
    ),
    ".inquirer.call": "InquirerCall",
    ".inquirer.inquirer": "Inquirer",
    ".models.function": "FunctionModel",
    ".models.library_model": "LibraryModel",
    ".models.provider_model": "ProviderModel",
    ".models.scripted": "ScriptedModel",
    ".ports": "Model Tool ToolRun",
    ".prompter": "Prompter",
    ".runtime.foreign_turn": "CallContent",
    ".store.outside_answers": "Receipt",
    ".store.conversation": "Conversation",
    ".store.store": "ConversationStore",
    ".store.opening": "open_store",
    ".store.memory_store": "MemoryStore",
    ".store.store_change": "StoreChange",
    ".terminal.prompter": "TerminalPrompter",
    ".testing.prompter": "ScriptedPrompter",
    ".tools.answers": "Answer FormAnswers Unanswered",
    ".tools.ask_user": "ask_user",
    ".tools.asker": "ask ask_form ask_form_sync ask_sync try_ask try_ask_sync",
    ".tools.context": "ToolContext",
    ".tools.function": "FunctionTool tool",
    ".tools.returned": "Rejected",
    ".tools.scrub": "REDACTED",
    "msgspec": "UNSET",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name from its home (PEP 562)."""
    if name == "events":
        return import_module("midturn.core.events")
    if name == "__all__":
        return ["events", *_HOME_OF]
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(_advice(name))
    value = globals()[name] = getattr(_loaded(home), name)
    return value


def _loaded(home: str) -> object:
    from midturn.collector import loading  # only where something is loaded

    with loading():
        return import_module(home, __name__)


def __dir__() -> list[str]:
    return sorted(["__version__", "events", *_HOME_OF])


def _advice(name: str) -> str:
    from midturn.core.suggestion import did_you_mean  # only where a name is wrong

    near = "" if name.startswith("_") else did_you_mean(name, _HOME_OF)
    return f"module 'midturn' has no attribute {name!r}.{near}"
