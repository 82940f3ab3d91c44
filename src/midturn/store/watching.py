"""What happens to the questions of a store, as it happens."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, Literal, Protocol, cast

import msgspec
from msgspec import Struct

from midturn.clock import pause
from midturn.core.events import AnsweredBy, InquiryCancelled
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion
from midturn.errors import StoreError
from midturn.store.conversation import Conversation
from midturn.store.decisions import decision_about

_LOOK = 0.25  # seconds between two looks at a store that hears of nothing
_SHARE = 4  # of the time that a look takes, so that looking is a part of the work and not all of it


class StoreChange(Struct, frozen=True, kw_only=True):
    """One thing that happened.

    `asked`: `question` is open. `answered`: `answered_by` says who answered the question `id`. `withdrawn`: it was closed without an
    answer. `turn_ended`: the last turn of `conversation` is over; `id` is empty.

    Args:
        kind: What happened: one of these words.
    """

    kind: Literal["asked", "answered", "withdrawn", "turn_ended"]
    conversation: str
    id: str = ""
    question: OpenQuestion | None = None
    answered_by: AnsweredBy | None = None

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON; what is not set is left out."""
        shown: dict[str, Json] = {"kind": self.kind, "conversation": self.conversation}
        if self.id:
            shown["id"] = self.id
        if self.question:
            shown["question"] = self.question.to_json()
        if self.answered_by:
            shown["answered_by"] = cast("Json", msgspec.to_builtins(self.answered_by))
        return shown


class Watched(Protocol):
    """What is looked at: the open questions, the conversations whose last turn is open, and how a question was closed."""

    async def pending(self, conversation: str | None = None) -> list[OpenQuestion]:
        """Return the open questions of one conversation, or of all."""
        ...

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return which conversations have an open turn, of all or of one."""
        ...

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        ...


class Watch:
    """Looks at a store again and again, and says what has changed since the last time. The first look finds what is open already."""

    def __init__(self, watched: Watched, conversation: str | None = None) -> None:
        self._watched = watched
        self._conversation = conversation
        self._questions: dict[str, OpenQuestion] = {}
        self._turns: set[str] = set()

    @property
    def questions(self) -> Mapping[str, OpenQuestion]:
        """What was open at the last look, by id."""
        return self._questions

    async def look(self) -> list[StoreChange]:
        """Look, and return what has changed."""
        now = {question.id: question for question in await self._watched.pending(self._conversation)}
        running = await self._watched.open_turns(self._conversation)
        changes = [await self._closed(question) for question in self._questions.values() if question.id not in now]
        asked = [question for question in now.values() if question.id not in self._questions]
        changes += [StoreChange(kind="asked", conversation=one.conversation, id=one.id, question=one) for one in asked]
        changes += [StoreChange(kind="turn_ended", conversation=ended) for ended in sorted(self._turns - running)]
        self._questions, self._turns = now, running
        return changes

    async def _closed(self, question: OpenQuestion) -> StoreChange:
        try:
            decision = decision_about((await self._watched.read(question.conversation)).events, question.request.event_id)
        except StoreError:  # it was removed
            decision = None
        if decision is None or isinstance(decision, InquiryCancelled):
            return StoreChange(kind="withdrawn", conversation=question.conversation, id=question.id)
        return StoreChange(kind="answered", conversation=question.conversation, id=question.id, answered_by=decision.answered_by)


async def time_to_look(since: int) -> int:
    """Do for a port what its `stirred` does where nobody tells it of anything."""
    if since:
        await pause(_LOOK)
    return since + 1


async def changes(
    watched: Watched, stirred: Callable[[int], Coroutine[Any, Any, int]], conversation: str | None
) -> AsyncGenerator[StoreChange]:
    """Yield what happens from now on; what is open already comes first. `stirred` is the port's."""
    watch, since = Watch(watched, conversation), 0
    while True:
        since, begun = await stirred(since), time.monotonic()
        for change in await watch.look():
            yield change
        await pause((time.monotonic() - begun) * _SHARE)
