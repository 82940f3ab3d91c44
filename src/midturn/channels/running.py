"""Runs a channel: sends what is open to those whose it is, takes what they answer, and keeps their cards true.

One rule makes it simple: **`_see_to(question)` compares what should be there with what is there**, and does the difference. What should be
there follows from the store alone: a card for each person (or room) that the question is put to, as it stands now; none once it is over.
What is there is in the ledger. So it does not matter why one looks: a question was asked, answered elsewhere, passed on or voted on, a
person was paired, the process was started again, or a message could not be changed a minute ago.

An answer goes into the store as every other one does (`store.answer`), with the person's name and the channel's kind: who may, whether it
fits, and who was first is decided there. A form is walked in memory, as on the page; what was answered so far is kept with the card.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.channels.card import (
    AGAIN,
    BACK,
    CONFIRM,
    ELSEWHERE,
    NO,
    OPTION,
    REPLY,
    SKIP,
    TOO_LONG,
    YES,
    Draft,
    Said,
    chosen,
    draft_of,
    meant,
)
from midturn.channels.ledger import Ledger, Sent, Taking, token_of, with_tokens
from midturn.channels.port import Card, Channel, ChannelAway, ChannelRefused, Choice, Reply
from midturn.clock import Outage, now
from midturn.errors import AlreadyAnswered, AnswerError, NotAllowed, NotOpen, Problem, QuestionError, StoreError
from midturn.prompts.answer_text import problem_text, value_text
from midturn.question.answer_type import TextType
from midturn.record.events import AnsweredBy, Event, Notified
from midturn.record.open_question import OpenQuestion, holds_secret
from midturn.record.prompt import Prompt
from midturn.store.metadata import event_ids
from midturn.store.store import ConversationStore
from midturn.store.watching import StoreChange
from midturn.turn.view import describe
from midturn.turn.visit import Visit
from midturn.values.json_value import Json, SecretValue
from midturn.values.text import exact
from midturn.web.board import Board
from midturn.web.resuming import Vault
from midturn.web.walk import FormWalk

_LOG = logging.getLogger("midturn.channels")
_RENEW: Final = 10.0  # seconds between two renewals of the lease
_LOOK: Final = 10.0  # seconds after which questions of certain people are looked at anyway: they may have been passed on
_AGAIN: Final = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds until the next try, where the platform does not say
_STRANGERS: Final = 600.0  # seconds between two lines about strangers
_PAGE: Final = 500
_MOST_CLOSED: Final = 5_000  # buttons of cards that are over, which are known for a while
BEFORE: Final = "That was about what stood here before. This is asked now."


class ChannelSettings(Struct, frozen=True, kw_only=True):
    """How a channel is used. `asks` are the kinds of questions that are sent, `people` those who get them (empty: everyone who is paired).

    `rooms` are where they are sent instead; only those that are named, for others read there. `where` says where the questions come from.
    """

    name: str
    asks: tuple[str, ...] = ("tool", "run", "deliver", "review")
    people: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    where: str = ""


class _Recipient(Struct, frozen=True):
    """An account or room that a card is for, and whose it is: nobody's alone in a room."""

    to: str
    person: str = ""


class ChannelRun:
    """One channel on one store."""

    def __init__(self, board: Board, channel: Channel, settings: ChannelSettings) -> None:
        """Run `channel` for the store of `board`."""
        self._board = board
        self._store: ConversationStore = board.port.store
        self._channel = channel
        self._settings = settings
        self._ledger = Ledger(self._store.port, now)
        self._holder = secrets.token_hex(8)
        self._cards: dict[str, Sent] = {}
        self._over: dict[str, str] = {}  # by question: what became of it
        self._closed: OrderedDict[str, tuple[Sent, str]] = OrderedDict()  # by token: for who presses a button too late
        self._taking: Taking | None = None
        self._changing = asyncio.Lock()  # of the cards: a reply is taken whole, or a card is written whole
        self._notices: dict[str, str] = {}  # by card
        self._due: dict[str, float] = {}  # by question: when to see to it
        self._woken = asyncio.Event()
        self._away = Outage(_LOG, f"the channel {settings.name} is back")
        self._strangers = 0
        self._strangers_told = -_STRANGERS

    async def run(self) -> None:
        """Send and take until cancelled. Where another server runs the channel, wait for it to end."""
        while True:
            _heed_cancellation()
            await self._take_lease()
            try:
                await self._run()
            except* (ChannelAway, ChannelRefused, StoreError) as broken:
                error = broken.exceptions[0]
                self._away.noticed("the channel %s cannot be used for now: %s", self._settings.name, error)
                await asyncio.sleep(getattr(error, "after", None) or _AGAIN[-2])
            finally:
                with suppress(StoreError):
                    await asyncio.shield(self._ledger.release(self._settings.name, self._holder))

    async def _take_lease(self) -> None:
        while not await self._ledger.leased(self._settings.name, self._holder):  # noqa: ASYNC110  another process tells of nothing
            await asyncio.sleep(_RENEW)

    async def _run(self) -> None:
        self._board.listeners.append(self._hear)
        try:
            await self._channel.open(await self._ledger.memory(self._settings.name))
            self._cards = await self._ledger.cards(self._settings.name)
            self._taking = await self._ledger.taking(self._settings.name)
            await self._board.fresh()
            await self._see_to_all()
            self._away.over()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._renew())
                tasks.create_task(self._listen())
                tasks.create_task(self._send())
        finally:
            self._board.listeners.remove(self._hear)
            await self._channel.close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW)
            if not await self._ledger.leased(self._settings.name, self._holder):
                raise ChannelAway("another server runs it", after=_RENEW)

    # What should be there, and what is -----------------------------------------------------------------------------------------

    def _hear(self, change: StoreChange) -> None:
        if change.kind in ("answered", "withdrawn"):
            by = describe(change.answered_by)
            self._over[change.id] = f"Answered by {exact(by)}." if by else "It is not asked any more."
        if change.id:
            self._mark(change.id)

    def _mark(self, question: str, seconds: float = 0.0) -> None:
        """Have a question seen to."""
        self._due[question] = min(self._due.get(question, float("inf")), time.monotonic() + seconds)
        self._woken.set()

    async def _see_to_all(self) -> None:
        last = None
        while page := await self._board.port.pending(after=last, limit=_PAGE):
            last = page[-1].id
            for question in page:
                self._mark(question.id)
        for sent in self._cards.values():
            self._mark(sent.question)

    async def _send(self) -> None:
        """See to what is due, one question after the other, as fast as the platform takes it."""
        tries = 0
        while True:
            _heed_cancellation()
            self._woken.clear()
            soon = min(self._due.values(), default=time.monotonic() + _LOOK)
            with suppress(TimeoutError):  # `wait_for` could take a cancellation for the bell (Python 3.11)
                async with asyncio.timeout(max(0.0, soon - time.monotonic())):
                    await self._woken.wait()
            for question in [question for question, when in self._due.items() if when <= time.monotonic()]:
                del self._due[question]
                try:
                    await self._see_to(question)
                    tries = 0
                    self._away.over()
                except ChannelAway as away:
                    self._away.noticed("the channel %s does not take messages for now: %s", self._settings.name, away)
                    pause = away.after if away.after is not None else _AGAIN[min(tries, len(_AGAIN) - 1)]
                    tries += 1
                    self._mark(question, pause)
                    await asyncio.sleep(min(pause, _AGAIN[-1]))

    async def _see_to(self, id: str) -> None:
        question = await self._board.find(id)
        sent = {card.to: card for card in self._cards.values() if card.question == id}
        if question is None:
            for card in sent.values():
                await self._close(card, self._over.get(id, "It is over."))
            self._over.pop(id, None)
            return
        wanted = {recipient.to: recipient for recipient in await self._recipients(question)}
        for to, card in sent.items():
            if to not in wanted:
                await self._close(card, "It is put to others now.")
        for recipient in wanted.values():
            await self._put(question, recipient)
        if question.whose is not None or question.deadline:
            self._mark(id, _LOOK)

    async def _recipients(self, question: OpenQuestion) -> list[_Recipient]:
        """Return who gets a card: those whose question it is, as far as they are paired here."""
        if question.kind not in self._settings.asks or holds_secret(question):
            return []
        whose = question.whose
        needs_names = question.question.exclusive or (whose is not None and (whose.eligible is not None or whose.needed > 1))
        if needs_names and not self._channel.fits.has_names:
            return []
        paired = [pairing for pairing in await self._ledger.pairings() if pairing.kind == self._channel.kind]
        here = [pairing for pairing in paired if not self._channel.fits.only or pairing.account in self._channel.fits.only]
        known = [pairing for pairing in here if not self._settings.people or pairing.person in self._settings.people]
        if whose is not None and whose.ask:
            asked = whose.people.people_of(whose.ask)
            return [_Recipient(pairing.account, pairing.person) for pairing in known if pairing.person in asked]
        if self._settings.rooms:
            return [_Recipient(room) for room in self._settings.rooms]
        return [_Recipient(pairing.account, pairing.person) for pairing in known]

    # Cards -------------------------------------------------------------------------------------------------------------------

    async def _put(self, question: OpenQuestion, recipient: _Recipient) -> None:
        """Send a card, or change it, unless it is there as it should be."""
        key = hashlib.sha256(f"{question.id}\n{recipient.to}".encode()).hexdigest()[:24]
        async with self._changing:
            reserved = await self._reserved(question, Sent(key=key, question=question.id, to=recipient.to, person=recipient.person))
        if reserved is None:
            return
        sent, card = reserved
        try:
            if sent.handle:
                await self._channel.update(sent.handle, card)
                await self._keep_there(sent)
                return
            handle = await self._channel.send(card)
        except ChannelRefused as refused:
            _LOG.warning("a card of the channel %s could not be sent: %s", self._settings.name, refused)
            return
        except ChannelAway:
            self._notices.setdefault(key, card.notice)
            raise
        await self._keep_there(replace(sent, handle=handle))
        where = {"channel": self._settings.name, "message": handle}
        sent_to = Notified(id="", about="sent", to=(recipient.person or recipient.to,), metadata={**where})
        with suppress(NotOpen, NotAllowed, AlreadyAnswered):  # it was answered meanwhile
            await self._store.note(question.id, sent_to)

    async def _reserved(self, question: OpenQuestion, new: Sent) -> tuple[Sent, Card] | None:
        """Keep a card as it is to be sent, and return it; None where there is nothing to send."""
        sent = self._cards.get(new.key, new)
        try:
            prompt = self._prompt(question, await self._turn(question), sent.steps)
        except (NotOpen, AlreadyAnswered, QuestionError):
            return None  # it is closed right now, or of a newer version
        draft, acts = self._draft(question, prompt, sent)
        notice, about = self._notices.pop(sent.key, ""), _digest(draft)
        if sent.handle and sent.there == about and not notice:
            return None  # what was said about the last reply stays
        if sent.about == about and sent.tokens:  # one of its buttons may be pressed right now, or the card is there twice: both work
            choices = tuple(Choice(acts[act], token) for token, act in sent.tokens.items() if act in acts)
        else:
            sent, choices = with_tokens(replace(sent, about=about, asked=draft.text), acts)
        sent = replace(sent, tries=sent.tries + (not sent.handle), at=sent.at if sent.there == about else now())
        await self._keep(sent)
        return sent, _card(draft, sent, choices, notice=notice, left=prompt.time_left())

    def _draft(self, question: OpenQuestion, prompt: Prompt, sent: Sent) -> tuple[Draft, dict[str, str]]:
        whose = question.whose.line if question.whose else ""
        draft = draft_of(prompt, self._channel.fits, self._settings.where, whose)
        if sent.pending is not None:
            text = f"You wrote: {value_text(prompt.question, sent.pending)}. Shall it be sent?"
            draft = replace(draft, text=text, lines=(), acts={CONFIRM: "Send it", AGAIN: "No, write again"}, hint='Reply "yes" to send it.')
        return draft, dict(draft.acts)

    async def _close(self, sent: Sent, why: str) -> None:
        """Take the buttons from a card, and say what became of it."""
        await self._say_over(sent, why)
        self._closed.update((token, (sent, why)) for token in (*sent.tokens, *sent.before))
        while len(self._closed) > _MOST_CLOSED:
            self._closed.popitem(last=False)
        self._cards.pop(sent.key, None)
        await self._ledger.drop(self._settings.name, sent)

    async def _say_over(self, sent: Sent, why: str) -> None:
        if sent.handle:
            with suppress(ChannelRefused):  # it is gone, or too old: then no one can press its buttons either
                await self._channel.update(sent.handle, Card(to=sent.to, heading="", text=sent.asked, notice=exact(why), is_over=True))

    # What comes back -----------------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        tries = 0
        while True:
            try:
                async with aclosing(self._channel.replies()) as replies:
                    async for reply in replies:
                        _heed_cancellation()
                        tries = 0
                        await self._take(reply)
            except ChannelAway as away:
                self._away.noticed("the channel %s cannot be heard for now: %s", self._settings.name, away)
                await asyncio.sleep(away.after if away.after is not None else _AGAIN[min(tries, len(_AGAIN) - 1)])
                tries += 1

    async def _take(self, reply: Reply) -> None:
        """Take what came; when this returns, it is on record, or there is nothing to record."""
        person = await self._ledger.person(self._channel.kind, reply.account)
        if not person or not reply.spoken_for:
            await self._take_stranger(reply)
            return
        sent, old = self._about(reply), self._was_about(reply)
        if sent is None and reply.token in self._closed:
            await self._say_over(*self._closed[reply.token])
        elif sent is not None and self._may_take(sent, reply, person):
            async with self._changing:
                if await self._begun(sent, reply):
                    await self._take_about(self._cards.get(sent.key, sent), reply, person)
        elif old is not None and self._may_take(old, reply, person):
            self._say(old, BEFORE)
            self._mark(old.question)
        else:
            _LOG.debug("a reply by %r was about no open card of theirs", person)

    async def _take_about(self, sent: Sent, reply: Reply, person: str) -> None:
        question = await self._board.find(sent.question)
        if question is not None and _was_before(sent, reply):
            self._say(sent, BEFORE)
        elif question is not None:
            await self._answer(question, sent, reply, person)
            await self._board.look_again()
        self._mark(sent.question)

    def _may_take(self, sent: Sent, reply: Reply, person: str) -> bool:
        if sent.person:
            return sent.person == person and not reply.place
        return reply.place == sent.to and (not self._settings.people or person in self._settings.people)

    async def _begun(self, sent: Sent, reply: Reply) -> bool:
        """Note which card words are about before they do anything; False where they have done it, and are told once more.

        A button needs no such note: its token ends with what it does. Words have none, and would answer what is asked next.
        """
        if reply.token or not reply.id:
            return True
        taking = Taking(reply.id, sent.key, _digest([sent.steps, sent.pending]))
        if self._taking is not None and self._taking.reply == reply.id:
            return self._taking == taking
        self._taking = taking
        await self._ledger.take(self._settings.name, taking)
        return True

    async def _take_stranger(self, reply: Reply) -> None:
        """Pair who sends a code; everything else by strangers is counted, and goes no further."""
        if reply.text and not reply.place and reply.spoken_for and len(reply.text) < TOO_LONG:
            for word in reply.text.split()[:4]:
                pairing = await self._ledger.paired(self._channel.kind, reply.account, word)
                if pairing is not None:
                    _LOG.info("an account on %s is %s from now on", self._channel.kind, pairing.person)
                    await self._see_to_all()
                    return
        self._strangers += 1
        if time.monotonic() - self._strangers_told > _STRANGERS:
            self._strangers_told = time.monotonic()
            _LOG.warning("the channel %s has ignored %d messages of accounts that are not paired", self._settings.name, self._strangers)

    def _about(self, reply: Reply) -> Sent | None:
        """Return the card that a reply is about: the one with the button, or the message replied to, or the only one there is."""
        if reply.token:
            found = [card for card in self._cards.values() if card.act(reply.token)]
            return next((card for card in found if card.may_be(reply.handle)), None)
        theirs = [card for card in self._cards.values() if card.to == (reply.place or reply.account)]
        if reply.handle:
            return next((card for card in theirs if card.handle == reply.handle), None)
        return theirs[0] if len(theirs) == 1 else None

    def _was_about(self, reply: Reply) -> Sent | None:
        """Return the card one of whose last buttons it is: it was pressed while the card changed."""
        return next((card for card in self._cards.values() if card.had(reply.token)), None) if reply.token else None

    async def _answer(self, question: OpenQuestion, sent: Sent, reply: Reply, person: str) -> None:
        """Do what a reply means. What does not fit is said on the card."""
        try:
            turn = await self._turn(question)
            who = AnsweredBy("user", via=self._channel.kind, user=person if self._channel.fits.has_names else None)
            await self._store.admission.check_giver(question, who, turn)
            prompt = self._prompt(question, turn, sent.steps)
            said = _said(prompt, sent, reply)
            self._check_shown(question, prompt, sent, said)
            step = _Step(question, turn, prompt, sent.moved_on(reply.token), said or Said(), who, _as_of(self._store, question, reply.at))
            if said is None:
                await self._keep(replace(step.sent, pending=None))
            elif self._is_to_be_confirmed(sent, step, reply):
                await self._keep(replace(step.sent, pending=_value(said)))
            else:
                await self._do(step)
        except (AnswerError, QuestionError) as error:
            self._say(sent, " ".join(problem_text(problem) for problem in error.problems))
        except NotAllowed as error:
            self._say(sent, str(error))
        except (AlreadyAnswered, NotOpen) as late:
            self._over.setdefault(question.id, str(late))

    def _check_shown(self, question: OpenQuestion, prompt: Prompt, sent: Sent, said: Said | None) -> None:
        """Let no one say yes to what they were not shown whole, in words either.

        Raises:
            AnswerError: They were not.
        """
        if said is not None and said.act not in (NO, BACK) and not self._draft(question, prompt, sent)[0].is_whole:
            raise AnswerError([Problem("", ELSEWHERE)])

    def _say(self, sent: Sent, notice: str) -> None:
        """Say something on a card when it is seen to."""
        self._notices[sent.key] = notice

    def _is_to_be_confirmed(self, sent: Sent, step: _Step, reply: Reply) -> bool:
        words = sent.act(reply.token) in ("", REPLY) and sent.pending is None and isinstance(step.prompt.question.answer_type, TextType)
        return self._channel.fits.confirms and words and not step.said.act and step.said.value is not None

    async def _do(self, step: _Step) -> None:
        said, answer = step.said, partial(step.store.answer, step.question.id, user=step.who.user, via=self._channel.kind)
        if step.question.kind == "tool" and step.question.form is not None:
            await self._walk(step)
        elif said.act == BACK:
            await answer(back=True)
        elif step.question.kind == "tool":
            await answer(_value(said), reason=said.reason)
        else:
            about = step.question.about if said.act == YES else ""
            await answer(approve=said.act == YES, reason=said.reason, about=about)

    async def _walk(self, step: _Step) -> None:
        """Take one step of a form; the last one sends it."""
        answer = partial(step.store.answer, step.question.id, user=step.who.user, via=self._channel.kind)
        walk = FormWalk(step.question, step.turn, Vault(), step.sent.steps)
        if step.said.act == BACK and walk.is_at_its_beginning:
            await answer(back=True)
            return
        if step.said.act == BACK:
            walk.back()
        elif step.prompt.kind == "review":
            walk.send()
        else:
            walk.answer(_value(step.said))
        if walk.prompt is None:
            await answer({name: value for name, value in walk.answers().items() if not isinstance(value, SecretValue)})
        else:
            await self._keep(replace(step.sent, steps=tuple(walk.steps), pending=None))

    async def _keep_there(self, sent: Sent) -> None:
        """Keep that a card has arrived. A reply that came meanwhile has moved it on: what it says now is not there yet."""
        async with self._changing:
            known = self._cards.get(sent.key, sent)
            await self._keep(replace(known, handle=sent.handle, there=sent.about if known.tokens == sent.tokens else ""))

    async def _keep(self, sent: Sent) -> None:
        self._cards[sent.key] = await self._ledger.put(self._settings.name, sent)

    def _prompt(self, question: OpenQuestion, turn: Sequence[Event], steps: Sequence[Json]) -> Prompt:
        """Return what a person at a terminal would be shown now.

        Raises:
            NotOpen: It is closed.
            AlreadyAnswered: It was answered meanwhile.
            QuestionError: A newer version asked it.
        """
        if question.kind == "tool" and question.form is not None:
            prompt = FormWalk(question, turn, Vault(), steps).prompt
        else:
            prompt = Visit(turn, question.request.event_id, event_ids(), question.conversation).prompt()
        if prompt is None:
            raise NotOpen(f"The question {question.id} is closed.")
        return prompt.timed(question.asked_at, now)

    async def _turn(self, question: OpenQuestion) -> Sequence[Event]:
        return await self._board.port.last_turn(question.conversation)


def _heed_cancellation() -> None:
    """Raise a cancellation that got lost: `asyncio.wait_for`, which platforms' libraries call, may lose one (Python 3.11)."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _digest(shown: object) -> str:
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


class _Step(Struct, frozen=True):
    """A reply that is about to count: to `prompt`, by `who`, in the store as of the time at which it was written.

    `sent` is the card as it is when the reply has counted: its buttons are spent.
    """

    question: OpenQuestion
    turn: Sequence[Event]
    prompt: Prompt
    sent: Sent
    said: Said
    who: AnsweredBy
    store: ConversationStore


def _as_of(store: ConversationStore, question: OpenQuestion, at: str) -> ConversationStore:
    """Return the store at the time at which a reply was written: before its question's end it counts, also if it is read after that."""
    in_time = bool(at) and question.deadline is not None and at < question.deadline <= now()
    return ConversationStore(store.port, store.admission, _Then(datetime.fromisoformat(at))) if in_time else store


def _was_before(sent: Sent, reply: Reply) -> bool:
    """Return whether words were written before there was what they would answer now, where their time alone ties them to it."""
    if reply.token or not (sent.steps or sent.pending is not None or not reply.handle):
        return False
    is_older = bool(reply.at and sent.at) and datetime.fromisoformat(reply.at) < datetime.fromisoformat(sent.at).replace(microsecond=0)
    return not sent.there or is_older


def _said(prompt: Prompt, sent: Sent, reply: Reply) -> Said | None:
    """Return what a reply means; None where the person wants to write again."""
    act = sent.act(reply.token).removeprefix(REPLY)
    if sent.pending is not None:
        words = reply.text.strip().casefold()
        if act == CONFIRM or (not act and words in ("yes", "y", "send it")):
            return Said(value=sent.pending)
        if act == AGAIN or words in ("no", "n"):
            return None
    if not act:
        return meant(prompt, reply.text)
    if act == SKIP:
        return Said(value=None)
    return Said(value=chosen(prompt, act)) if act.startswith(OPTION) else Said(act)


class _Then:
    """A clock that stands where the platform's stood."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        """Return that time."""
        return self._at


def _value(said: Said) -> Json:
    if said.act in (YES, NO):
        return said.act == YES
    return said.value  # type: ignore[return-value]  # an act stands for the rest


def _card(draft: Draft, sent: Sent, choices: tuple[Choice, ...], *, notice: str, left: str) -> Card:
    return Card(
        to=sent.to,
        token=token_of(sent, REPLY),
        heading=draft.heading,
        text=draft.text,
        lines=draft.lines,
        file=draft.file,
        choices=choices,
        hint=draft.hint,
        notice=exact(notice),
        left=left,
    )


async def run(store: ConversationStore, channels: Sequence[tuple[Channel, ChannelSettings]]) -> None:
    """Run channels on a store until cancelled.

    Args:
        store: Whose questions are sent, and where the answers go.
        channels: What is run, and how.
    """
    from midturn.web.port import Port

    board = Board(Port(store))
    try:
        async with asyncio.TaskGroup() as tasks:
            for channel, settings in channels:
                tasks.create_task(ChannelRun(board, channel, settings).run())
    finally:
        await board.stop()
