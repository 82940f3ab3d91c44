"""Why an agent ran our hook, and what it is told."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from midturn.core.form import Form
from midturn.core.json_value import Json, JsonObject


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
