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
from midturn.ports import Model as Model, Tool as Tool
from midturn.runtime.prompter import Prompter as Prompter
from midturn.store.conversation import Conversation as Conversation
from midturn.store.memory_store import MemoryStore as MemoryStore
from midturn.store.store import ConversationStore as ConversationStore, open_store as open_store
from midturn.terminal.prompter import TerminalPrompter as TerminalPrompter
from midturn.testing.prompter import ScriptedPrompter as ScriptedPrompter
from midturn.tools.context import Answer as Answer, ToolContext as ToolContext, Unanswered as Unanswered
from midturn.tools.function import tool as tool
from midturn.tools.returned import Rejected as Rejected

__version__: str
