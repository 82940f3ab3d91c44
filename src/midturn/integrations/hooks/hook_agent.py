"""The agent that runs our hook: how it speaks and was started, why it ran the hook, and what it is told.

A hook of ours runs with every call of an agent, and nearly always has nothing to ask: what reads the agent's document, and this with it,
loads neither what asks nor what waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from midturn.events.open_question import Asker
from midturn.integrations.hooks.model_messages import Decided
from midturn.question.json_value import Json, JsonObject, items, members, objects, text
from midturn.stores.lock import lives, mark, parent, ps

if TYPE_CHECKING:
    from midturn.protocol_forms import Elicited
    from midturn.question.form import Form


class Permit(Struct, frozen=True, kw_only=True):
    """May this call run? `gates`: without an answer of ours no one is asked, so silence would decide; else the agent's own dialog asks.

    `seconds`: how long the agent's own dialog may be kept from its user; None where both are open at the same time. `always`: what the
    agent offers to keep of a yes, each by itself, in words that say what it lets through. `defers`: without an answer its run ends with
    this call, and it makes the very same call again, under the same id, when it is resumed.
    """

    id: str
    tool: str
    arguments: JsonObject
    gates: bool
    seconds: float | None = None
    always: tuple[str, ...] = ()
    defers: bool = False


class PutForm(Struct, frozen=True, kw_only=True):
    """The agent's model, or a server of it, asks something (`gates`, `seconds`, `defers` as in `Permit`)."""

    id: str
    tool: str
    arguments: JsonObject
    form: Form
    gates: bool
    seconds: float | None = None
    defers: bool = False


class PutElicitation(PutForm, frozen=True, kw_only=True):
    """A server has the agent open a dialog: `arguments` are what it shows. Where that is a question of ours, it is in the inbox already."""


class Done(Struct, frozen=True, kw_only=True):
    """A call is over: what we asked about it was decided, here or there."""

    tool: str
    arguments: JsonObject


class Ran(Struct, frozen=True):
    """A call has run where the agent asks only us: it has gone on, so that nothing stays open of what it was told would."""


class Stopping(Struct, frozen=True, kw_only=True):
    """The agent is about to end its turn; with `waits`, no one is kept from typing while we wait, for `seconds` or as long as may be."""

    waits: bool
    seconds: float | None = None


class MovedOn(Struct, frozen=True):
    """The person has said something new, or left: nothing of before is asked any more."""


class Unaskable(Struct, frozen=True, kw_only=True):
    """It cannot be shown to anybody, and why. `gates` as in `Permit`."""

    why: str
    gates: bool


class Nothing(Struct, frozen=True):
    """Nothing that we know of: a later version, or an event that is not ours."""


def elicited(schema: object, message: str) -> Elicited:
    """Return what is asked by a schema as a form.

    Raises:
        QuestionError: No form can ask that.
    """
    from midturn.protocol_forms import form_of  # few calls ask

    return form_of(schema, message, has_own_dialog=True)


Occasion: TypeAlias = Permit | PutForm | Done | Ran | Stopping | MovedOn | Unaskable | Nothing


class Said(Struct, frozen=True):
    """Output and exit status of a hook. Without a document it says nothing, and the agent decides as if there was no hook."""

    document: Json = None
    status: int = 0
    errors: str = ""


# ----------------------------------------------------------------------------------------------------------------------
# The call of a tool in what an agent says to its hook


_NAMELESS = "tool"  # one of which an agent does not say the name


class HookCall(Struct, frozen=True):
    """A tool call as the agent reports it: tool, arguments, and the agent's own id for it, empty where it gives none."""

    tool: str
    arguments: JsonObject
    id: str


def call_in(document: JsonObject, tool: str = "tool_name", arguments: str = "tool_input") -> HookCall:
    """Read the call; most agents give its parts the names that Claude Code does."""
    return HookCall(text(document.get(tool)) or _NAMELESS, members(document.get(arguments)), text(document.get("tool_use_id")))


# ----------------------------------------------------------------------------------------------------------------------
# How many seconds hooks may take, the same for every agent


TIMEOUT: Final = 86_400
"""Seconds that an agent allows a hook that waits for a person; `midturn hook install` writes it into the agent's settings."""
WAIT: Final[float] = TIMEOUT - 60
"""Seconds that such a hook waits: it ends by itself before its agent ends it."""
HIDDEN: Final = 20.0
"""Seconds that an agent's own dialog stays away, where it opens only when our hook has ended."""


# ----------------------------------------------------------------------------------------------------------------------
# What an agent writes down of its session: what it said last, and the plan that it has made. None of it is needed to ask


_END: Final = 1024 * 1024  # bytes from the end that are looked at: what an agent said last is there
_LONGEST: Final = 300  # characters of what it said
_LARGEST_PLAN: Final = 200_000  # bytes
_AGENTS: Final = frozenset({"assistant", "model", "gemini", "agent"})
_TEXTS: Final = frozenset({"", "text", "output_text"})


def last_words(document: JsonObject) -> str:
    """Return what an agent said last, in one line and cut; empty where it does not say where that is, or it cannot be read."""
    said = next((said for entry in _backwards(document) if (said := _said(entry))), "")
    line = " ".join(said.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def plan(document: JsonObject) -> str:
    """Return the plan that a session has written last; empty where none is to be found."""
    named = next((file for entry in _backwards(document) if (file := _plan_file(entry))), "")
    try:
        content = Path(named).read_bytes()[:_LARGEST_PLAN] if named.endswith(".md") else b""
    except (OSError, ValueError):
        return ""
    return content.decode("utf-8", "replace")


def _backwards(document: JsonObject) -> Iterator[JsonObject]:
    """Yield what was written down, the last first."""
    try:
        with Path(text(document.get("transcript_path")) or text(document.get("transcriptPath"))).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _END))
            lines = stream.read().splitlines()
    except (OSError, ValueError):
        return
    for line in reversed(lines):
        try:
            yield members(msgspec.json.decode(line))
        except (ValueError, RecursionError):  # the first may be cut
            continue


def _said(entry: JsonObject) -> str:
    """Return the words of an agent in an entry; agents put them into `message` or `payload`, or beside its `type`."""
    inner = members(entry.get("message")) or members(entry.get("payload")) or entry
    if not _AGENTS & {text(entry.get("type")), text(inner.get("role")), text(inner.get("type"))}:
        return ""
    content = inner.get("content", inner.get("parts", inner.get("text")))
    pieces = [text(part.get("text")) for part in objects(content) if text(part.get("type")) in _TEXTS]
    return text(content) or " ".join([*pieces, *(text(part) for part in items(content))]).strip()


def _plan_file(entry: JsonObject) -> str:
    """Return the file of a plan that an entry names."""
    return text(members(entry.get("attachment")).get("planFilePath"))


SERVER: Final = "midturn"
"""The name of our server in an agent's settings."""


class HookEntry(Struct, frozen=True, kw_only=True):
    """One hook: for which event it runs, for which tools (`matcher`), how long it may take in the agent's own unit.

    `beside`: the agent does not wait for it.
    """

    event: str
    matcher: str | None = None
    timeout: int
    beside: bool = False


class Installation(Struct, frozen=True, kw_only=True):
    """The effect of `midturn hook install` for one agent: the file, its entries, and notes for the user.

    `written`: as Claude Code has hooks, which most agents have taken over, or as Copilot CLI has them. `beside`: what a file that is ours
    alone must say besides.
    """

    file: Path
    entries: tuple[HookEntry, ...]
    advice: str
    killed: str
    """The fate of a call whose hook is killed, in a sentence."""
    written: Literal["claude", "copilot"] = "claude"
    beside: Mapping[str, Json] = {}


class HookAgent(Protocol):
    """The dialect of one agent's hooks."""

    @property
    def key(self) -> str:
        """Its name in `midturn hook NAME`."""
        ...

    @property
    def name(self) -> str:
        """Its name for people."""
        ...

    @property
    def wait(self) -> float:
        """Seconds that a hook of it may wait: less than the agent does."""
        ...

    @property
    def unreadable(self) -> Said:
        """The reply to a document that cannot be read."""
        ...

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the agent's name for its session."""
        ...

    def process(self, environment: Mapping[str, str]) -> int:
        """Return the agent's own process, where it says so; else 0."""
        ...

    def subagent(self, document: JsonObject) -> str:
        """Return the agent's name for the one of its own agents that asks; empty where that is the main one."""
        ...

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> Occasion:
        """Say what the document is about."""
        ...

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> Said:
        """Tell what was decided about a call."""
        ...

    def answered(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> Said:
        """Tell what was answered."""
        ...

    def denied(self, document: JsonObject, message: str) -> Said:
        """Keep a call from running, for a reason that is not a person's."""
        ...

    def left_open(self, document: JsonObject) -> Said:
        """Keep a call from running that was not decided in time; the question stays open."""
        ...

    def goes_on(self, document: JsonObject, message: str) -> Said:
        """Keep the agent from ending its turn, with news."""
        ...


def without_answer(agent: HookAgent, document: JsonObject, occasion: Occasion, message: str) -> Said:
    """Return what an agent is told where no one could be asked: a gate stays closed, and everything else is left to the agent."""
    gates = isinstance(occasion, Permit | PutForm | Unaskable) and occasion.gates
    return agent.denied(document, message) if gates else Said()


def agent_lives(asker: Asker) -> Callable[[], bool]:
    """Return what says whether the agent still runs for which we ask: its process, and the one that started us."""
    began = os.getppid()
    return lambda: os.getppid() == began and lives(asker.serves)


def asker_of(agent: HookAgent, document: JsonObject, environment: Mapping[str, str]) -> Asker:
    """Return who asks in a run of an agent's hook: this process waits, and the agent's own is above it, where that can be told."""
    named = agent.process(environment)
    own = named if is_above(named) else process_of(agent.key)
    return Asker(
        name=agent.name,
        agent=agent.key,
        session=agent.session(document, environment),
        via="hook",
        cwd=text(document.get("cwd")),
        process=mark(os.getpid()),
        serves=mark(own or parent(os.getppid())),
        itself=mark(own) if own else None,
        subagent=agent.subagent(document),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Its session, its process, and how it was started


_FARTHEST = 6
_NAME, _SESSION_ID = 40, 8  # characters of what names a subagent
_PROGRAM = 4  # arguments in which a program's name stands: an interpreter and its own options come before it


class Runs:
    """What hooks of all agents share: their session in the document or in a variable, their process in a variable or not at all."""

    session_variable = ""
    process_variable = ""

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the session's id; empty where it does not say."""
        return text(document.get("session_id")) or environment.get(self.session_variable, "")

    def subagent(self, document: JsonObject) -> str:
        """Return what kind of subagent asks, and the beginning of its id; empty where the main agent does, which has no id."""
        id = text(document.get("agent_id"))  # noqa: A001  the wire's word
        return " ".join(filter(None, (text(document.get("agent_type"))[:_NAME], id[:_SESSION_ID]))) if id else ""

    def process(self, environment: Mapping[str, str]) -> int:
        """Return the agent's own process; 0 where it does not say."""
        given = environment.get(self.process_variable, "")
        return int(given) if given.isdecimal() else 0


def started_with(*names: str) -> Sequence[str]:
    """Return the arguments of the nearest process above us that is one of these programs; none where there is no such process."""
    return next((arguments[1:] for _, arguments in _above(names)), ())


def has_prompt(arguments: Sequence[str]) -> bool:
    """Say whether a program was started with a prompt (`-p`): it has one turn, and asks no one at a terminal."""
    return not {"-p", "--prompt"}.isdisjoint(arguments)


def process_of(*names: str) -> int:
    """Return the nearest process above us that is one of these programs; 0 where there is none that can be told."""
    return next((pid for pid, _ in _above(names)), 0)


def is_above(pid: int) -> bool:
    """Say whether we descend from a process, as an agent's hook does from its agent. The first process of all belongs to no agent."""
    above, steps = os.getppid(), 0
    while above > 1 and above != pid and steps < _FARTHEST:
        above, steps = parent(above), steps + 1
    return above > 1 and above == pid


def _above(names: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes above us that are one of these programs, the nearest first, with their arguments."""
    pid = os.getppid()
    for _ in range(_FARTHEST):
        arguments = _arguments(pid)
        if any(not names_of(word).isdisjoint(names) for word in arguments[:_PROGRAM]):
            yield pid, arguments
        pid = parent(pid)
        if pid <= 1:
            break


def names_of(program: str) -> frozenset[str]:
    """Return what a program's path calls it: its file, and the package that the file is in."""
    path = PurePath(program)
    return frozenset((path.stem, path.parent.name, path.parent.parent.name)) if path.is_absolute() else frozenset((path.stem,))


def _arguments(pid: int) -> list[str]:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).rstrip("\0").split("\0")
    except OSError:
        return ps(pid, "args").split()
