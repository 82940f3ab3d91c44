"""Handles replies from a channel: finds the card that a reply belongs to, interprets the reply and
records the answer.

Answers are submitted with `store.answer`, like answers from every other interface, with the name of
the person and the kind of the channel. The store checks whether the person may answer, whether the
answer is valid, and whether it is the first. The answers to a form are stored with the card until
the form is complete.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midturn.channels.card import (
    BACK,
    CLARIFY,
    CONFIRM,
    ELSEWHERE,
    MAX_REPLY_CHARS,
    NO,
    NOTE_ACTS,
    NOTE_REPLY,
    NOTE_WRITE_AGAIN,
    NOTE_YES,
    OPTION,
    REPLY,
    SKIP,
    WRITE_AGAIN,
    YES,
    CardReply,
    chosen_value,
    interpret_words,
    note_act,
)
from midturn.channels.card_reconciler import CHANGED, CardReconciler, fingerprint, outcome_text
from midturn.channels.port import Reply
from midturn.channels.state import ReplyInProgress, SentCard, UnclearNote
from midturn.clock import now
from midturn.errors import (
    AlreadyAnswered,
    AnswerError,
    DigestMismatch,
    NotAllowed,
    NotOpen,
    Problem,
    QuestionError,
)
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, Event
from midturn.inbox.form_session import FormWalk
from midturn.inbox.resuming import SecretCache
from midturn.question.answer_type import TextType
from midturn.question.json_value import Json, SecretValue
from midturn.question.people import is_among
from midturn.question.text import is_same_name
from midturn.stores.answer_service import Receipt
from midturn.stores.store import ConversationStore
from midturn.terminal.prompts.answer_text import problem_text

_LOG = logging.getLogger("midturn.channels")
# minimum number of seconds between two log lines about unpaired accounts
STRANGER_LOG_INTERVAL: Final = 600.0
OUTDATED: Final = (
    "Your reply was about an earlier version of this card. This is the current version."
)


class _AcceptedReply(Struct, frozen=True):
    """A reply that may answer `prompt`.

    Args:
        sent: The card after this reply, without buttons.
        store: The store. If the reply was written before the deadline but read after it, the store
            has a clock that returns the time of writing.
        digest: Digest of the subject that the card displayed.
    """

    question: OpenQuestion
    turn: Sequence[Event]
    prompt: Prompt
    sent: SentCard
    decision: CardReply
    who: AnsweredBy
    store: ConversationStore
    digest: str


class Replies:
    """Handles the replies of one channel, one at a time."""

    def __init__(self, cards: CardReconciler) -> None:
        self._cards = cards
        self._store: ConversationStore = cards.board.port.store
        self._channel = cards.channel
        self._settings = cards.settings
        self._state = cards.state
        self._in_progress: ReplyInProgress | None = None
        self._ignored_messages = 0
        self._ignored_logged_at = -STRANGER_LOG_INTERVAL

    async def load(self) -> None:
        """Read which typed reply was handled last."""
        self._in_progress = await self._state.reply_in_progress(self._settings.name)

    async def handle(self, reply: Reply) -> None:
        """Handle a reply. On return, the reply was recorded, or there was nothing to record."""
        person = self._cards.active_person(
            await self._state.person_of(self._channel.kind, reply.account)
        )
        if not person or not reply.spoken_for:
            await self._handle_stranger(reply)
            return
        if self._cards.find_card(reply) is None:
            await self._cards.wait_until_delivered(reply)
        # A token belongs to one version of a card. The card must not change between the search for
        # the token and the answer, or the reply would answer the new version.
        async with self._cards.changing:
            await self._handle_person(reply, person)

    async def _handle_person(self, reply: Reply, person: str) -> None:
        """Handle a reply from a paired person. The caller holds `changing`."""
        sent, old = self._cards.find_card(reply), self._cards.find_outdated_card(reply)
        if sent is None and self._cards.repeat_outcome(reply.token):
            return
        if sent is not None and self._is_allowed(sent, reply, person):
            if await self._claim(sent, reply):
                await self._handle_for_card(sent, reply, person)
        elif old is not None and self._is_allowed(old, reply, person):
            self._cards.set_notice(old, OUTDATED)
            self._cards.queue.mark(old.question)
        else:
            _LOG.debug("a reply from %r does not belong to an open card of that sender", person)

    async def _handle_for_card(self, sent: SentCard, reply: Reply, person: str) -> None:
        question = await self._cards.board.find(sent.question)
        if question is not None and _predates_card(sent, reply):
            self._cards.set_notice(sent, OUTDATED)
        elif question is not None:
            await self._answer(question, sent, reply, person)
            await self._cards.board.look_again()
        self._cards.queue.mark(sent.question)

    def _is_allowed(self, sent: SentCard, reply: Reply, person: str) -> bool:
        if sent.person:
            return is_same_name(sent.person, person) and not reply.place
        return reply.place == sent.to and (
            not self._settings.people or is_among(person, self._settings.people)
        )

    async def _claim(self, sent: SentCard, reply: Reply) -> bool:
        """Record the card of a typed reply before the reply is handled.

        Return False if the reply was handled before. A button needs no such record, because its
        token stops working after use. Typed text has no token, so if the platform delivered it
        again, it would answer the next question.
        """
        if reply.token or not reply.id:
            return True
        claim = ReplyInProgress(
            reply.id,
            sent.key,
            fingerprint([sent.steps, sent.pending, *([sent.note] if sent.note else ())]),
        )
        if self._in_progress is not None and self._in_progress.reply == reply.id:
            return self._in_progress == claim
        self._in_progress = claim
        await self._state.save_reply_in_progress(self._settings.name, claim)
        return True

    async def _handle_stranger(self, reply: Reply) -> None:
        """Pair an account that sends a pairing code. Count and drop all other messages from
        unpaired accounts.
        """
        if (
            reply.text
            and not reply.place
            and reply.spoken_for
            and len(reply.text) < MAX_REPLY_CHARS
        ):
            for word in reply.text.split()[:4]:
                pairing = await self._state.redeem_code(self._channel.kind, reply.account, word)
                if pairing is not None:
                    _LOG.info(
                        "an account on %s was paired with %s", self._channel.kind, pairing.person
                    )
                    await self._cards.mark_all()
                    return
        self._ignored_messages += 1
        if time.monotonic() - self._ignored_logged_at > STRANGER_LOG_INTERVAL:
            self._ignored_logged_at = time.monotonic()
            _LOG.warning(
                "channel %s ignored %d messages from unpaired accounts",
                self._settings.name,
                self._ignored_messages,
            )

    async def _answer(
        self, question: OpenQuestion, sent: SentCard, reply: Reply, person: str
    ) -> None:
        """Apply a reply. If the reply cannot be accepted, show the reason on the card."""
        try:
            turn = await self._cards.turn(question)
            user, login = (person, reply.account) if self._channel.fits.has_names else (None, None)
            who = AnsweredBy("user", via=self._channel.kind, user=user, login=login)
            await self._store.admission.check_giver(question, who, turn)
            prompt = self._cards.prompt(question, turn, sent.steps)
            decision = _interpret(prompt, sent, _usable(reply), person)
            self._require_whole_display(question, prompt, sent, decision)
            if question.form is not None and question.kind == "tool" and decision is not None:
                _check_for_form(decision)
            answered, displayed = sent.without_buttons(reply.token), _displayed_digest(sent, reply)
            step = _AcceptedReply(
                question,
                turn,
                prompt,
                answered,
                decision or CardReply(),
                who,
                _store_at(self._store, question, reply.at),
                displayed,
            )
            if decision is None:
                await self._cards.save(replace(step.sent, pending=None, note=None))
            elif decision.act == CLARIFY:
                note = UnclearNote(str(decision.value), person, displayed)
                await self._cards.save(replace(step.sent, note=note))
            elif self._needs_confirmation(sent, step, reply):
                await self._cards.save(replace(step.sent, pending=_value(decision)))
            else:
                await self._carry_out(step)
        except DigestMismatch:
            self._cards.set_notice(sent, CHANGED)
        except (AnswerError, QuestionError) as error:
            self._cards.set_notice(
                sent, " ".join(problem_text(problem) for problem in error.problems)
            )
        except NotAllowed as error:
            self._cards.set_notice(sent, str(error))
        except (AlreadyAnswered, NotOpen) as late:
            self._cards.outcomes.setdefault(question.id, outcome_text(late))

    def _require_whole_display(
        self, question: OpenQuestion, prompt: Prompt, sent: SentCard, decision: CardReply | None
    ) -> None:
        """Reject an approval of content that the card did not show completely.

        Raises:
            AnswerError: The card did not show the whole content.
        """
        if (
            decision is not None
            and decision.act not in (NO, BACK)
            and not self._cards.draft(question, prompt, sent)[0].is_whole
        ):
            raise AnswerError([Problem("", ELSEWHERE)])

    def _needs_confirmation(self, sent: SentCard, step: _AcceptedReply, reply: Reply) -> bool:
        words = (
            sent.act(reply.token) in ("", REPLY)
            and sent.pending is None
            and isinstance(step.prompt.question.answer_type, TextType)
        )
        return (
            self._channel.fits.confirms
            and words
            and not step.decision.act
            and step.decision.value is not None
        )

    def _answer_call(self, step: _AcceptedReply) -> Callable[..., Awaitable[Receipt]]:
        who = step.who
        return partial(
            step.store.answer,
            step.question.id,
            user=who.user,
            via=self._channel.kind,
            login=who.login,
        )

    async def _carry_out(self, step: _AcceptedReply) -> None:
        decision, answer = step.decision, self._answer_call(step)
        if step.question.kind == "tool" and step.question.form is not None:
            await self._walk_form(step)
        elif decision.act == BACK:
            await answer(back=True)
        elif decision.act == NOTE_REPLY:
            await answer(reply=decision.reason or "")
        elif step.question.kind == "tool":
            await answer(_value(decision), reason=decision.reason)
        else:
            await answer(
                approve=decision.act == YES,
                reason=decision.reason,
                digest=step.digest if decision.act == YES else "",
            )

    async def _walk_form(self, step: _AcceptedReply) -> None:
        """Advance a form by one step. The last step submits it."""
        answer = self._answer_call(step)
        walk = FormWalk(step.question, step.turn, SecretCache(), step.sent.steps)
        if step.decision.act == BACK and walk.is_at_its_beginning:
            await answer(back=True)
            return
        if step.decision.act == BACK:
            walk.back()
        elif step.prompt.kind == "review" and step.decision.act == NO:
            raise AnswerError(
                [
                    Problem(
                        "",
                        'Nothing was sent. Reply "yes" to send these answers, or "/back" to change'
                        " the last one.",
                    )
                ]
            )
        elif step.prompt.kind == "review":
            walk.send()
        else:
            walk.answer(_value(step.decision))
        if walk.prompt is None:
            await answer(
                {
                    name: value
                    for name, value in walk.answers().items()
                    if not isinstance(value, SecretValue)
                }
            )
        else:
            await self._cards.save(replace(step.sent, steps=tuple(walk.steps), pending=None))


def _usable(reply: Reply) -> Reply:
    """Return the reply if its text can be an answer.

    Raises:
        AnswerError: The channel reported that the text cannot be an answer.
    """
    if reply.problem:
        raise AnswerError([Problem("", reply.problem)])
    return reply


def _store_at(store: ConversationStore, question: OpenQuestion, at: str) -> ConversationStore:
    """Return the store to which the answer is submitted.

    If the reply was written before the deadline but read after it, the clock of the returned store
    returns the time of writing, so that the reply still counts.
    """
    in_time = bool(at) and question.deadline is not None and at < question.deadline <= now()
    return (
        ConversationStore(store.port, store.admission, _FixedClock(datetime.fromisoformat(at)))
        if in_time
        else store
    )


def _predates_card(sent: SentCard, reply: Reply) -> bool:
    """Return whether typed text was written before the card displayed its current question."""
    if reply.token:
        return False
    if reply.at and reply.at < sent.changed:
        return True
    if reply.handle and not sent.steps and sent.pending is None and sent.note is None:
        return False
    is_older = bool(reply.at and sent.at) and datetime.fromisoformat(
        reply.at
    ) < datetime.fromisoformat(sent.at).replace(microsecond=0)
    return not sent.there or is_older


def _displayed_digest(sent: SentCard, reply: Reply) -> str:
    """Return the digest of the subject that the card displayed when the reply was written."""
    return sent.digest if reply.token else sent.shown


def _check_for_form(decision: CardReply) -> None:
    """Reject a reason or note in a form, because a form cannot record it.

    Raises:
        AnswerError: The reply has a reason or a note.
    """
    if decision.act == CLARIFY or decision.reason is not None:
        raise AnswerError(
            [
                Problem(
                    "",
                    'An answer in a form cannot have a reason or a note. Reply only "yes" or "no".',
                )
            ]
        )


def _note_decision(note: UnclearNote, act: str, reply: Reply, person: str) -> CardReply | None:
    """Return what the author of an unclear note decided.

    Return None if the author wants to write a new reply, and an empty `CardReply` if the reply does
    not refer to the note.

    Raises:
        AnswerError: Another person pressed a button of the note.
    """
    if act in NOTE_ACTS and person != note.person:
        raise AnswerError(
            [Problem("", f"Only {note.person}, who wrote this note, can decide what it means.")]
        )
    does = (
        note_act(note.words, reply.text, reply.more) if not act and person == note.person else act
    )
    if does == NOTE_WRITE_AGAIN:
        return None
    if does == NOTE_REPLY:
        return CardReply(NOTE_REPLY, reason=note.words)
    return (
        CardReply(YES if does == NOTE_YES else NO, reason=note.words)
        if does in NOTE_ACTS
        else CardReply()
    )


def _interpret(prompt: Prompt, sent: SentCard, reply: Reply, person: str) -> CardReply | None:
    """Return the meaning of a reply, or None if the person wants to write a new reply."""
    act = sent.act(reply.token).removeprefix(REPLY)
    if (
        sent.note is not None
        and (decision := _note_decision(sent.note, act, reply, person)) != CardReply()
    ):
        return decision
    if sent.pending is not None:
        words = reply.text.strip().casefold()
        if act == CONFIRM or (not act and words in ("yes", "y", "send it")):
            return CardReply(value=sent.pending)
        if act == WRITE_AGAIN or words in ("no", "n"):
            return None
    if not act:
        return interpret_words(prompt, reply.text, reply.more)
    if act == SKIP:
        return CardReply(value=None)
    return CardReply(value=chosen_value(prompt, act)) if act.startswith(OPTION) else CardReply(act)


class _FixedClock:
    """A clock that always returns the same time."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at


def _value(decision: CardReply) -> Json:
    if decision.act in (YES, NO):
        return decision.act == YES
    return decision.value  # type: ignore[return-value]  # all other acts are handled before
