"""Replay: finds the recorded answers for a call that runs again.

Replay in ten sentences
=======================

1. The log is the only durable state. A call that runs again starts with an empty `Replay` and the
   same `CallRecord`.
2. The tool's code runs again from its first line and asks the same questions. No code of the tool
   is skipped.
3. Each form starts a `FormRun`, which begins at its first question.
4. For each question, the form run searches for the first recorded question thread with the same
   question id and content that this run has not matched yet. A question asked on behalf of another
   agent matches only questions asked on behalf of that agent.
5. If the thread has a response, `recorded_action` converts it to the same next action that a new
   reply would produce.
6. The form run applies this action and continues in the same loop, however many recorded answers
   there are.
7. If the question is still open, the form run opens the decision again without writing a new
   request.
8. If no thread matches, the form run writes a new request. Unmatched open questions with the same
   id are closed as superseded.
9. Superseded questions never match, and refusals match only for tools that handle missing answers.
10. Secrets are not in the log, so a secret that was answered becomes a placeholder, and the form
   run asks for it again when the form is complete.

Permissions, deliveries and reviews are replayed in the same way from `CallRecord.approvals`. The
inbox uses the same code: a `Visit` (`turn/visit.py`) loads the record, begins one call, and stops
at its open decision.

Questions are matched by id and content. Matching by position would fail if the tool asks in a
different order, and matching by id alone would apply an old approval to a new diff.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, assert_never

from midturn.events.types import Approval, InquiryAnswered, InquiryCancelled, InquiryRedacted
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.turn.call_record import CallRecord, QuestionThread
from midturn.turn.decision import FailQuestion, StepBack, UseAnswer
from midturn.turn.inputs import FormWanted

PLACEHOLDER: Final = SecretValue("")
"""Placeholder for a secret that was answered in an earlier run. It is never passed to a tool."""


class Replay:
    """Tracks which recorded question threads one run of a call has matched, and in which order.

    It does not change the record.

    Args:
        record: The record of the call.
        skip: Number of question threads to skip, because they precede the form that a `Visit`
            answers.
    """

    def __init__(self, record: CallRecord, skip: int = 0) -> None:
        self._record = record
        self._used = set(range(skip))
        self._recorded_before = len(record.threads)
        self._emissions: dict[tuple[str, bytes], int] = {}
        self._form_of: dict[int, int] = {}
        """The number of the form run that matched a question thread, by the index of the thread.
        These numbers give the order in which the tool asked. The recorded order can differ: for
        concurrent forms, it depends on the order of the answers.
        """

    def count_emission(self, question_id: str, key: bytes, *, is_new: bool) -> int:
        """Return how often the tool asked the same question in this run. `is_new` adds the current
        question to the count.
        """
        asked = question_id, key
        count = self._emissions.get(asked, 0) + is_new
        if is_new:
            self._emissions[asked] = count
        return count

    def find(self, question_id: str, key: bytes, asking: FormWanted) -> QuestionThread | None:
        """Return the first unmatched thread of this question whose response may be used for this
        form (see `QuestionThread.counts_for`).
        """
        for thread in self._record.equal_threads(question_id, key):
            if (
                thread.place not in self._used
                and thread.counts_for(asking.on_failure)
                and asking.has_asked(thread.asked.source)
            ):
                return thread
        return None

    def use(self, thread: QuestionThread, form_run: int | None = None) -> None:
        """Mark a thread as matched by the form run with this number."""
        self._used.add(thread.place)
        if form_run is not None:
            self._form_of[thread.place] = form_run

    def has_used(self, thread: QuestionThread) -> bool:
        """Return whether this run matched the thread."""
        return thread.place in self._used

    def was_put_to_person(self, thread: QuestionThread) -> bool:
        """Return whether a person was asked this question before this run."""
        return thread.place < self._recorded_before and not thread.is_with_a_model

    def is_revised(self, inquiries: Collection[str]) -> bool:
        """Return whether an unmatched thread repeats one of these requests, which means that the
        person chose Back after it.
        """
        revisions = self._record.revisions
        if not revisions:
            return False
        revised = [
            thread for thread in revisions if not (self.has_used(thread) or thread.is_superseded)
        ]
        return bool(revised) and any(thread.asked.revises in inquiries for thread in revised)

    def secret(self, question_id: str, key: bytes, asking: FormWanted) -> QuestionThread | None:
        """Return the thread in which the secret is still open. Threads in which the same secret was
        answered are marked as matched, because the secret itself was never written.
        """
        found: QuestionThread | None = None
        for thread in self._record.equal_threads(question_id, key):
            if not asking.has_asked(thread.asked.source):
                continue
            found = thread if thread.is_open else found
            if isinstance(thread.last.response, InquiryRedacted):
                self.use(thread)
        return found

    # Reviews
    # ----------------------------------------------------------------------------------------------

    def review(self, places: Sequence[int]) -> Approval | None:
        """Return the last approval event for the review of a form. `places` contains the indexes of
        the question threads that the form matched.

        If the call asks several forms concurrently, the event names its form. Otherwise it belongs
        to the form before it, and this run matched all threads of that form.

        An approved review is ignored if a question of the form was asked after it, because the
        person did not see that answer. This happens if a recorded answer is no longer valid.
        """
        found: Approval | None = None
        began = min(places)
        threads = self._record.threads
        for approval, place in self._record.reviews:
            if approval.state == "approved" and max(places) >= place:
                continue
            if approval.form is None:
                is_about = began < place and all(map(self.has_used, threads[began:place]))
            else:
                is_about = approval.form == threads[began].asked.id
            found = approval if is_about else found
        return found

    def form_of_review(self, places: Sequence[int]) -> str | None:
        """Return the id of the form that the approval of a review must name, or None if there is
        only one form.
        """
        began = min(places)
        is_alone = all(place in places for place in range(began, len(self._record.threads)))
        return None if is_alone else self._record.threads[began].asked.id

    # Order of the tool's questions, for the result
    # ----------------------------------------------------------------------------------------------

    @property
    def latest(self) -> QuestionThread | None:
        """The question that the tool asked last: the last thread of the last form. None if there is
        none.
        """
        last = max(self._form_of, key=self._order, default=None)
        return None if last is None else self._record.threads[last]

    @property
    def in_order(self) -> list[QuestionThread]:
        """The recorded question threads that count, in the order in which the tool asked in this
        run. Threads that this run did not match come first.

        After Back, the previous answer counts until the next answer is given, because the person
        may reply to the model instead. The next answer replaces it or makes its question
        unnecessary.
        """
        threads = self._record.threads
        if self._record.revisions:
            given = (InquiryAnswered, InquiryRedacted)
            answered = max(
                (thread.place for thread in threads if isinstance(thread.last.response, given)),
                default=-1,
            )
            revised = {
                thread.asked.revises
                for thread in self._record.revisions
                if not thread.is_superseded and thread.place <= answered
            }
            threads = [
                thread
                for thread in threads
                if revised.isdisjoint(attempt.request.id for attempt in thread.attempts)
            ]
        return sorted(threads, key=lambda thread: self._order(thread.place))

    def _order(self, place: int) -> tuple[int, int]:
        return self._form_of.get(place, -1), place


def recorded_action(
    thread: QuestionThread, question: Question[Any]
) -> UseAnswer | StepBack | FailQuestion:
    """Return the next action for a closed question, as if the reply had just been given.

    Raises:
        AnswerError: The recorded answer is not valid for the question.
    """
    response = thread.last.response
    match response:
        case InquiryAnswered():
            by = response.answered_by.by if response.answered_by else "user"
            answered = Answered(
                question.check(response.answer), reason=response.reason, automatic=by != "user"
            )
            return UseAnswer(question.id, answered, response.id, by)
        case InquiryRedacted(answered_by=who):
            by = who.by if who else "user"
            return UseAnswer(
                question.id, Answered(PLACEHOLDER, automatic=by != "user"), response.id, by
            )
        case InquiryCancelled(reason="back"):
            return StepBack()
        case InquiryCancelled(reason=reason, metadata=metadata):
            reply = (metadata or {}).get("reply")
            return FailQuestion(
                reason, reply=reply if isinstance(reply, str) else None, on_record=response.event_id
            )
        case None:
            raise AssertionError("an open thread is opened again, not replayed")
        case _ as other:
            assert_never(other)
