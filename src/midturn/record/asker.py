"""Another agent that asks through midturn, its waiting process, and the address of an open question.

Theory of operation
===================

Another agent (Claude Code, an MCP client, an editor) runs its own loop. When it asks, a conversation with one open turn is made for the
question, and its first event carries the `Asker` as metadata. What changes later (another process waits now, the call was
cancelled, the agent was told that the question stays open) is recorded as a further event with the whole `Asker`; `asker_of` takes the
last one. So the state of an asker is a fold of events, too, and every process reads the same one.

**Who waits.** `process` waits for the answer, `serves` is the agent's own process. A `ProcessMark` says more than a number, because numbers
come again: the start of the process, the boot of its machine, and the namespace that counts it. Whether it still lives is not recorded;
the store looks (`store/lock.py`) and fills in `waits`.

**How a question of an agent ends.** It is answered; or the agent's own dialog takes it over (`ends`); or the agent moves on, and the next
errand closes it; or a person ends it. A process that dies ends nothing: the question stays open, and a later process that makes the same
call takes it up.

**Who may answer.** Any user whom the store admits, but never the agent: `itself` marks its process, and what descends from that is refused.

An address names a question outside the machine: `<conversation>-<event id of its request>`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from midturn.record.events import ConfigDelta, Event, Source, TurnStart
from midturn.values.json_value import Json

_KEY = "asker"


class ProcessMark(Struct, frozen=True, omit_defaults=True):
    """A process that is not mixed up with a later one of the same number: when it `started`, and the `boot` of its machine, say so.

    `namespace` names the numbers of processes that it sees: containers of one machine count from 1 each.
    """

    pid: int
    started: str = ""
    boot: str = ""
    namespace: str = ""


class Asker(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who asks: `name` is what people read (`Claude Code`), `agent` is how `midturn hook` calls it, where it is one of those.

    `session` is the agent's own name for its session, `via` how it reached us (`hook`, `mcp`, `acp`). `process` waits for the answer,
    `serves` is the agent's process, as far as that is known, and `waits` whether the former still runs: the store fills it in.
    `itself` is the agent's process where that is certain: what descends from it may not answer. `always` says what the agent would keep
    of a yes to this call: each is an offer of its own, in words that say what it lets through. `refused` says that it asked more, which was
    not taken: it asked too much. `keeps_dialog` says that a dialog of its own may be open about this, and that it hears of nothing until
    that is left.
    `cancelled` says that it has cancelled its call, which leaves the question open; `round` is how often it has done that and asked the
    same again. `ends` is when its hook ends at the latest and its own dialog asks in place of us: the question is over then, whether or not
    anyone could still record that; empty where no dialog follows. `left` says that it was told that the question stays open, or went away
    with it; `defers`, that its run ends with this call, and that it makes the very same call again when it is resumed.
    `said` is what it said last, in one line; `subagent` names the one of its own agents that asks, where it is not the main one.
    """

    name: str
    agent: str = ""
    session: str = ""
    via: str = ""
    cwd: str = ""
    process: ProcessMark | None = None
    serves: ProcessMark | None = None
    itself: ProcessMark | None = None
    waits: bool = False
    always: tuple[str, ...] = ()
    refused: bool = False
    keeps_dialog: bool = False
    cancelled: bool = False
    round: int = 0
    ends: str = ""
    left: bool = False
    defers: bool = False
    said: str = ""
    subagent: str = ""

    @property
    def source(self) -> Source:
        """The source of everything that it asks."""
        return Source("other", f"{self.name}, subagent {self.subagent}" if self.subagent else self.name)

    @property
    def in_own_dialog(self) -> str:
        """What is to be said of a question of it that was not answered before its own dialog opened."""
        return f"it is asked in {self.name}'s own dialog now"

    def has_ended(self, now: str) -> bool:
        """Say whether a question of it is over that is not closed on record, by the time as events carry it: its own dialog has it now."""
        return bool(self.ends) and self.ends <= now

    def to_json(self) -> dict[str, Json]:
        """Return what everybody may see of it."""
        always: dict[str, Json] = {"always": [*self.always]} if self.always else {}
        refused: dict[str, Json] = {"refused": True} if self.refused else {}
        keeps: dict[str, Json] = {"keeps_dialog": True} if self.keeps_dialog else {}
        cancelled: dict[str, Json] = {"cancelled": True} if self.cancelled else {}
        told: dict[str, Json] = {"cwd": self.cwd, "said": self.said, "subagent": self.subagent}
        known = {key: value for key, value in told.items() if value}
        return {"name": self.name, "session": self.session, **known, "waits": self.waits, **always, **refused, **keeps, **cancelled}

    def metadata(self) -> dict[str, Json]:
        """Return what the first event of its turn carries, and a later one where this has changed."""
        return {_KEY: msgspec.to_builtins(msgspec.structs.replace(self, waits=False))}


def asker_of(turn: Sequence[Event]) -> Asker | None:
    """Return who asks in a turn that belongs to another agent; None for one of ours."""
    carried: Json = None
    for event in turn:
        if event.metadata and (isinstance(event, TurnStart) or (carried is not None and isinstance(event, ConfigDelta))):
            carried = event.metadata.get(_KEY, carried)
    try:
        return msgspec.convert(carried, Asker) if carried is not None else None
    except msgspec.ValidationError:  # an edited file, or a later version: it is certainly another agent's turn
        return Asker(name="another agent")


# Addresses of open questions ------------------------------------------------------------------------------------------


class Address(Struct, frozen=True):
    """Where a question is: its conversation, and the `event_id` of its request there."""

    conversation: str
    event_id: str

    def __str__(self) -> str:
        """Return the address as everybody outside the machine writes it."""
        return address(self.conversation, self.event_id)


def address(conversation: str, event_id: str) -> str:
    """Return the address of a question."""
    return f"{conversation}-{event_id}"


def parse_beginning(prefix: str) -> tuple[str, bool]:
    """Return what the beginning of an address says of its conversation, and whether that is all of it."""
    conversation, dash, _ = prefix.partition("-")
    return conversation, bool(dash)


def parse_address(text: str) -> Address | None:
    """Return what an address says; None where the text is no whole address."""
    conversation, dash, event_id = text.partition("-")
    return Address(conversation, event_id) if dash and conversation.isdecimal() and conversation.isascii() and event_id else None
