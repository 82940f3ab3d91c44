"""Why an agent ran our hook, and what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Struct

from midturn.values.json_value import Json, JsonObject, items, members, objects, text

if TYPE_CHECKING:
    from midturn.question.form import Form


class Permit(Struct, frozen=True, kw_only=True):
    """May this call run? `gates`: without an answer of ours nobody is asked, so silence would decide; else the agent's own dialog asks.

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
    """A call has run where the agent asks nobody but us: it has gone on, so that nothing stays open of what it was told would."""


class Stopping(Struct, frozen=True, kw_only=True):
    """The agent is about to end its turn; with `waits`, nobody is kept from typing while we wait, for `seconds` or as long as may be."""

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


Occasion: TypeAlias = Permit | PutForm | Done | Ran | Stopping | MovedOn | Unaskable | Nothing


class Said(Struct, frozen=True):
    """What a hook prints, and how it ends. Without a document it says nothing, and the agent decides as if there was no hook."""

    document: Json = None
    status: int = 0
    errors: str = ""


# ----------------------------------------------------------------------------------------------------------------------
# The call of a tool in what an agent says to its hook


_NAMELESS = "tool"  # one of which an agent does not say the name


class HookCall(Struct, frozen=True):
    """Which tool is called, with what, and the agent's own id for the call; empty where it gives none."""

    tool: str
    arguments: JsonObject
    id: str


def call_in(document: JsonObject, tool: str = "tool_name", arguments: str = "tool_input") -> HookCall:
    """Read the call; most agents give its parts the names that Claude Code does."""
    return HookCall(text(document.get(tool)) or _NAMELESS, members(document.get(arguments)), text(document.get("tool_use_id")))


# ----------------------------------------------------------------------------------------------------------------------
# How many seconds hooks may take, the same for every agent


TIMEOUT: Final = 86_400
"""What an agent allows a hook that waits for a person: `midturn hook install` says so in its settings."""
WAIT: Final[float] = TIMEOUT - 60
"""How long such a hook waits: it ends by itself before its agent ends it."""
HIDDEN: Final = 20.0
"""How long an agent's own dialog stays away, where it opens only when our hook has ended."""


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
