"""`midturn answer` without a VALUE: the person at the terminal is asked as the turn would ask, question by question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from msgspec import Struct, structs

from midturn.cli.answer.parameters import parameters_of
from midturn.cli.asking import terminal
from midturn.cli.place import Place
from midturn.config.settings import Settings
from midturn.core.events import AnsweredBy, Event
from midturn.core.json_value import Json, JsonObject
from midturn.core.prompt import Prompt
from midturn.core.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, Unavailable, WentBack
from midturn.core.stream import OpenQuestion
from midturn.core.turn.visit import Visit
from midturn.errors import AnswerError, NotOpen, Problem
from midturn.prompter import Prompter, ask_once
from midturn.store.ids import event_ids
from midturn.store.port import HeldBy
from midturn.store.store import ConversationStore
from midturn.store.visiting import StoredVisit

VIA = "inbox"
_THE_HOLDER_GOES_BACK = "Answers that are on record are changed where the turn runs: the process that holds it asks them again."


def answer_here(place: Place, question: OpenQuestion, settings: Settings, reason: str | None) -> Reply:
    """Ask until the form is done; return the last reply. `reason` explains an answer that comes without one.

    Where nobody holds the conversation, each reply is recorded before the next question is shown, so that what was answered stays
    answered if this terminal goes away. To a process that holds it, the answers are handed over together.

    Raises:
        AnswerError: Nobody could be asked, or the answer came too late to fit.
        NotOpen: Somebody else was faster.
    """
    store = place.store
    last = store.run_sync("look", store.port.look(question.conversation))
    if isinstance(last, HeldBy):
        visiting: _Visiting = _Rehearsal(store, question, last.turn.events)
    else:
        visiting = StoredVisit(store, question, last.turn.events, VIA)
    asks = _Asks(question.source.header, reason, parameters_of(place, question))
    return asyncio.run(_walk(terminal(settings), visiting, asks))


class _Asks(Struct, frozen=True):
    """What every prompt of a visit is shown with: who asks, why it is answered so, what edited arguments must fit."""

    header: str
    reason: str | None
    parameters: JsonObject


class _Visiting(Protocol):
    def prompt(self) -> Prompt | None: ...

    async def take(self, reply: Reply) -> None: ...


async def _walk(prompter: Prompter, visiting: _Visiting, asks: _Asks) -> Reply:
    """Ask what there is to ask; a reply that does not fit is asked for again."""
    reply: Reply = Unavailable()
    error: str | None = None
    while prompt := visiting.prompt():
        shown = structs.replace(prompt, asked_by=asks.header, parameters=asks.parameters, error=error or prompt.error)
        reply = await ask_once(prompter, shown)
        if isinstance(reply, Unavailable):
            raise AnswerError([Problem("", "Nobody could be asked: name a VALUE, or answer at a terminal.")])
        reply = _with_reason(reply, asks.reason)
        try:
            await visiting.take(reply)
            error = None
        except AnswerError as misfit:
            if visiting.prompt() is None:
                raise
            error = str(misfit)
        else:
            if isinstance(reply, EndedTurn | Replied):
                break
    return reply


def _with_reason(reply: Reply, reason: str | None) -> Reply:
    """Add the reason that was given on the command line where the person has typed none; that of a review is the reason of its yes."""
    match reply:
        case Answered(reason=None):
            return structs.replace(reply, reason=reason)
        case Submitted() if reason:
            return Answered(value=True, reason=reason)
        case _:
            return reply


class _Rehearsal:
    """Answers for the process that holds the conversation: walked in memory, and handed over when there are all of them."""

    def __init__(self, store: ConversationStore, question: OpenQuestion, turn: Sequence[Event]) -> None:
        self._store = store
        self._question = question
        self._visit = Visit(turn, question.request.event_id, event_ids())
        self._given = 0

    def prompt(self) -> Prompt | None:
        """Return what to show next; Back goes no further than to what was answered here."""
        prompt = self._visit.prompt()
        if prompt is None:
            return None
        can_go_back = prompt.can_go_back and self._given > 0
        return structs.replace(prompt, conversation=self._question.conversation, can_go_back=can_go_back, may_remember=False)

    async def take(self, reply: Reply) -> None:
        """Walk on; hand everything over with the last answer."""
        form = self._visit.form
        is_whole = self._question.kind == "tool" and form is not None and len(form.questions) > 1
        match reply:
            case Replied(text):
                await self._hand_over(reply=text or "")
            case EndedTurn():
                await self._hand_over(cancel=True)
            case WentBack() if self._given == 0:
                raise NotOpen(_THE_HOLDER_GOES_BACK)
            case Answered(value, reason=reason) if not is_whole and self._question.kind == "tool":
                await self._hand_over(value=cast("Json", value), reason=reason)
            case Answered(value, reason=reason) if not is_whole:
                await self._hand_over(approve=value is True, reason=reason)
            case Submitted() if not is_whole:
                await self._hand_over(approve=True)
            case Edited(value) if not is_whole:
                await self._hand_over(**{"content" if self._question.kind == "deliver" else "arguments": value})
            case _:
                self._rehearse(reply)
                if self._visit.prompt() is None:
                    optional = {one.id for one in form.questions if one.optional} if form else set[str]()
                    answers = {key: value for key, value in self._visit.answers.items() if value is not None or key in optional}
                    await self._hand_over(value=answers)

    def _rehearse(self, reply: Reply) -> None:
        self._visit.take(reply, AnsweredBy("user", via=VIA))
        self._given += -1 if isinstance(reply, WentBack) else 1

    async def _hand_over(self, **how: object) -> None:
        await self._store.answer(self._question.id, via=VIA, **how)  # type: ignore[arg-type]  # one of its own parameters
