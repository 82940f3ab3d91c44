"""The question layer for AI agents. Public names are imported on first use, which keeps
`import midturn` fast.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"

_HOMES: dict[str, str] = {
    ".agent.agent": "Agent",
    ".agent.turn_stream": (
        "Asked ModelRetried QuestionAnswered Streamed ToolFinished ToolStarted TurnEnded"
        " SyncTurnStream TurnStream"
    ),
    ".agent.prompters": "InboxPrompter InputPrompter Rules",
    ".agent.result": "HistoryMessage RunResult TurnUsage",
    ".question.answer_type": (
        "AnswerType BooleanType MultiSelectType SchemaType SecretType SelectOption SelectType"
        " TextType Persistence When"
    ),
    ".question.reply": (
        "Answered Deferred Edited EndedTurn Replied Reply Submitted Unavailable WentBack"
    ),
    ".exchange": (
        "Finished InquiryAsked ModelEvent ModelRequest Part ReasoningDelta ReasoningPart"
        " StructuredPart TextDelta TextPart ToolCallPart ToolDefinition Usage"
    ),
    ".question.form": "Form",
    ".question.walker": "Ask Cancelled Completed FormEnded Review Step FormWalker",
    ".question.json_value": "Limits SecretValue",
    ".events.outcome": "NeedsInput Outcome Success ToolError",
    ".events.prompt": "Prompt FormSubject CallSubject ResultSubject",
    ".question.people": "Escalation People",
    ".question.persisted_question": "PersistedQuestion",
    ".question.question": "Question",
    ".routing.policy": "DetachedPolicy Target",
    ".routing.table": (
        "AskAssistant AskUser Fail Route Suspend UseCached UseConfigured UseDefault route"
    ),
    ".events.types": "Source ToolCall",
    ".events.open_question": "OpenQuestion",
    ".events.provider_view": "sanitize",
    ".errors": (
        "AlreadyAnswered AnswerError Busy CallEnded ConfigError DeadlinePassed MidturnError"
        " ModelError NoConversation NotAllowed NotAnswered NoSuchQuestion NotOpen PersonNeeded"
        " Problem QuestionError StoreError StoreLocked Suspended TooOld DigestMismatch TurnOpen"
    ),
    ".agent.inquirer_call": "InquirerCall",
    ".agent.inquirer": "Inquirer",
    ".mcp.spec": "McpServer",
    ".models.scripted": "FunctionModel ScriptedModel",
    ".models.provider_model": "LibraryModel ProviderModel",
    ".ports": "Model Recorded Tool ToolRun",
    ".prompter": "Prompter",
    ".runtime.external_loop": "CallContent",
    ".stores.answer_service": "Receipt",
    ".stores.conversation": "Conversation",
    ".stores.store": "ConversationStore",
    ".stores.opening": "open_store",
    ".stores.memory_conversations": "MemoryStore",
    ".stores.watching": "StoreChange",
    ".terminal.prompter": "TerminalPrompter",
    ".testing.prompter": "ScriptedPrompter",
    ".tools.asking": (
        "FormAnswers Unanswered ask ask_form ask_form_sync ask_sync try_ask try_ask_form"
        " try_ask_form_sync try_ask_sync ToolContext"
    ),
    ".tools.ask_user_call": "ask_user",
    ".tools.function": "FunctionTool tool",
    ".tools.returned": "Rejected REDACTED",
    ".turn.inputs": "Answer",
    "msgspec": "UNSET",
}
_MODULES = {"channels": "midturn.channels", "events": "midturn.events"}
_APART = ("integrations", "otel", "testing", "web")
"""Public modules that must be imported by their own name."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name from its module (PEP 562), so that `import midturn` does not slow down
    a program's start-up.
    """
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name == "__all__":
        return [*_MODULES, *_HOME_OF]
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(_advice(name))
    value = globals()[name] = getattr(import_module(home, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", *_MODULES, *_HOME_OF])


def _advice(name: str) -> str:
    from midturn.question.text import did_you_mean  # needed only for a wrong name

    if name in _APART:
        return f"`midturn.{name}` is a separate module. Import it with `import midturn.{name}`."
    near = "" if name.startswith("_") else did_you_mean(name, _HOME_OF)
    return f"module 'midturn' has no attribute {name!r}.{near}"
