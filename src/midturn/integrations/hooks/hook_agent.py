"""Interface to agents that run midturn's hooks: the agent's JSON documents, its process, and the
events of a hook.

An agent runs the hook for every call, and most calls do not ask a question. To start fast, this
module and the modules that read the documents do not import the code that asks and waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks.model_messages import Decided
from midturn.question.json_value import Json, JsonObject, items, members, objects, text
from midturn.stores.lock import lives, mark, parent, ps

if TYPE_CHECKING:
    from midturn.protocol_forms import Elicited
    from midturn.question.form import Form


class Permit(Struct, frozen=True, kw_only=True):
    """Event: the agent asks whether a call may run.

    Args:
        gates: Only midturn asks a person about the call, so an empty output would let the call run.
            If false, the agent's own dialog asks too.
        seconds: Maximum time for which the hook delays the agent's own dialog. None if the dialog
            opens at the same time as midturn's question.
        always: Description of each standing permission that the agent offers.
        defers: Without an answer, the agent's run ends at this call. The resumed run repeats the
            call with the same id.
    """

    id: str
    tool: str
    arguments: JsonObject
    gates: bool
    seconds: float | None = None
    always: tuple[str, ...] = ()
    defers: bool = False


class PutForm(Struct, frozen=True, kw_only=True):
    """Event: the agent's model or one of its MCP servers asks questions. For `gates`, `seconds`
    and `defers` see `Permit`.
    """

    id: str
    tool: str
    arguments: JsonObject
    form: Form
    gates: bool
    seconds: float | None = None
    defers: bool = False


class PutElicitation(PutForm, frozen=True, kw_only=True):
    """Event: the agent opens a dialog for an MCP server. `arguments` is the content of the
    dialog. The dialog may show a question from midturn's own server.
    """


class Done(Struct, frozen=True, kw_only=True):
    """Event: a call has ended. Its question was decided in midturn or in the agent's own dialog."""

    tool: str
    arguments: JsonObject


class Ran(Struct, frozen=True):
    """Event: an agent without a terminal ran a call. The session's earlier open questions are
    obsolete.
    """


class Stopping(Struct, frozen=True, kw_only=True):
    """Event: the agent is about to end its turn. If `waits`, the hook may wait up to `seconds`,
    because no person is typing in the agent.
    """

    waits: bool
    seconds: float | None = None


class MovedOn(Struct, frozen=True):
    """Event: the user sent a new message or left the session. All earlier questions are obsolete."""


class Unaskable(Struct, frozen=True, kw_only=True):
    """Event: a question cannot be shown to a person. `why` is the reason. For `gates` see
    `Permit`.
    """

    why: str
    gates: bool


class Nothing(Struct, frozen=True):
    """Event that midturn ignores."""


def elicited(schema: object, message: str) -> Elicited:
    """Return a form with one question for each field of a schema.

    Raises:
        QuestionError: No form can represent the schema.
    """
    from midturn.protocol_forms import form_of  # imported here, because few calls ask questions

    return form_of(schema, message, has_own_dialog=True)


HookEvent: TypeAlias = Permit | PutForm | Done | Ran | Stopping | MovedOn | Unaskable | Nothing


class HookOutput(Struct, frozen=True):
    """Output and exit status of a hook. If there is no document, the agent continues as if there
    were no hook.
    """

    document: Json = None
    status: int = 0
    errors: str = ""


# --------------------------------------------------------------------------------------------------
# Tool calls in the JSON documents that agents send to hooks


_UNKNOWN_TOOL = "tool"  # name of the tool if the agent does not send the tool's name


class HookCall(Struct, frozen=True):
    """A tool call as reported by the agent. `id` is the agent's own call id, or empty if the agent
    sends none.
    """

    tool: str
    arguments: JsonObject
    id: str


def call_in(
    document: JsonObject, tool: str = "tool_name", arguments: str = "tool_input"
) -> HookCall:
    """Return the call in a document. Most agents use the field names of Claude Code."""
    return HookCall(
        text(document.get(tool)) or _UNKNOWN_TOOL,
        members(document.get(arguments)),
        text(document.get("tool_use_id")),
    )


# --------------------------------------------------------------------------------------------------
# Timeouts of hooks, the same for every agent


TIMEOUT: Final = 86_400
"""Timeout in seconds that `midturn hook install` sets for hooks that wait for a person."""
WAIT: Final[float] = TIMEOUT - 60
"""Time in seconds that a hook waits for a person. It is shorter than `TIMEOUT`, so that the hook
exits before the agent kills it.
"""
HIDDEN: Final = 20.0
"""Maximum time in seconds that a hook delays an agent's own dialog, for agents that open their
dialog only after the hook exits.
"""


# --------------------------------------------------------------------------------------------------
# Transcript files of agents. The last message and the last plan in a transcript can be shown as the
# context of a question.


# number of bytes at the end of the transcript that are searched
_MAX_TRANSCRIPT_TAIL: Final = 1024 * 1024
# maximum length of a message in the context of a question, in characters
_MAX_MESSAGE_LENGTH: Final = 300
_MAX_PLAN_SIZE: Final = 200_000  # maximum size of a plan in the context of a question, in bytes
_AGENT_ROLES: Final = frozenset({"assistant", "model", "gemini", "agent"})
_TEXT_TYPES: Final = frozenset({"", "text", "output_text"})


def last_message(document: JsonObject) -> str:
    """Return the agent's last message, shortened to one line. Empty if the transcript is missing or
    unreadable.
    """
    said = next((said for entry in _reversed_entries(document) if (said := _agent_text(entry))), "")
    line = " ".join(said.split())
    return line if len(line) <= _MAX_MESSAGE_LENGTH else f"{line[:_MAX_MESSAGE_LENGTH]}…"


def last_plan(document: JsonObject) -> str:
    """Return the session's last plan, or an empty string."""
    reported = next(
        (file for entry in _reversed_entries(document) if (file := _plan_file(entry))), ""
    )
    try:
        content = Path(reported).read_bytes()[:_MAX_PLAN_SIZE] if reported.endswith(".md") else b""
    except (OSError, ValueError):
        return ""
    return content.decode("utf-8", "replace")


def _reversed_entries(document: JsonObject) -> Iterator[JsonObject]:
    try:
        with Path(
            text(document.get("transcript_path")) or text(document.get("transcriptPath"))
        ).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _MAX_TRANSCRIPT_TAIL))
            lines = stream.read().splitlines()
    except (OSError, ValueError):
        return
    for line in reversed(lines):
        try:
            yield members(msgspec.json.decode(line))
        except (ValueError, RecursionError):  # the first line may be incomplete
            continue


def _agent_text(entry: JsonObject) -> str:
    """Return the agent's text in an entry. Agents store it in `message`, in `payload`, or next
    to `type`.
    """
    inner = members(entry.get("message")) or members(entry.get("payload")) or entry
    if not _AGENT_ROLES & {
        text(entry.get("type")),
        text(inner.get("role")),
        text(inner.get("type")),
    }:
        return ""
    content = inner.get("content", inner.get("parts", inner.get("text")))
    pieces = [
        text(part.get("text")) for part in objects(content) if text(part.get("type")) in _TEXT_TYPES
    ]
    return text(content) or " ".join([*pieces, *(text(part) for part in items(content))]).strip()


def _plan_file(entry: JsonObject) -> str:
    return text(members(entry.get("attachment")).get("planFilePath"))


SERVER: Final = "midturn"
"""Name of midturn's MCP server in the settings of agents."""


class HookEntry(Struct, frozen=True, kw_only=True):
    """One hook in an agent's settings: its event, the tools (`matcher`), and the timeout in the
    agent's own unit.

    `beside`: whether the agent continues without waiting for the hook.
    """

    event: str
    matcher: str | None = None
    timeout: int
    beside: bool = False


class Installation(Struct, frozen=True, kw_only=True):
    """Changes that `midturn hook install` makes for one agent: the settings file, the entries,
    and notes for the user.

    `written`: format of the hooks: `claude`, which most agents use, or `copilot`. `beside`: other
    members that the file must contain if midturn creates it.
    """

    file: Path
    entries: tuple[HookEntry, ...]
    advice: str
    killed: str
    """A sentence for the user: what happens to a call if its hook is killed."""
    written: Literal["claude", "copilot"] = "claude"
    beside: Mapping[str, Json] = {}


class HookAgent(Protocol):
    """Reads and writes the documents of one agent's hooks."""

    @property
    def key(self) -> str:
        """Name of the agent in `midturn hook NAME`."""
        ...

    @property
    def name(self) -> str:
        """Display name of the agent."""
        ...

    @property
    def wait(self) -> float:
        """Maximum time in seconds that a hook may wait. Less than the agent's own timeout."""
        ...

    @property
    def unreadable(self) -> HookOutput:
        """Output for a document that cannot be read."""
        ...

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the agent's session id."""
        ...

    def process(self, environment: Mapping[str, str]) -> int:
        """Return the process id of the agent, or 0 if it is unknown."""
        ...

    def subagent(self, document: JsonObject) -> str:
        """Return the name of the subagent that asks. Empty for the main agent."""
        ...

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> HookEvent:
        """Return the event that the document describes."""
        ...

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> HookOutput:
        """Return the output for the decision about a call."""
        ...

    def answered(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> HookOutput:
        """Return the output with the answers."""
        ...

    def denied(self, document: JsonObject, message: str) -> HookOutput:
        """Return the output that denies a call for a technical reason."""
        ...

    def left_open(self, document: JsonObject) -> HookOutput:
        """Return the output that denies a call because no person decided in time. The question
        stays open.
        """
        ...

    def goes_on(self, document: JsonObject, message: str) -> HookOutput:
        """Return the output that continues the agent's turn with a message."""
        ...


def without_answer(
    agent: HookAgent, document: JsonObject, occasion: HookEvent, message: str
) -> HookOutput:
    """Return the output if nobody could be asked about an event. The call is denied if only
    midturn asks about it. Otherwise, the agent decides.
    """
    gates = isinstance(occasion, Permit | PutForm | Unaskable) and occasion.gates
    return agent.denied(document, message) if gates else HookOutput()


def agent_watch(asker: AskingAgent) -> Callable[[], bool]:
    """Return a function that returns whether the agent and the parent process of this hook are
    still running.
    """
    began = os.getppid()
    return lambda: os.getppid() == began and lives(asker.serves)


def asker_of(agent: HookAgent, document: JsonObject, environment: Mapping[str, str]) -> AskingAgent:
    """Return the asking agent of a hook run. This process is the process that waits for the answer.
    The agent's process is one of its ancestors, if it is known.
    """
    reported = agent.process(environment)
    pid = reported if is_ancestor(reported) else find_ancestor(agent.key)
    return AskingAgent(
        name=agent.name,
        agent=agent.key,
        session=agent.session(document, environment),
        via="hook",
        cwd=text(document.get("cwd")),
        process=mark(os.getpid()),
        serves=mark(pid or parent(os.getppid())),
        itself=mark(pid) if pid else None,
        subagent=agent.subagent(document),
    )


# --------------------------------------------------------------------------------------------------
# Session and process of the agent


_MAX_ANCESTORS = 6
_MAX_TYPE_LENGTH, _ID_LENGTH = 40, 8  # characters of a subagent's type and id in its name
# number of leading arguments to search for a program's name, which may follow an interpreter and
# its options
_MAX_PROGRAM_INDEX = 4


class HookProcess:
    """Session and process of an agent, read from the document and from environment variables."""

    session_variable = ""
    process_variable = ""

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the session id, or an empty string if it is unknown."""
        return text(document.get("session_id")) or environment.get(self.session_variable, "")

    def subagent(self, document: JsonObject) -> str:
        """Return the type of the subagent and the start of its id. Empty for the main agent,
        because the main agent has no such id.
        """
        id = text(document.get("agent_id"))  # noqa: A001  the wire's word
        return (
            " ".join(
                filter(None, (text(document.get("agent_type"))[:_MAX_TYPE_LENGTH], id[:_ID_LENGTH]))
            )
            if id
            else ""
        )

    def process(self, environment: Mapping[str, str]) -> int:
        """Return the process id of the agent, or 0 if it is unknown."""
        given = environment.get(self.process_variable, "")
        return int(given) if given.isdecimal() else 0


def arguments_of_ancestor(*names: str) -> Sequence[str]:
    """Return the arguments of the nearest ancestor process that runs one of these programs, or
    an empty sequence.
    """
    return next((arguments[1:] for _, arguments in _ancestors(names)), ())


def has_prompt(arguments: Sequence[str]) -> bool:
    """Return whether a program was started with a prompt (`-p`). In that case, it runs one turn
    without a person at a terminal.
    """
    return not {"-p", "--prompt"}.isdisjoint(arguments)


def find_ancestor(*names: str) -> int:
    """Return the id of the nearest ancestor process that runs one of these programs, or 0."""
    return next((pid for pid, _ in _ancestors(names)), 0)


def is_ancestor(pid: int) -> bool:
    """Return whether a process is an ancestor of this one. The init process does not count."""
    above, steps = os.getppid(), 0
    while above > 1 and above != pid and steps < _MAX_ANCESTORS:
        above, steps = parent(above), steps + 1
    return above > 1 and above == pid


def _ancestors(names: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the ancestor processes that run one of these programs, with their arguments, nearest
    first.
    """
    pid = os.getppid()
    for _ in range(_MAX_ANCESTORS):
        arguments = _arguments(pid)
        if any(
            not program_names(word).isdisjoint(names) for word in arguments[:_MAX_PROGRAM_INDEX]
        ):
            yield pid, arguments
        pid = parent(pid)
        if pid <= 1:
            break


def program_names(program: str) -> frozenset[str]:
    """Return the names of a program: its file name, and the package directories in its path."""
    path = PurePath(program)
    return (
        frozenset((path.stem, path.parent.name, path.parent.parent.name))
        if path.is_absolute()
        else frozenset((path.stem,))
    )


def _arguments(pid: int) -> list[str]:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).rstrip("\0").split("\0")
    except OSError:
        return ps(pid, "args").split()
