"""The question layer for AI agents (spec 8b). Every public name is loaded on first use, so that `import midturn` costs little."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midturn.agent.agent import Agent as Agent
    from midturn.agent.happenings import (
        Asked as Asked,
        QuestionAnswered as QuestionAnswered,
        ToolFinished as ToolFinished,
        ToolStarted as ToolStarted,
        TurnEnded as TurnEnded,
    )
    from midturn.agent.result import RunResult as RunResult
    from midturn.core import events as events
    from midturn.core.answer_type import (
        AnswerType as AnswerType,
        BooleanType as BooleanType,
        MultiSelectType as MultiSelectType,
        SchemaType as SchemaType,
        SecretType as SecretType,
        SelectOption as SelectOption,
        SelectType as SelectType,
        TextType as TextType,
    )
    from midturn.core.exchange import TextDelta as TextDelta
    from midturn.core.form.form import Form as Form
    from midturn.core.form.steps import (
        Ask as Ask,
        Cancelled as Cancelled,
        Completed as Completed,
        FormEnded as FormEnded,
        Review as Review,
    )
    from midturn.core.form.walker import FormWalker as FormWalker
    from midturn.core.limits import Limits as Limits
    from midturn.core.outcome import NeedsInput as NeedsInput, Outcome as Outcome, Success as Success, ToolError as ToolError
    from midturn.core.prompt import Prompt as Prompt
    from midturn.core.question import Persistence as Persistence, Question as Question, When as When
    from midturn.core.reply import (
        Answered as Answered,
        Edited as Edited,
        EndedTurn as EndedTurn,
        Replied as Replied,
        Reply as Reply,
        Submitted as Submitted,
        Unavailable as Unavailable,
        WentBack as WentBack,
    )
    from midturn.core.routing import (
        AskAssistant as AskAssistant,
        AskUser as AskUser,
        DetachedPolicy as DetachedPolicy,
        Fail as Fail,
        Route as Route,
        Suspend as Suspend,
        Target as Target,
        UseCached as UseCached,
        UseConfigured as UseConfigured,
        UseDefault as UseDefault,
        route as route,
    )
    from midturn.core.secret import SecretValue as SecretValue
    from midturn.core.stream import OpenQuestion as OpenQuestion, sanitize as sanitize
    from midturn.errors import (
        AlreadyAnswered as AlreadyAnswered,
        AnswerError as AnswerError,
        ConfigError as ConfigError,
        MidturnError as MidturnError,
        ModelError as ModelError,
        NotOpen as NotOpen,
        QuestionError as QuestionError,
        StoreError as StoreError,
        StoreLocked as StoreLocked,
        Suspended as Suspended,
    )
    from midturn.models.function import FunctionModel as FunctionModel
    from midturn.models.scripted import ScriptedModel as ScriptedModel
    from midturn.ports import Model as Model, Prompter as Prompter, Tool as Tool
    from midturn.store.conversation import Conversation as Conversation
    from midturn.store.memory_store import MemoryStore as MemoryStore
    from midturn.store.store import ConversationStore as ConversationStore, open_store as open_store
    from midturn.terminal.prompter import TerminalPrompter as TerminalPrompter
    from midturn.testing.scripted_prompter import ScriptedPrompter as ScriptedPrompter
    from midturn.tools.context import Answer as Answer, ToolContext as ToolContext, Unanswered as Unanswered
    from midturn.tools.function import tool as tool
    from midturn.tools.returned import Rejected as Rejected

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
    "ports": "Model Prompter Tool",
    "store.conversation": "Conversation",
    "store.memory_store": "MemoryStore",
    "store.store": "ConversationStore open_store",
    "terminal.prompter": "TerminalPrompter",
    "testing.scripted_prompter": "ScriptedPrompter",
    "tools.context": "Answer ToolContext Unanswered",
    "tools.function": "tool",
    "tools.returned": "Rejected",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", "events", *_HOME_OF]  # pyright: ignore[reportUnsupportedDunderAll]  # one table names every home


def __getattr__(name: str) -> object:
    """Load a public name from its home (PEP 562)."""
    if name == "events":
        return import_module("midturn.core.events")
    if name == "__version__":
        try:
            return version("midturn")
        except PackageNotFoundError:
            return "0+unknown"
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'midturn' has no attribute {name!r}")
    value = getattr(import_module(f"midturn.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
