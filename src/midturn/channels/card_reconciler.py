"""Sends, changes and closes the cards of a channel.

`CardReconciler.reconcile(question)` compares the cards that a question should have with the cards
that were sent. It then sends, changes or closes cards. The wanted cards are computed from the
store: one card for each person or room to which the question is assigned now, and no card for a
closed question. The sent cards are in `ChannelState`. The caller therefore does not pass what has
changed: the same call handles a new question, an answer from another interface, a reassignment, a
vote, a new pairing, a restart, and a failed update.
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

from midturn.channels.card import CONFIRM, REPLY, WRITE_AGAIN, Draft, ask_about_note, build_draft
from midturn.channels.port import (
    Card,
    Channel,
    ChannelAway,
    ChannelRefused,
    ChannelSettings,
    Choice,
    Reply,
)
from midturn.channels.state import ChannelState, SentCard, renew_tokens, token_of
from midturn.clock import now
from midturn.errors import AlreadyAnswered, DeadlinePassed, NotAllowed, NotOpen, QuestionError
from midturn.events.open_question import OpenQuestion, holds_secret, parse_address
from midturn.events.prompt import Prompt
from midturn.events.types import Event, Notified
from midturn.inbox.form_session import FormWalk
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.resuming import SecretCache
from midturn.question.json_value import Json
from midturn.question.people import is_among
from midturn.question.text import exact
from midturn.stores.answer_service import too_late
from midturn.stores.batch import event_ids
from midturn.stores.store import record_notice
from midturn.terminal.prompts.answer_text import value_text
from midturn.turn.visit import Visit

_LOG = logging.getLogger("midturn.channels")
# seconds between checks of assigned questions, which may have been reassigned
RECHECK_INTERVAL: Final = 10.0
# seconds until a rejected card is sent again, because the cause may be fixed in the meantime
REFUSED_RETRY_DELAY: Final = 300.0
PAGE_SIZE: Final = 500
MAX_CLOSED_TOKENS: Final = 5_000
"""Maximum number of stored tokens of closed cards. With these tokens, the channel can respond to a
button that is pressed after the card was closed.
"""


CHANGED: Final = (
    "The question changed before your answer arrived. Nothing was decided. This is the current"
    " version."
)


def fingerprint(shown: object) -> str:
    """Return a short fingerprint of `shown`."""
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


class ReconcileQueue:
    """Questions whose cards must be reconciled, each with its due time."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        self._woken = asyncio.Event()

    def mark(self, question: str, seconds: float = 0.0) -> None:
        """Schedule a question in `seconds`, unless it is already scheduled for an earlier time."""
        self._when[question] = min(
            self._when.get(question, float("inf")), time.monotonic() + seconds
        )
        self._woken.set()

    async def wait(self) -> None:
        """Wait until a question may be due."""
        self._woken.clear()
        soon = min(self._when.values(), default=time.monotonic() + RECHECK_INTERVAL)
        with suppress(TimeoutError):  # not `wait_for`, which can lose a cancellation in Python 3.11
            async with asyncio.timeout(max(0.0, soon - time.monotonic())):
                await self._woken.wait()

    def take(self) -> Iterator[str]:
        """Yield the questions that are due, and remove them from the queue."""
        for question in [
            question for question, when in self._when.items() if when <= time.monotonic()
        ]:
            del self._when[question]
            yield question


def answered_text(who: str) -> str:
    """Return the final text of a card whose question was answered."""
    return f"Answered by {exact(who)}."


def outcome_text(late: AlreadyAnswered | NotOpen) -> str:
    """Return the final text of a card whose question was closed before its recipient answered."""
    if isinstance(late, DeadlinePassed):
        return "Closed: the deadline has passed."
    return answered_text(late.by) if isinstance(late, AlreadyAnswered) and late.by else str(late)


class _Recipient(Struct, frozen=True):
    """An account or room that receives a card.

    `person` is the owner of the account, or empty for a room.
    """

    to: str
    person: str = ""

    @property
    def name(self) -> tuple[str]:
        """The recipient as recorded in events: the person, or the room."""
        return (self.person or self.to,)


class CardReconciler:
    """The cards of one channel.

    Hold `changing` while a reply is handled or a card is prepared, so that two such operations do
    not interleave. `delivering` is held while a new card is sent and its handle is stored.
    `outcomes` contains the final texts of the questions that were closed while the channel ran, by
    question.
    """

    def __init__(
        self,
        board: OpenQuestionList,
        channel: Channel,
        settings: ChannelSettings,
        state: ChannelState,
    ) -> None:
        """Start without cards. `load` reads the stored cards."""
        self.board = board
        self.channel = channel
        self.settings = settings
        self.state = state
        self.queue = ReconcileQueue()
        self.changing = asyncio.Lock()
        self.delivering = asyncio.Lock()
        self._cards: dict[str, SentCard] = {}
        self.outcomes: dict[str, str] = {}  # final texts by question
        # closed cards and their final texts by token, for buttons that are pressed after closing
        self._closed_tokens: OrderedDict[str, tuple[SentCard, str]] = OrderedDict()
        self._repeats: dict[str, tuple[SentCard, str]] = {}  # outcomes to display again, by card
        self._notices: dict[str, str] = {}  # notice to display, by card
        self._refusals: dict[str, str] = {}  # reason of the last rejection, by account or room
        self._recorded_refusals: dict[
            tuple[str, str], str
        ] = {}  # recorded rejections, by question and recipient

    async def load(self) -> None:
        """Read the stored cards."""
        self._cards = await self.state.cards(self.settings.name)

    async def mark_all(self) -> None:
        """Schedule all open questions and all questions that have a card."""
        last = None
        while page := await self.board.port.pending(after=last, limit=PAGE_SIZE):
            last = page[-1].id
            for question in page:
                self.queue.mark(question.id)
        for sent in self._cards.values():
            self.queue.mark(sent.question)

    async def reconcile(self, id: str) -> None:
        """Send, change and close cards until the cards of a question are up to date.

        Raises:
            ChannelAway: The platform is unreachable. Reconcile the question again later.
        """
        for key, (card, why) in [*self._repeats.items()]:
            if card.question == id:
                await self._show_outcome(card, why)
                self._repeats.pop(key, None)
        question = await self.board.find(id)
        sent = {card.to: card for card in self._cards.values() if card.question == id}
        if question is None:
            why = await self._find_outcome(id) if sent else ""
            for card in sent.values():
                await self._close(card, why)
            self.outcomes.pop(id, None)
            self._recorded_refusals = {
                at: why for at, why in self._recorded_refusals.items() if at[0] != id
            }
            return
        wanted = {recipient.to: recipient for recipient in await self._recipients(question)}
        for to, card in sent.items():
            if to not in wanted:
                await self._close(card, "Reassigned to someone else.")
        for recipient in wanted.values():
            await self._send_or_update(question, recipient)
        if question.whose is not None or question.deadline:
            self.queue.mark(id, RECHECK_INTERVAL)

    async def _find_outcome(self, id: str) -> str:
        """Return the final text of a closed question.

        If the channel was not notified of the outcome, it is read from the conversation.
        """
        at = parse_address(id)
        if id in self.outcomes or at is None:
            return self.outcomes.get(id, "Closed.")
        return outcome_text(await too_late(self.board.port.store.port, at))

    def active_person(self, person: str) -> str:
        """Return `person`, or an empty string if this person is no longer configured.

        If the configuration does not name people, every person is returned.
        """
        configured = self.board.port.store.admission.people
        return (
            person
            if configured is None or not configured.people or configured.has_person(person)
            else ""
        )

    async def _recipients(self, question: OpenQuestion) -> list[_Recipient]:
        """Return the recipients of a question that are paired on this channel."""
        if question.kind not in self.settings.asks or holds_secret(question):
            return []
        whose = question.whose
        needs_names = question.question.exclusive or (
            whose is not None and (whose.eligible is not None or whose.needed > 1)
        )
        if needs_names and not self.channel.fits.has_names:
            return []
        paired = [
            each
            for each in await self.state.pairings()
            if each.kind == self.channel.kind and self.active_person(each.person)
        ]
        here = [
            pairing
            for pairing in paired
            if not self.channel.fits.only or pairing.account in self.channel.fits.only
        ]
        known = [
            pairing
            for pairing in here
            if not self.settings.people or is_among(pairing.person, self.settings.people)
        ]
        if whose is not None and whose.ask:
            asked = whose.people.people_of(whose.ask)
            return [
                _Recipient(pairing.account, pairing.person)
                for pairing in known
                if is_among(pairing.person, asked)
            ]
        if self.settings.rooms:
            return [_Recipient(room) for room in self.settings.rooms]
        return [_Recipient(pairing.account, pairing.person) for pairing in known]

    async def _send_or_update(self, question: OpenQuestion, recipient: _Recipient) -> None:
        """Send a new card or change the sent one, unless it is already up to date."""
        key = hashlib.sha256(f"{question.id}\n{recipient.to}".encode()).hexdigest()[:24]
        async with self.changing:
            reserved = await self._prepare_card(
                question,
                SentCard(key=key, question=question.id, to=recipient.to, person=recipient.person),
            )
        if reserved is None:
            return
        sent, card = reserved
        try:
            if sent.handle:
                await self.channel.update(sent.handle, card)
                await self._mark_delivered(sent)
                return
            async with self.delivering:
                handle = await self.channel.send(card)
                await self._mark_delivered(replace(sent, handle=handle))
        except ChannelRefused as refused:
            self._log_refusal(recipient.to, str(refused))
            self.queue.mark(question.id, REFUSED_RETRY_DELAY)
            if not sent.handle:
                await self._record_refusal(question, recipient, str(refused))
            return
        except ChannelAway:
            self._notices.setdefault(key, card.notice)
            raise
        self._refusals.pop(recipient.to, None)
        await self._record_notice(
            question,
            Notified(
                id="",
                about="sent",
                to=recipient.name,
                metadata={**self._metadata, "message": handle},
            ),
        )

    @property
    def _metadata(self) -> dict[str, Json]:
        return {"channel": self.settings.name}

    async def _record_refusal(
        self, question: OpenQuestion, recipient: _Recipient, why: str
    ) -> None:
        """Record that the platform rejected a card.

        Each reason is recorded once, although sending is retried.
        """
        if self._recorded_refusals.get((question.id, recipient.to)) != why:
            self._recorded_refusals[question.id, recipient.to] = why
            error = f"rejected by {self.settings.name}: {exact(why)}"
            await self._record_notice(
                question,
                Notified(
                    id="", about="sent", to=recipient.name, error=error, metadata=self._metadata
                ),
            )

    async def _record_notice(self, question: OpenQuestion, outcome: Notified) -> None:
        with suppress(
            NotOpen, NotAllowed, AlreadyAnswered
        ):  # the question was answered in the meantime
            await record_notice(self.board.port.store, question.id, outcome)

    def _log_refusal(self, to: str, why: str) -> None:
        """Log that a card was rejected, once per recipient and reason."""
        if self._refusals.get(to) != why:
            self._refusals[to] = why
            _LOG.warning(
                "channel %s could not send a card and will retry: %s", self.settings.name, why
            )

    async def _prepare_card(
        self, question: OpenQuestion, new: SentCard
    ) -> tuple[SentCard, Card] | None:
        """Store a card as it will be sent, and return it.

        Return None if there is nothing to send.
        """
        sent = self.current(new)
        if sent.note is not None and sent.note.digest != question.digest:
            sent = replace(sent, note=None)
            self._notices.setdefault(sent.key, CHANGED)
        try:
            prompt = self.prompt(question, await self.turn(question), sent.steps)
        except (NotOpen, AlreadyAnswered, QuestionError):
            return None  # the question was just closed, or a newer version of midturn asked it
        draft, acts = self.draft(question, prompt, sent)
        notice, about = self._notices.pop(sent.key, ""), fingerprint([draft, question.digest])
        if sent.handle and sent.there == about and not notice:
            return None  # no update, so that a notice about the last reply stays visible
        # the content is unchanged, so keep the tokens: a button may be pressed now, or the card was
        # sent twice
        if sent.about == about and sent.tokens:
            choices = tuple(
                Choice(acts[act], token) for token, act in sent.tokens.items() if act in acts
            )
        else:
            subject = fingerprint([replace(draft, heading=""), question.digest])
            sent, choices = renew_tokens(
                replace(sent, about=about, asked=draft.text, digest=question.digest), acts, subject
            )
        sent = replace(
            sent, tries=sent.tries + (not sent.handle), at=sent.at if sent.there == about else now()
        )
        await self.save(sent)
        return sent, _card(draft, sent, choices, notice=notice, left=prompt.time_left())

    def draft(
        self, question: OpenQuestion, prompt: Prompt, sent: SentCard
    ) -> tuple[Draft, dict[str, str]]:
        """Return the wanted content of a card, with the label of each button by act."""
        whose = question.whose.line if question.whose else ""
        draft = build_draft(prompt, self.channel.fits, self.settings.where, whose)
        if sent.pending is not None:
            text = f"You wrote: {value_text(prompt.question, sent.pending)}. Send this answer?"
            draft = replace(
                draft,
                text=text,
                lines=(),
                acts={CONFIRM: "Send it", WRITE_AGAIN: "No, write again"},
                hint='Reply "yes" to send it.',
            )
        elif sent.note is not None and draft.is_whole:
            draft = ask_about_note(
                draft, prompt, sent.note.words, "" if sent.person else sent.note.person
            )
        return draft, dict(draft.acts)

    async def _close(self, sent: SentCard, why: str) -> None:
        """Remove the buttons of a card and show the outcome."""
        await self._show_outcome(sent, why)
        self._closed_tokens.update(
            (token, (sent, why)) for token in (*sent.tokens, *sent.same, *sent.before)
        )
        while len(self._closed_tokens) > MAX_CLOSED_TOKENS:
            self._closed_tokens.popitem(last=False)
        self._cards.pop(sent.key, None)
        await self.state.delete_card(self.settings.name, sent)

    def repeat_outcome(self, token: str) -> bool:
        """Show the outcome of a closed card again, because one of its buttons was pressed.

        Return False if the token is unknown.
        """
        if token not in self._closed_tokens:
            return False
        sent, why = self._closed_tokens[token]
        self._repeats[sent.key] = (sent, why)
        self.queue.mark(sent.question)
        return True

    async def _show_outcome(self, sent: SentCard, why: str) -> None:
        if sent.handle:
            # the message was deleted or is too old, so its buttons do not work either
            with suppress(ChannelRefused):
                await self.channel.update(
                    sent.handle,
                    Card(to=sent.to, heading="", text=sent.asked, notice=exact(why), is_over=True),
                )

    def current(self, sent: SentCard) -> SentCard:
        """Return the latest version of a card."""
        return self._cards.get(sent.key, sent)

    async def wait_until_delivered(self, reply: Reply) -> None:
        """Wait until the handle of a new card is stored, if `reply` may belong to that card.

        The platform can deliver a reply to a message before it returns the message's handle.
        """
        place = reply.place or reply.account
        if reply.handle and any(
            card.to == place and not card.handle for card in self._cards.values()
        ):
            async with self.delivering:
                pass

    def find_card(self, reply: Reply) -> SentCard | None:
        """Return the card to which a reply belongs.

        The card is found by its token, by the message to which the person replied, or because it is
        the only card of the sender.
        """
        if reply.token:
            found = [card for card in self._cards.values() if card.act(reply.token)]
            return next((card for card in found if card.may_be(reply.handle)), None)
        theirs = [
            card for card in self._cards.values() if card.to == (reply.place or reply.account)
        ]
        if reply.handle:
            return next((card for card in theirs if card.handle == reply.handle), None)
        return theirs[0] if len(theirs) == 1 else None

    def find_outdated_card(self, reply: Reply) -> SentCard | None:
        """Return the card that had a button with this token before the last change of the card."""
        return (
            next((card for card in self._cards.values() if card.had(reply.token)), None)
            if reply.token
            else None
        )

    def set_notice(self, sent: SentCard, notice: str) -> None:
        """Set the notice that a card shows after its next reconciliation."""
        self._notices[sent.key] = notice

    async def _mark_delivered(self, sent: SentCard) -> None:
        """Record that a card was delivered.

        If a reply changed the card in the meantime, the delivered text is already outdated.
        """
        async with self.changing:
            known = self.current(sent)
            changed = now() if known.there and known.shown != sent.digest else known.changed
            there = sent.about if known.tokens == sent.tokens else ""
            await self.save(
                replace(known, handle=sent.handle, there=there, shown=sent.digest, changed=changed)
            )

    async def save(self, sent: SentCard) -> None:
        """Store a card."""
        self._cards[sent.key] = await self.state.save_card(self.settings.name, sent)

    def prompt(
        self, question: OpenQuestion, turn: Sequence[Event], steps: Sequence[Json]
    ) -> Prompt:
        """Return the prompt that the terminal would display now.

        Raises:
            NotOpen: The question is closed.
            AlreadyAnswered: The question was answered in the meantime.
            QuestionError: A newer version of midturn asked the question.
        """
        if question.kind == "tool" and question.form is not None:
            prompt = FormWalk(question, turn, SecretCache(), steps).prompt
        else:
            prompt = Visit(
                turn, question.request.event_id, event_ids(), question.conversation
            ).prompt()
        if prompt is None:
            raise NotOpen(f"The question {question.id} is closed.")
        return prompt.timed(question.asked_at, now)

    async def turn(self, question: OpenQuestion) -> Sequence[Event]:
        """Return the events of the turn that contains the question."""
        return await self.board.port.last_turn(question.conversation)


def _card(
    draft: Draft, sent: SentCard, choices: tuple[Choice, ...], *, notice: str, left: str
) -> Card:
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
