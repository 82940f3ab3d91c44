"""What comes back over a channel: which card a reply is about, what it means, and what it does.

An answer goes into the store as every other one does (`store.answer`), with the person's name and the channel's kind: who may, whether it
fits, and who was first is decided there. A form is walked in memory, as on the page; what was answered so far is kept with the card.
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
    AGAIN,
    ASK_BACK,
    BACK,
    CONFIRM,
    ELSEWHERE,
    NO,
    NOTE_ACTS,
    NOTE_AGAIN,
    NOTE_REPLY,
    NOTE_YES,
    OPTION,
    REPLY,
    SKIP,
    TOO_LONG,
    YES,
    Said,
    chosen,
    meant,
    note_act,
)
from midturn.channels.card_reconciler import CHANGED, Deck, fingerprint, last_words
from midturn.channels.port import Reply
from midturn.channels.state import Sent, Taking, UnclearNote
from midturn.clock import now
from midturn.errors import AlreadyAnswered, AnswerError, DigestMismatch, NotAllowed, NotOpen, Problem, QuestionError
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, Event
from midturn.inbox.form_session import FormWalk
from midturn.inbox.resuming import Vault
from midturn.question.answer_type import TextType
from midturn.question.json_value import Json, SecretValue
from midturn.question.people import is_among
from midturn.question.text import is_same_name
from midturn.stores.answer_service import Receipt
from midturn.stores.store import ConversationStore
from midturn.terminal.prompts.answer_text import problem_text

_LOG = logging.getLogger("midturn.channels")
_STRANGERS: Final = 600.0  # seconds between two lines about strangers
BEFORE: Final = "That was about what stood here before. This is asked now."


class _Step(Struct, frozen=True):
    """A reply that is about to count: to `prompt`, by `who`, in the store as of the time at which it was written.

    `sent` is the card as it is when the reply has counted: its buttons are spent. `digest` is that of the subject that the card displayed.
    """

    question: OpenQuestion
    turn: Sequence[Event]
    prompt: Prompt
    sent: Sent
    said: Said
    who: AnsweredBy
    store: ConversationStore
    digest: str


class Replies:
    """Takes the replies of one channel, one after the other."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._store: ConversationStore = deck.board.port.store
        self._channel = deck.channel
        self._settings = deck.settings
        self._ledger = deck.ledger
        self._taking: Taking | None = None
        self._strangers = 0
        self._strangers_told = -_STRANGERS

    async def load(self) -> None:
        """Read which words were taken last."""
        self._taking = await self._ledger.taking(self._settings.name)

    async def take(self, reply: Reply) -> None:
        """Take what came; when this returns, it is on record, or there is nothing to record."""
        person = self._deck.known(await self._ledger.person(self._channel.kind, reply.account))
        if not person or not reply.spoken_for:
            await self._take_stranger(reply)
            return
        sent, old = self._deck.about(reply), self._deck.was_about(reply)
        if sent is None and self._deck.say_over_again(reply.token):
            return
        if sent is not None and self._may_take(sent, reply, person):
            async with self._deck.changing:
                if await self._begun(sent, reply):
                    await self._take_about(self._deck.latest(sent), reply, person)
        elif old is not None and self._may_take(old, reply, person):
            self._deck.say(old, BEFORE)
            self._deck.due.mark(old.question)
        else:
            _LOG.debug("a reply by %r was about no open card of theirs", person)

    async def _take_about(self, sent: Sent, reply: Reply, person: str) -> None:
        question = await self._deck.board.find(sent.question)
        if question is not None and _was_before(sent, reply):
            self._deck.say(sent, BEFORE)
        elif question is not None:
            await self._answer(question, sent, reply, person)
            await self._deck.board.look_again()
        self._deck.due.mark(sent.question)

    def _may_take(self, sent: Sent, reply: Reply, person: str) -> bool:
        if sent.person:
            return is_same_name(sent.person, person) and not reply.place
        return reply.place == sent.to and (not self._settings.people or is_among(person, self._settings.people))

    async def _begun(self, sent: Sent, reply: Reply) -> bool:
        """Note which card words are about before they do anything; False where they have done it, and are told once more.

        A button needs no such note: its token ends with what it does. Words have none, and would answer what is asked next.
        """
        if reply.token or not reply.id:
            return True
        taking = Taking(reply.id, sent.key, fingerprint([sent.steps, sent.pending, *([sent.note] if sent.note else ())]))
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
                    await self._deck.see_to_all()
                    return
        self._strangers += 1
        if time.monotonic() - self._strangers_told > _STRANGERS:
            self._strangers_told = time.monotonic()
            _LOG.warning("the channel %s has ignored %d messages of accounts that are not paired", self._settings.name, self._strangers)

    async def _answer(self, question: OpenQuestion, sent: Sent, reply: Reply, person: str) -> None:
        """Do what a reply means. What does not fit is said on the card."""
        try:
            turn = await self._deck.turn(question)
            user, login = (person, reply.account) if self._channel.fits.has_names else (None, None)
            who = AnsweredBy("user", via=self._channel.kind, user=user, login=login)
            await self._store.admission.check_giver(question, who, turn)
            prompt = self._deck.prompt(question, turn, sent.steps)
            said = _said(prompt, sent, _checked(reply), person)
            self._check_shown(question, prompt, sent, said)
            if question.form is not None and question.kind == "tool" and said is not None:
                _check_for_form(said)
            moved, seen = sent.moved_on(reply.token), _seen(sent, reply)
            step = _Step(question, turn, prompt, moved, said or Said(), who, _as_of(self._store, question, reply.at), seen)
            if said is None:
                await self._deck.keep(replace(step.sent, pending=None, note=None))
            elif said.act == ASK_BACK:
                note = UnclearNote(str(said.value), person, seen)
                await self._deck.keep(replace(step.sent, note=note))
            elif self._is_to_be_confirmed(sent, step, reply):
                await self._deck.keep(replace(step.sent, pending=_value(said)))
            else:
                await self._do(step)
        except DigestMismatch:
            self._deck.say(sent, CHANGED)
        except (AnswerError, QuestionError) as error:
            self._deck.say(sent, " ".join(problem_text(problem) for problem in error.problems))
        except NotAllowed as error:
            self._deck.say(sent, str(error))
        except (AlreadyAnswered, NotOpen) as late:
            self._deck.over.setdefault(question.id, last_words(late))

    def _check_shown(self, question: OpenQuestion, prompt: Prompt, sent: Sent, said: Said | None) -> None:
        """Let no one say yes to what they were not shown whole, in words either.

        Raises:
            AnswerError: They were not.
        """
        if said is not None and said.act not in (NO, BACK) and not self._deck.draft(question, prompt, sent)[0].is_whole:
            raise AnswerError([Problem("", ELSEWHERE)])

    def _is_to_be_confirmed(self, sent: Sent, step: _Step, reply: Reply) -> bool:
        words = sent.act(reply.token) in ("", REPLY) and sent.pending is None and isinstance(step.prompt.question.answer_type, TextType)
        return self._channel.fits.confirms and words and not step.said.act and step.said.value is not None

    def _answer_of(self, step: _Step) -> Callable[..., Awaitable[Receipt]]:
        """Return how the question of a step is answered by the person of the account."""
        who = step.who
        return partial(step.store.answer, step.question.id, user=who.user, via=self._channel.kind, login=who.login)

    async def _do(self, step: _Step) -> None:
        said, answer = (
            step.said,
            partial(step.store.answer, step.question.id, user=step.who.user, via=self._channel.kind, login=step.who.login),
        )
        if step.question.kind == "tool" and step.question.form is not None:
            await self._walk(step)
        elif said.act == BACK:
            await answer(back=True)
        elif said.act == NOTE_REPLY:
            await answer(reply=said.reason or "")
        elif step.question.kind == "tool":
            await answer(_value(said), reason=said.reason)
        else:
            await answer(approve=said.act == YES, reason=said.reason, digest=step.digest if said.act == YES else "")

    async def _walk(self, step: _Step) -> None:
        """Take one step of a form; the last one sends it."""
        answer = self._answer_of(step)
        walk = FormWalk(step.question, step.turn, Vault(), step.sent.steps)
        if step.said.act == BACK and walk.is_at_its_beginning:
            await answer(back=True)
            return
        if step.said.act == BACK:
            walk.back()
        elif step.prompt.kind == "review" and step.said.act == NO:
            raise AnswerError([Problem("", 'Nothing was sent. "yes" sends these answers, and "/back" leads to the one before.')])
        elif step.prompt.kind == "review":
            walk.send()
        else:
            walk.answer(_value(step.said))
        if walk.prompt is None:
            await answer({name: value for name, value in walk.answers().items() if not isinstance(value, SecretValue)})
        else:
            await self._deck.keep(replace(step.sent, steps=tuple(walk.steps), pending=None))


def _checked(reply: Reply) -> Reply:
    """Return a reply whose words can be an answer.

    Raises:
        AnswerError: The channel says that they cannot.
    """
    if reply.problem:
        raise AnswerError([Problem("", reply.problem)])
    return reply


def _as_of(store: ConversationStore, question: OpenQuestion, at: str) -> ConversationStore:
    """Return the store at the time at which a reply was written: before its question's end it counts, also if it is read after that."""
    in_time = bool(at) and question.deadline is not None and at < question.deadline <= now()
    return ConversationStore(store.port, store.admission, _Then(datetime.fromisoformat(at))) if in_time else store


def _was_before(sent: Sent, reply: Reply) -> bool:
    """Return whether words were written before the card displayed what they would answer now, if only their time ties them to it."""
    if reply.token:
        return False
    if reply.at and reply.at < sent.changed:
        return True
    if reply.handle and not sent.steps and sent.pending is None and sent.note is None:
        return False
    is_older = bool(reply.at and sent.at) and datetime.fromisoformat(reply.at) < datetime.fromisoformat(sent.at).replace(microsecond=0)
    return not sent.there or is_older


def _seen(sent: Sent, reply: Reply) -> str:
    """Return the digest of the subject that the card displayed when its person replied: by the text of the button, or what has arrived."""
    return sent.digest if reply.token else sent.shown


def _check_for_form(said: Said) -> None:
    """Refuse words for which a form has no place: nothing of what a person says is dropped.

    Raises:
        AnswerError: There is a reason or a note with the answer.
    """
    if said.act == ASK_BACK or said.reason is not None:
        raise AnswerError([Problem("", 'An answer in a form takes no reason and no note. Answer "yes" or "no" alone.')])


def _about_note(note: UnclearNote, act: str, reply: Reply, person: str) -> Said | None:
    """Return what the author of an unclear note has decided; None if they want to write again, `Said()` if the reply is not about the note.

    Raises:
        AnswerError: Another person has pressed one of the note's buttons.
    """
    if act in NOTE_ACTS and person != note.person:
        raise AnswerError([Problem("", f"Only {note.person} can say what these words of theirs decide.")])
    does = note_act(note.words, reply.text, reply.more) if not act and person == note.person else act
    if does == NOTE_AGAIN:
        return None
    if does == NOTE_REPLY:
        return Said(NOTE_REPLY, reason=note.words)
    return Said(YES if does == NOTE_YES else NO, reason=note.words) if does in NOTE_ACTS else Said()


def _said(prompt: Prompt, sent: Sent, reply: Reply, person: str) -> Said | None:
    """Return what a reply means; None where the person wants to write again."""
    act = sent.act(reply.token).removeprefix(REPLY)
    if sent.note is not None and (said := _about_note(sent.note, act, reply, person)) != Said():
        return said
    if sent.pending is not None:
        words = reply.text.strip().casefold()
        if act == CONFIRM or (not act and words in ("yes", "y", "send it")):
            return Said(value=sent.pending)
        if act == AGAIN or words in ("no", "n"):
            return None
    if not act:
        return meant(prompt, reply.text, reply.more)
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
