"""Authorization of answers, including the program's own `may_answer`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from midturn.errors import NotAllowed
from midturn.events.open_question import OpenQuestion
from midturn.events.types import AnsweredBy, Event, Note
from midturn.question.people import Directory
from midturn.question.reply import Edited
from midturn.stores.port import PortJournal
from midturn.stores.queued_answer import QueuedAnswer, SubmittedAnswer
from midturn.turn.edits import with_edit
from midturn.turn.pending import pending
from midturn.turn.votes import is_for_certain_people, poll_about

MayAnswer: TypeAlias = "Callable[[OpenQuestion, str | None], bool | Awaitable[bool]]"
CurrentPeople: TypeAlias = "Callable[[], Directory]"
_LOG = logging.getLogger("midturn.store")


class Authorizer:
    """The authorization rules. All rules must agree; without rules, everybody may answer."""

    def __init__(self, *rules: MayAnswer, people: CurrentPeople | None = None) -> None:
        self._rules = rules
        self._people = people

    @property
    def people(self) -> Directory | None:
        """The currently configured people, or None if no people are configured."""
        return None if self._people is None else self._people()

    def people_of(self, turn: Sequence[Event]) -> Directory | None:
        """Return the configured people if a question of the turn is assigned to people.

        Otherwise the configuration is not read.
        """
        return self.people if is_for_certain_people(turn) else None

    def with_people(self, people: CurrentPeople) -> Authorizer:
        """Return a copy that uses the configured people, which are read for each answer."""
        return Authorizer(*self._rules, people=people)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def with_rule(self, rule: MayAnswer) -> Authorizer:
        """Return a copy with one more rule."""
        return Authorizer(*self._rules, rule, people=self._people)

    async def admits(self, question: OpenQuestion, user: str | None) -> bool:
        """Return whether `user` may answer. Exceptions raised by rules propagate."""
        for rule in self._rules:
            said = rule(question, user)
            if not (await said if isinstance(said, Awaitable) else said):
                return False
        return True

    async def check(self, question: OpenQuestion, user: str | None) -> None:
        """Refuse an answer from a user who may not answer the question.

        Raises:
            NotAllowed: `user` may not answer this question; it stays open.
        """
        if not await self.admits(question, user):
            who = f"{user!r} may" if user else "An unnamed user may"
            raise NotAllowed(
                f"{who} not answer the question {question.id}; it stays open.",
                id=question.id,
                user=user,
            )

    async def check_giver(
        self, question: OpenQuestion, who: AnsweredBy, turn: Sequence[Event]
    ) -> None:
        """Refuse a user who may not answer, because of the rules or because the question is
        assigned to other people.

        An answer is checked again when it is recorded. This check is for input that is not
        recorded: a secret, or a step of an unfinished form.

        Raises:
            NotAllowed: The user may not answer; the question stays open.
        """
        await self.check(question, who.user)
        if question.whose is None:
            return
        poll = poll_about(question.request, turn, self.people)
        if poll is not None:
            poll.check(who)


def as_decided(question: OpenQuestion, given: SubmittedAnswer | Note | None) -> OpenQuestion:
    """Return the question that is passed to the rules: it contains the arguments or the content
    of an edit.
    """
    reply = given.as_reply() if isinstance(given, SubmittedAnswer) else None
    return with_edit(question, reply.value) if isinstance(reply, Edited) else question


class AuthorizedAnswerQueue:
    """The answer queue of a locked conversation.

    Answers that are not allowed are refused, and their senders are notified.
    """

    def __init__(self, journal: PortJournal, admission: Authorizer) -> None:
        self._journal = journal
        self._feed = journal.answers
        self._admission = admission
        self._admitted: set[tuple[str, str]] = set()
        self.changed = journal.answers.changed
        """Returns when an answer may have been queued."""
        self.refuse = journal.answers.refuse
        """Refuses a queued answer."""

    async def collect(self) -> Sequence[QueuedAnswer]:
        """Return the allowed answers, oldest first. Each answer is checked once."""
        handed = await self._feed.collect()
        if not handed:
            return handed
        waiting = {
            question.request.event_id: question
            for question in pending(self._journal.events, self._journal.conversation)
        }
        return [
            answer for answer in handed if await self._counts(answer, waiting.get(answer.event_id))
        ]

    async def _counts(self, answer: QueuedAnswer, question: OpenQuestion | None) -> bool:
        known = (answer.key, answer.at)
        if (
            question is None or known in self._admitted
        ):  # the turn drops answers to closed questions
            return True
        try:
            asked = question if answer.note is not None else as_decided(question, answer.submission)
            if await self._admission.admits(asked, answer.by.user):
                self._admitted.add(known)
                return True
            _LOG.warning("an answer to %r by %r is refused", question.id, answer.by.user)
        except Exception:  # noqa: BLE001  an error in the program's `may_answer` must not reach the person who answers
            _LOG.exception(
                "an answer to %r by %r is refused: `may_answer` failed", question.id, answer.by.user
            )
        await self.refuse(answer.key)
        return False
