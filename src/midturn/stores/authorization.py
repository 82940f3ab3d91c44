"""`may_answer`: the program has the last word on who answers what."""

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
from midturn.stores.queued_answer import HandedOver, Submission
from midturn.turn.edits import with_edit
from midturn.turn.pending import pending
from midturn.turn.people import is_for_certain_people, poll_about

MayAnswer: TypeAlias = "Callable[[OpenQuestion, str | None], bool | Awaitable[bool]]"
CurrentPeople: TypeAlias = "Callable[[], Directory]"
_LOG = logging.getLogger("midturn.store")


class Admission:
    """The rules of who may answer; all of them have to agree, and without any everybody may."""

    def __init__(self, *rules: MayAnswer, people: CurrentPeople | None = None) -> None:
        self._rules = rules
        self._people = people

    @property
    def people(self) -> Directory | None:
        """The people that are configured now, where answers are taken; None where no configuration says who people are."""
        return None if self._people is None else self._people()

    def people_of(self, turn: Sequence[Event]) -> Directory | None:
        """Return the configured people, where a turn has put anything to certain people: a command reads them for nothing else."""
        return self.people if is_for_certain_people(turn) else None

    def with_people(self, people: CurrentPeople) -> Admission:
        """Return these rules, for the people that a configuration names when somebody answers."""
        return Admission(*self._rules, people=people)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def with_rule(self, rule: MayAnswer) -> Admission:
        """Return these rules and one more."""
        return Admission(*self._rules, rule, people=self._people)

    async def admits(self, question: OpenQuestion, user: str | None) -> bool:
        """Say whether `user` may answer; what a rule raises is passed on."""
        for rule in self._rules:
            said = rule(question, user)
            if not (await said if isinstance(said, Awaitable) else said):
                return False
        return True

    async def check(self, question: OpenQuestion, user: str | None) -> None:
        """Refuse an answer from a user who may not give it.

        Raises:
            NotAllowed: `user` may not answer this question; it stays open.
        """
        if not await self.admits(question, user):
            who = f"{user!r} may" if user else "An answerer without a name may"
            raise NotAllowed(f"{who} not answer the question {question.id}; it stays open.", id=question.id, user=user)

    async def check_giver(self, question: OpenQuestion, who: AnsweredBy, turn: Sequence[Event]) -> None:
        """Refuse someone who may not answer, by the rules or because it is the question of others, in whatever way the answer comes.

        What is recorded is checked there again. This is for what does not reach the store: a secret, a step of a form that is not done.

        Raises:
            NotAllowed: They may not; the question stays open.
        """
        await self.check(question, who.user)
        if question.whose is None:
            return
        poll = poll_about(question.request, turn, self.people)
        if poll is not None:
            poll.check(who)


def as_decided(question: OpenQuestion, given: Submission | Note | None) -> OpenQuestion:
    """Return a question as the rules see it: with the arguments or the content that an edit would lead to."""
    reply = given.as_reply() if isinstance(given, Submission) else None
    return with_edit(question, reply.value) if isinstance(reply, Edited) else question


class AdmittedFeed:
    """Answers handed over to a holder. Those that may not count are refused, and their givers told."""

    def __init__(self, journal: PortJournal, admission: Admission) -> None:
        self._journal = journal
        self._feed = journal.answers
        self._admission = admission
        self._admitted: set[tuple[str, str]] = set()
        self.changed = journal.answers.changed
        """Returns when something may have been handed over."""
        self.refuse = journal.answers.refuse
        """Turns one down."""

    async def collect(self) -> Sequence[HandedOver]:
        """Return those that may count, oldest first. Each is judged once."""
        handed = await self._feed.collect()
        if not handed:
            return handed
        waiting = {question.request.event_id: question for question in pending(self._journal.events, self._journal.conversation)}
        return [answer for answer in handed if await self._counts(answer, waiting.get(answer.event_id))]

    async def _counts(self, answer: HandedOver, question: OpenQuestion | None) -> bool:
        known = (answer.key, answer.at)
        if question is None or known in self._admitted:  # the turn finds out that a closed question needs no answer
            return True
        try:
            asked = question if answer.note is not None else as_decided(question, answer.submission)
            if await self._admission.admits(asked, answer.by.user):
                self._admitted.add(known)
                return True
            _LOG.warning("an answer to %r by %r is refused", question.id, answer.by.user)
        except Exception:  # noqa: BLE001  it is the program's own code, and its failure must not reach the person who answers
            _LOG.exception("an answer to %r by %r is refused: `may_answer` failed", question.id, answer.by.user)
        await self.refuse(answer.key)
        return False
