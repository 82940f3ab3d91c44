"""What happens to the questions of a store, as it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, cast

import msgspec
from msgspec import Struct

from midturn.core.events import AnsweredBy, InquiryCancelled
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion
from midturn.errors import StoreError
from midturn.store.clock import pause
from midturn.store.decisions import decision_about
from midturn.store.port import StorePort

_LOOK = 0.25  # seconds between two looks


class StoreChange(Struct, frozen=True, kw_only=True):
    """One thing that happened.

    `asked`: `question` is open. `answered`: `answered_by` says who answered the question `id`. `withdrawn`: it was closed without an
    answer. `turn_ended`: the last turn of `conversation` is over; `id` is empty.
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


async def changes(port: StorePort, conversation: str | None) -> AsyncGenerator[StoreChange]:
    """Yield what happens from now on; what is open already comes first."""
    prefix = "" if conversation is None else f"{conversation}-"
    questions: dict[str, OpenQuestion] = {}
    turns: set[str] = set()
    while True:
        now = {question.id: question for question in await port.questions(prefix)}
        running = set(await port.ids(which="open")) if conversation is None else await _open(port, conversation)
        for gone in [question for question in questions.values() if question.id not in now]:
            yield await _closed(port, gone)
        for question in [question for question in now.values() if question.id not in questions]:
            yield StoreChange(kind="asked", conversation=question.conversation, id=question.id, question=question)
        for ended in sorted(turns - running):
            yield StoreChange(kind="turn_ended", conversation=ended)
        questions, turns = now, running
        await pause(_LOOK)


async def _open(port: StorePort, conversation: str) -> set[str]:
    try:
        turns = (await port.read(conversation)).turns
    except StoreError:  # it was removed
        return set()
    return {conversation} if turns and turns[-1].open else set()


async def _closed(port: StorePort, question: OpenQuestion) -> StoreChange:
    try:
        decision = decision_about((await port.read(question.conversation)).events, question.request.event_id)
    except StoreError:  # it was removed
        decision = None
    if decision is None or isinstance(decision, InquiryCancelled):
        return StoreChange(kind="withdrawn", conversation=question.conversation, id=question.id)
    return StoreChange(kind="answered", conversation=question.conversation, id=question.id, answered_by=decision.answered_by)
