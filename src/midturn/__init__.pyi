from msgspec import UNSET as UNSET

from midturn.agent.agent import Agent as Agent
from midturn.agent.history import HistoryMessage as HistoryMessage
from midturn.agent.inbox_prompter import InboxPrompter as InboxPrompter
from midturn.agent.input_prompter import InputPrompter as InputPrompter
from midturn.agent.result import RunResult as RunResult
from midturn.agent.rules import Rules as Rules
from midturn.agent.turn_events import (
    Asked as Asked,
    ModelRetried as ModelRetried,
    QuestionAnswered as QuestionAnswered,
    Streamed as Streamed,
    ToolFinished as ToolFinished,
    ToolStarted as ToolStarted,
    TurnEnded as TurnEnded,
)
from midturn.agent.turn_stream import SyncTurnStream as SyncTurnStream, TurnStream as TurnStream
from midturn.agent.turn_usage import TurnUsage as TurnUsage
from midturn.core import events as events
from midturn.core.exchange import (
    Finished as Finished,
    InquiryAsked as InquiryAsked,
    ModelEvent as ModelEvent,
    ModelRequest as ModelRequest,
    Part as Part,
    ReasoningDelta as ReasoningDelta,
    ReasoningPart as ReasoningPart,
    StructuredPart as StructuredPart,
    TextDelta as TextDelta,
    TextPart as TextPart,
    ToolCallPart as ToolCallPart,
    ToolDefinition as ToolDefinition,
    Usage as Usage,
)
from midturn.core.form import Form as Form
from midturn.core.form.steps import (
    Ask as Ask,
    Cancelled as Cancelled,
    Completed as Completed,
    FormEnded as FormEnded,
    Review as Review,
    Step as Step,
)
from midturn.core.form.walker import FormWalker as FormWalker
from midturn.core.limits import Limits as Limits
from midturn.core.outcome import NeedsInput as NeedsInput, Outcome as Outcome, Success as Success, ToolError as ToolError
from midturn.core.prompt import (
    Prompt as Prompt,
)
from midturn.core.question import Persistence as Persistence, Question as Question, When as When
from midturn.core.question.answer_type import (
    AnswerType as AnswerType,
    BooleanType as BooleanType,
    MultiSelectType as MultiSelectType,
    SchemaType as SchemaType,
    SecretType as SecretType,
    SelectOption as SelectOption,
    SelectType as SelectType,
    TextType as TextType,
)
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
from midturn.core.routing.policy import (
    DetachedPolicy as DetachedPolicy,
    Target as Target,
)
from midturn.core.routing.table import (
    AskAssistant as AskAssistant,
    AskUser as AskUser,
    Fail as Fail,
    Route as Route,
    Suspend as Suspend,
    UseCached as UseCached,
    UseConfigured as UseConfigured,
    UseDefault as UseDefault,
    route as route,
)
from midturn.core.secret import SecretValue as SecretValue
from midturn.core.source import Source as Source
from midturn.core.stream import OpenQuestion as OpenQuestion, sanitize as sanitize
from midturn.core.subject import (
    AnswersSubject as AnswersSubject,
    CallSubject as CallSubject,
    ResultSubject as ResultSubject,
)
from midturn.core.tool_call import ToolCall as ToolCall
from midturn.errors import (
    AlreadyAnswered as AlreadyAnswered,
    AnswerError as AnswerError,
    Busy as Busy,
    CallEnded as CallEnded,
    ConfigError as ConfigError,
    MidturnError as MidturnError,
    ModelError as ModelError,
    NotAllowed as NotAllowed,
    NotOpen as NotOpen,
    PersonNeeded as PersonNeeded,
    Problem as Problem,
    QuestionError as QuestionError,
    StoreError as StoreError,
    StoreLocked as StoreLocked,
    Suspended as Suspended,
    TurnOpen as TurnOpen,
)
from midturn.inquirer.call import InquirerCall as InquirerCall
from midturn.inquirer.inquirer import Inquirer as Inquirer
from midturn.models.function import FunctionModel as FunctionModel
from midturn.models.library_model import LibraryModel as LibraryModel
from midturn.models.provider_model import ProviderModel as ProviderModel
from midturn.models.scripted import ScriptedModel as ScriptedModel
from midturn.ports import Model as Model, Tool as Tool, ToolRun as ToolRun
from midturn.prompter import Prompter as Prompter
from midturn.runtime.foreign_turn import CallContent as CallContent
from midturn.store.conversation import Conversation as Conversation
from midturn.store.memory_store import MemoryStore as MemoryStore
from midturn.store.opening import open_store as open_store
from midturn.store.outside_answers import Receipt as Receipt
from midturn.store.store import ConversationStore as ConversationStore
from midturn.store.store_change import StoreChange as StoreChange
from midturn.terminal.prompter import TerminalPrompter as TerminalPrompter
from midturn.testing.prompter import ScriptedPrompter as ScriptedPrompter
from midturn.tools.answers import Answer as Answer, FormAnswers as FormAnswers, Unanswered as Unanswered
from midturn.tools.ask_user import ask_user as ask_user
from midturn.tools.asker import (
    ask as ask,
    ask_form as ask_form,
    ask_form_sync as ask_form_sync,
    ask_sync as ask_sync,
    try_ask as try_ask,
    try_ask_sync as try_ask_sync,
)
from midturn.tools.context import ToolContext as ToolContext
from midturn.tools.function import FunctionTool as FunctionTool, tool as tool
from midturn.tools.returned import Rejected as Rejected
from midturn.tools.scrub import REDACTED as REDACTED

__version__: str
