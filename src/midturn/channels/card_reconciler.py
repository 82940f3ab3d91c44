"""The cards of a channel: what should be there, what is, and the difference done.

One rule makes it simple: **`Deck.see_to(question)` compares what should be there with what is there**, and does the difference. What should
be there follows from the store alone: a card for each person (or room) that the question is put to, as it stands now; none once it is over.
What is there is in the ledger. So it does not matter why one looks: a question was asked, answered elsewhere, passed on or voted on, a
person was paired, the process was started again, or a message could not be changed a minute ago.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.channels.card import AGAIN, CONFIRM, REPLY, Draft, asked_back, draft_of
from midturn.channels.port import Card, Channel, ChannelAway, ChannelRefused, ChannelSettings, Choice, Reply
from midturn.channels.state import Ledger, Sent, token_of, with_tokens
from midturn.clock import now
from midturn.errors import AlreadyAnswered, DeadlinePassed, NotAllowed, NotOpen, QuestionError
from midturn.events.open_question import OpenQuestion, holds_secret, parse_address
from midturn.events.prompt import Prompt
from midturn.events.types import Event, Notified
from midturn.inbox.form_session import FormWalk
from midturn.inbox.open_questions import Board
from midturn.inbox.resuming import Vault
from midturn.question.json_value import Json
from midturn.question.people import is_among
from midturn.question.text import exact
from midturn.stores.answer_service import too_late
from midturn.stores.batch import event_ids
from midturn.stores.store import record_notice
from midturn.terminal.prompts.answer_text import value_text
from midturn.turn.visit import Visit

_LOG = logging.getLogger("midturn.channels")
_LOOK: Final = 10.0  # seconds after which questions of certain people are looked at anyway: they may have been passed on
_REFUSED: Final = 300.0  # seconds until what a platform refused is tried again: a token may be good again, a room be entered
_PAGE: Final = 500
_MOST_CLOSED: Final = 5_000  # buttons of cards that are over, which are known for a while


CHANGED: Final = "This was changed before your answer arrived. Nothing was decided; this is asked now."


def fingerprint(shown: object) -> str:
    """Return a short fingerprint of `shown`."""
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


class Due:
    """Which questions are to be seen to, and when."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        self._woken = asyncio.Event()

    def mark(self, question: str, seconds: float = 0.0) -> None:
        """Have a question seen to, in so many seconds at the latest."""
        self._when[question] = min(self._when.get(question, float("inf")), time.monotonic() + seconds)
        self._woken.set()

    async def wait(self) -> None:
        """Return when something may be due."""
        self._woken.clear()
        soon = min(self._when.values(), default=time.monotonic() + _LOOK)
        with suppress(TimeoutError):  # `wait_for` could take a cancellation for the bell (Python 3.11)
            async with asyncio.timeout(max(0.0, soon - time.monotonic())):
                await self._woken.wait()

    def take(self) -> Iterator[str]:
        """Yield what is due; each is seen to from then on."""
        for question in [question for question, when in self._when.items() if when <= time.monotonic()]:
            del self._when[question]
            yield question


def answered_by(who: str) -> str:
    """Return the last words of a card whose question was answered."""
    return f"Answered by {exact(who)}."


def last_words(late: AlreadyAnswered | NotOpen) -> str:
    """Return what a card says of a question that was closed before it was answered here."""
    if isinstance(late, DeadlinePassed):
        return "It is over: its deadline has passed."
    return answered_by(late.by) if isinstance(late, AlreadyAnswered) and late.by else str(late)


class _Recipient(Struct, frozen=True):
    """An account or room that a card is for, and whose it is: in a room, no one's alone."""

    to: str
    person: str = ""

    @property
    def name(self) -> tuple[str]:
        """The name that is recorded: of the person or, in a room, of the room."""
        return (self.person or self.to,)


class Deck:
    """The cards of one channel, and `over`, what became of the questions of some, for their last words.

    What takes several steps holds `changing`: a reply is taken whole, or a card is written whole.
    """

    def __init__(self, board: Board, channel: Channel, settings: ChannelSettings, ledger: Ledger) -> None:
        """Begin with no card; `load` reads those that are there."""
        self.board = board
        self.channel = channel
        self.settings = settings
        self.ledger = ledger
        self.due = Due()
        self.changing = asyncio.Lock()
        self._cards: dict[str, Sent] = {}
        self.over: dict[str, str] = {}  # by question
        self._closed: OrderedDict[str, tuple[Sent, str]] = OrderedDict()  # by token: for who presses a button too late
        self._again: dict[str, tuple[Sent, str]] = {}  # by card: what it says once more
        self._notices: dict[str, str] = {}  # by card
        self._refusals: dict[str, str] = {}  # by account or room
        self._noted: dict[tuple[str, str], str] = {}  # refusals on record, by question and account or room

    async def load(self) -> None:
        """Read which cards are there."""
        self._cards = await self.ledger.cards(self.settings.name)

    async def see_to_all(self) -> None:
        """Have everything seen to that is open, or of which there is a card."""
        last = None
        while page := await self.board.port.pending(after=last, limit=_PAGE):
            last = page[-1].id
            for question in page:
                self.due.mark(question.id)
        for sent in self._cards.values():
            self.due.mark(sent.question)

    async def see_to(self, id: str) -> None:
        """Send, change and close cards until those of a question are what they should be.

        Raises:
            ChannelAway: The platform takes nothing now; see to it again.
        """
        for key, (card, why) in [*self._again.items()]:
            if card.question == id:
                await self._say_over(card, why)
                self._again.pop(key, None)
        question = await self.board.find(id)
        sent = {card.to: card for card in self._cards.values() if card.question == id}
        if question is None:
            why = await self._became(id) if sent else ""
            for card in sent.values():
                await self._close(card, why)
            self.over.pop(id, None)
            self._noted = {at: why for at, why in self._noted.items() if at[0] != id}
            return
        wanted = {recipient.to: recipient for recipient in await self._recipients(question)}
        for to, card in sent.items():
            if to not in wanted:
                await self._close(card, "It is put to others now.")
        for recipient in wanted.values():
            await self._put(question, recipient)
        if question.whose is not None or question.deadline:
            self.due.mark(id, _LOOK)

    async def _became(self, id: str) -> str:
        """Say what became of a question: as one has heard, or, where one looks before one hears, as it is on record."""
        at = parse_address(id)
        if id in self.over or at is None:
            return self.over.get(id, "It is over.")
        return last_words(await too_late(self.board.port.store.port, at))

    def known(self, person: str) -> str:
        """Return a person whom an account was paired with; empty where the configuration names people, and not this one any more."""
        configured = self.board.port.store.admission.people
        return person if configured is None or not configured.people or configured.has_person(person) else ""

    async def _recipients(self, question: OpenQuestion) -> list[_Recipient]:
        """Return who gets a card: those whose question it is, as far as they are paired here."""
        if question.kind not in self.settings.asks or holds_secret(question):
            return []
        whose = question.whose
        needs_names = question.question.exclusive or (whose is not None and (whose.eligible is not None or whose.needed > 1))
        if needs_names and not self.channel.fits.has_names:
            return []
        paired = [each for each in await self.ledger.pairings() if each.kind == self.channel.kind and self.known(each.person)]
        here = [pairing for pairing in paired if not self.channel.fits.only or pairing.account in self.channel.fits.only]
        known = [pairing for pairing in here if not self.settings.people or is_among(pairing.person, self.settings.people)]
        if whose is not None and whose.ask:
            asked = whose.people.people_of(whose.ask)
            return [_Recipient(pairing.account, pairing.person) for pairing in known if is_among(pairing.person, asked)]
        if self.settings.rooms:
            return [_Recipient(room) for room in self.settings.rooms]
        return [_Recipient(pairing.account, pairing.person) for pairing in known]

    async def _put(self, question: OpenQuestion, recipient: _Recipient) -> None:
        """Send a card, or change it, unless it is there as it should be."""
        key = hashlib.sha256(f"{question.id}\n{recipient.to}".encode()).hexdigest()[:24]
        async with self.changing:
            reserved = await self._reserved(question, Sent(key=key, question=question.id, to=recipient.to, person=recipient.person))
        if reserved is None:
            return
        sent, card = reserved
        try:
            if sent.handle:
                await self.channel.update(sent.handle, card)
                await self._keep_there(sent)
                return
            handle = await self.channel.send(card)
        except ChannelRefused as refused:
            self._refuse(recipient.to, str(refused))
            self.due.mark(question.id, _REFUSED)
            if not sent.handle:
                await self._note_refused(question, recipient, str(refused))
            return
        except ChannelAway:
            self._notices.setdefault(key, card.notice)
            raise
        self._refusals.pop(recipient.to, None)
        await self._keep_there(replace(sent, handle=handle))
        await self._note(question, Notified(id="", about="sent", to=recipient.name, metadata={**self._where, "message": handle}))

    @property
    def _where(self) -> dict[str, Json]:
        return {"channel": self.settings.name}

    async def _note_refused(self, question: OpenQuestion, recipient: _Recipient, why: str) -> None:
        """Record that the platform refused a card; once for each reason, although it is sent again and again."""
        if self._noted.get((question.id, recipient.to)) != why:
            self._noted[question.id, recipient.to] = why
            error = f"not taken by {self.settings.name}: {exact(why)}"
            await self._note(question, Notified(id="", about="sent", to=recipient.name, error=error, metadata=self._where))

    async def _note(self, question: OpenQuestion, outcome: Notified) -> None:
        with suppress(NotOpen, NotAllowed, AlreadyAnswered):  # it was answered meanwhile
            await record_notice(self.board.port.store, question.id, outcome)

    def _refuse(self, to: str, why: str) -> None:
        """Say that nothing can be sent there, once, however much waits."""
        if self._refusals.get(to) != why:
            self._refusals[to] = why
            _LOG.warning("a card of the channel %s could not be sent, and will be tried again: %s", self.settings.name, why)

    async def _reserved(self, question: OpenQuestion, new: Sent) -> tuple[Sent, Card] | None:
        """Keep a card as it is to be sent, and return it; None where there is nothing to send."""
        sent = self.latest(new)
        if sent.note is not None and sent.note.digest != question.digest:
            sent = replace(sent, note=None)
            self._notices.setdefault(sent.key, CHANGED)
        try:
            prompt = self.prompt(question, await self.turn(question), sent.steps)
        except (NotOpen, AlreadyAnswered, QuestionError):
            return None  # it is closed right now, or of a newer version
        draft, acts = self.draft(question, prompt, sent)
        notice, about = self._notices.pop(sent.key, ""), fingerprint([draft, question.digest])
        if sent.handle and sent.there == about and not notice:
            return None  # what was said about the last reply stays
        if sent.about == about and sent.tokens:  # one of its buttons may be pressed right now, or the card is there twice: both work
            choices = tuple(Choice(acts[act], token) for token, act in sent.tokens.items() if act in acts)
        else:
            subject = fingerprint([replace(draft, heading=""), question.digest])
            sent, choices = with_tokens(replace(sent, about=about, asked=draft.text, digest=question.digest), acts, subject)
        sent = replace(sent, tries=sent.tries + (not sent.handle), at=sent.at if sent.there == about else now())
        await self.keep(sent)
        return sent, _card(draft, sent, choices, notice=notice, left=prompt.time_left())

    def draft(self, question: OpenQuestion, prompt: Prompt, sent: Sent) -> tuple[Draft, dict[str, str]]:
        """Return what a card should say, and the labels of its buttons by what they do."""
        whose = question.whose.line if question.whose else ""
        draft = draft_of(prompt, self.channel.fits, self.settings.where, whose)
        if sent.pending is not None:
            text = f"You wrote: {value_text(prompt.question, sent.pending)}. Shall it be sent?"
            draft = replace(draft, text=text, lines=(), acts={CONFIRM: "Send it", AGAIN: "No, write again"}, hint='Reply "yes" to send it.')
        elif sent.note is not None and draft.is_whole:
            draft = asked_back(draft, prompt, sent.note.words, "" if sent.person else sent.note.person)
        return draft, dict(draft.acts)

    async def _close(self, sent: Sent, why: str) -> None:
        """Take the buttons from a card, and say what became of it."""
        await self._say_over(sent, why)
        self._closed.update((token, (sent, why)) for token in (*sent.tokens, *sent.same, *sent.before))
        while len(self._closed) > _MOST_CLOSED:
            self._closed.popitem(last=False)
        self._cards.pop(sent.key, None)
        await self.ledger.drop(self.settings.name, sent)

    def say_over_again(self, token: str) -> bool:
        """Have a card say once more what became of it, where a button of it was pressed too late; False where it is of none."""
        if token not in self._closed:
            return False
        sent, why = self._closed[token]
        self._again[sent.key] = (sent, why)
        self.due.mark(sent.question)
        return True

    async def _say_over(self, sent: Sent, why: str) -> None:
        if sent.handle:
            with suppress(ChannelRefused):  # it is gone, or too old: then no one can press its buttons either
                await self.channel.update(sent.handle, Card(to=sent.to, heading="", text=sent.asked, notice=exact(why), is_over=True))

    def latest(self, sent: Sent) -> Sent:
        """Return a card as it is now."""
        return self._cards.get(sent.key, sent)

    def about(self, reply: Reply) -> Sent | None:
        """Return the card that a reply is about: the one with the button, or the message replied to, or the only one there is."""
        if reply.token:
            found = [card for card in self._cards.values() if card.act(reply.token)]
            return next((card for card in found if card.may_be(reply.handle)), None)
        theirs = [card for card in self._cards.values() if card.to == (reply.place or reply.account)]
        if reply.handle:
            return next((card for card in theirs if card.handle == reply.handle), None)
        return theirs[0] if len(theirs) == 1 else None

    def was_about(self, reply: Reply) -> Sent | None:
        """Return the card one of whose last buttons it is: it was pressed while the card changed."""
        return next((card for card in self._cards.values() if card.had(reply.token)), None) if reply.token else None

    def say(self, sent: Sent, notice: str) -> None:
        """Say something on a card when it is seen to."""
        self._notices[sent.key] = notice

    async def _keep_there(self, sent: Sent) -> None:
        """Keep that a card has arrived. A reply that came meanwhile has moved it on: what it says now is not there yet."""
        async with self.changing:
            known = self.latest(sent)
            changed = now() if known.there and known.shown != sent.digest else known.changed
            there = sent.about if known.tokens == sent.tokens else ""
            await self.keep(replace(known, handle=sent.handle, there=there, shown=sent.digest, changed=changed))

    async def keep(self, sent: Sent) -> None:
        """Keep a card as it is now, here and in the ledger."""
        self._cards[sent.key] = await self.ledger.put(self.settings.name, sent)

    def prompt(self, question: OpenQuestion, turn: Sequence[Event], steps: Sequence[Json]) -> Prompt:
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

    async def turn(self, question: OpenQuestion) -> Sequence[Event]:
        """Return the events of the turn that asks."""
        return await self.board.port.last_turn(question.conversation)


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
