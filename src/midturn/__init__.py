"""The question layer for AI agents (spec 8b). Every public name is loaded on first use, so that `import midturn` costs little."""

from __future__ import annotations

from importlib import import_module

_HOMES: dict[str, str] = {
    "agent.agent": "Agent",
    "agent.happenings": "Asked QuestionAnswered ToolFinished ToolStarted TurnEnded",
    "agent.result": "RunResult",
    "core.answer_type": "AnswerType BooleanType MultiSelectType SchemaType SecretType SelectOption SelectType TextType",
    "core.exchange": "TextDelta",
    "core.form.form": "Form",
    "core.form.steps": "Ask Cancelled Completed FormEnded Review",
    "core.form.walker": "FormWalker",
    "core.limits": "Limits",
    "core.outcome": "NeedsInput Outcome Success ToolError",
    "core.prompt": "Prompt",
    "core.question": "Persistence Question When",
    "core.reply": "Answered Edited EndedTurn Replied Reply Submitted Unavailable WentBack",
    "core.routing": "AskAssistant AskUser DetachedPolicy Fail Route Suspend Target UseCached UseConfigured UseDefault route",
    "core.secret": "SecretValue",
    "core.stream": "OpenQuestion sanitize",
    "errors": ("AlreadyAnswered AnswerError ConfigError MidturnError ModelError NotOpen QuestionError StoreError StoreLocked Suspended"),
    "models.function": "FunctionModel",
    "models.scripted": "ScriptedModel",
    "ports": "Model Tool",
    "runtime.prompter": "Prompter",
    "store.conversation": "Conversation",
    "store.memory_store": "MemoryStore",
    "store.store": "ConversationStore open_store",
    "terminal.prompter": "TerminalPrompter",
    "testing.prompter": "ScriptedPrompter",
    "tools.context": "Answer ToolContext Unanswered",
    "tools.function": "tool",
    "tools.returned": "Rejected",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name from its home (PEP 562)."""
    if name == "__version__":
        return _version()
    home = _HOME_OF.get(name)
    if name != "events" and home is None:
        raise AttributeError(f"module 'midturn' has no attribute {name!r}")
    value = import_module("midturn.core.events") if home is None else getattr(import_module(f"midturn.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", "events", *_HOME_OF])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # costs more than everything else here

    try:
        return version("midturn")
    except PackageNotFoundError:
        return "0+unknown"
