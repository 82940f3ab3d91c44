from msgspec import UNSET as UNSET

from midturn import channels as channels, events as events
from midturn.agent.agent import Agent as Agent
from midturn.agent.inquirer import Inquirer as Inquirer
from midturn.agent.inquirer_call import InquirerCall as InquirerCall
from midturn.agent.prompters import (
    InboxPrompter as InboxPrompter,
    InputPrompter as InputPrompter,
    Rules as Rules,
)
from midturn.agent.result import (
    HistoryMessage as HistoryMessage,
    RunResult as RunResult,
    TurnUsage as TurnUsage,
)
from midturn.agent.turn_stream import (
    Asked as Asked,
    ModelRetried as ModelRetried,
    QuestionAnswered as QuestionAnswered,
    Streamed as Streamed,
    SyncTurnStream as SyncTurnStream,
    ToolFinished as ToolFinished,
    ToolStarted as ToolStarted,
    TurnEnded as TurnEnded,
    TurnStream as TurnStream,
)
from midturn.errors import (
    AlreadyAnswered as AlreadyAnswered,
    AnswerError as AnswerError,
    Busy as Busy,
    CallEnded as CallEnded,
    ConfigError as ConfigError,
    DeadlinePassed as DeadlinePassed,
    DigestMismatch as DigestMismatch,
    MidturnError as MidturnError,
    ModelError as ModelError,
    NoConversation as NoConversation,
    NoSuchQuestion as NoSuchQuestion,
    NotAllowed as NotAllowed,
    NotAnswered as NotAnswered,
    NotOpen as NotOpen,
    PersonNeeded as PersonNeeded,
    Problem as Problem,
    QuestionError as QuestionError,
    StoreError as StoreError,
    StoreLocked as StoreLocked,
    Suspended as Suspended,
    TooOld as TooOld,
    TurnOpen as TurnOpen,
)
from midturn.events.open_question import OpenQuestion as OpenQuestion
from midturn.events.outcome import (
    NeedsInput as NeedsInput,
    Outcome as Outcome,
    Success as Success,
    ToolError as ToolError,
)
from midturn.events.prompt import (
    CallSubject as CallSubject,
    FormSubject as FormSubject,
    Prompt as Prompt,
    ResultSubject as ResultSubject,
)
from midturn.events.provider_view import sanitize as sanitize
from midturn.events.types import Source as Source, ToolCall as ToolCall
from midturn.exchange import (
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
from midturn.mcp.spec import McpServer as McpServer
from midturn.models.provider_model import (
    LibraryModel as LibraryModel,
    ProviderModel as ProviderModel,
)
from midturn.models.scripted import FunctionModel as FunctionModel, ScriptedModel as ScriptedModel
from midturn.ports import (
    Model as Model,
    Recorded as Recorded,
    Tool as Tool,
    ToolRun as ToolRun,
)
from midturn.prompter import Prompter as Prompter
from midturn.question.answer_type import (
    AnswerType as AnswerType,
    BooleanType as BooleanType,
    MultiSelectType as MultiSelectType,
    Persistence as Persistence,
    SchemaType as SchemaType,
    SecretType as SecretType,
    SelectOption as SelectOption,
    SelectType as SelectType,
    TextType as TextType,
    When as When,
)
from midturn.question.form import Form as Form
from midturn.question.json_value import Limits as Limits, SecretValue as SecretValue
from midturn.question.people import Escalation as Escalation, People as People
from midturn.question.persisted_question import PersistedQuestion as PersistedQuestion
from midturn.question.question import Question as Question
from midturn.question.reply import (
    Answered as Answered,
    Deferred as Deferred,
    Edited as Edited,
    EndedTurn as EndedTurn,
    Replied as Replied,
    Reply as Reply,
    Submitted as Submitted,
    Unavailable as Unavailable,
    WentBack as WentBack,
)
from midturn.question.walker import (
    Ask as Ask,
    Cancelled as Cancelled,
    Completed as Completed,
    FormEnded as FormEnded,
    FormWalker as FormWalker,
    Review as Review,
    Step as Step,
)
from midturn.routing.policy import DetachedPolicy as DetachedPolicy, Target as Target
from midturn.routing.table import (
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
from midturn.runtime.external_loop import CallContent as CallContent
from midturn.stores.answer_service import Receipt as Receipt
from midturn.stores.conversation import Conversation as Conversation
from midturn.stores.memory_conversations import MemoryStore as MemoryStore
from midturn.stores.opening import open_store as open_store
from midturn.stores.store import ConversationStore as ConversationStore
from midturn.stores.watching import StoreChange as StoreChange
from midturn.terminal.prompter import TerminalPrompter as TerminalPrompter
from midturn.testing.prompter import ScriptedPrompter as ScriptedPrompter
from midturn.tools.ask_user_call import ask_user as ask_user
from midturn.tools.asking import (
    FormAnswers as FormAnswers,
    ToolContext as ToolContext,
    Unanswered as Unanswered,
    ask as ask,
    ask_form as ask_form,
    ask_form_sync as ask_form_sync,
    ask_sync as ask_sync,
    try_ask as try_ask,
    try_ask_form as try_ask_form,
    try_ask_form_sync as try_ask_form_sync,
    try_ask_sync as try_ask_sync,
)
from midturn.tools.function import FunctionTool as FunctionTool, tool as tool
from midturn.tools.returned import REDACTED as REDACTED, Rejected as Rejected
from midturn.turn.inputs import Answer as Answer

__version__: str
