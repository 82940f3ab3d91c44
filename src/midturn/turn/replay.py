"""Replay: answers on record, for a call that runs again.

Replay in ten sentences
=======================

1. The log is the only durable state; a call that runs again starts with an empty `Replay` and the
   same `CallRecord`.
2. The tool's code runs again from its first line and asks the same questions; nothing is skipped in
   the tool itself.
3. Each form starts a `FormRun`, which begins at its first question.
4. The form run searches for the first recorded thread that this run has not used and that has the
   same question id and an equal question. Questions on behalf of another agent only match
   questions of that agent.
5. If the thread has a response, `recorded_action` turns the response into a next action, the same
   value that a live reply produces.
6. The form run applies this action and continues without waiting, so a hundred recorded answers
   are one loop.
7. If the thread is open, the form run opens the decision again without writing a new request.
8. If there is no such thread, the form run writes a new request; an open thread with the same
   question id that this run has not used is closed as superseded.
9. Superseded threads never match, and refusals match only for tools that handle missing answers.
10. Secrets are not in the log: a recorded secret becomes a placeholder, and the form run asks for
    it again when the form is complete.

Permissions, deliveries and reviews are replayed the same way from `CallRecord.approvals`. The
inbox uses the same code: a `Visit` (`turn/visit.py`) loads the record, begins one call, and stops
at its open decision.

Questions are matched by content. Matching by position would fail if a tool asks in another order,
and matching by id would apply an old yes to a new diff.
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
"""Placeholder for a secret that was answered before the process died. It is never given to a tool.
"""


class Replay:
    """Tracks the recorded threads that one run of a call has used, and their order.

    It does not change the record.

    Args:
        record: The record of the call.
        skip: Number of threads to skip, because they precede the form that a `Visit` answers.
    """

    def __init__(self, record: CallRecord, skip: int = 0) -> None:
        self._record = record
        self._used = set(range(skip))
        self._recorded_before = len(record.threads)
        self._emissions: dict[tuple[str, bytes], int] = {}
        self._form_of: dict[int, int] = {}
        """The number of the form run that used a thread, by the index of the thread. These
        numbers put the threads into the order in which the tool asked. The recorded order of
        concurrent forms depends on the order of the answers.
        """

    def count_emission(self, question_id: str, key: bytes, *, is_new: bool) -> int:
        """Return the number of times that the tool has asked an equal question in this run.
        `is_new` adds the current question to the count.
        """
        asked = question_id, key
        count = self._emissions.get(asked, 0) + is_new
        if is_new:
            self._emissions[asked] = count
        return count

    def find(self, question_id: str, key: bytes, asking: FormWanted) -> QuestionThread | None:
        """Return the first thread of this question that the run has not used and whose response
        applies to this form (see `QuestionThread.counts_for`).
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
        """Mark a thread as used, by the form run with this number."""
        self._used.add(thread.place)
        if form_run is not None:
            self._form_of[thread.place] = form_run

    def has_used(self, thread: QuestionThread) -> bool:
        """Return whether the run has used a thread."""
        return thread.place in self._used

    def was_put_to_person(self, thread: QuestionThread) -> bool:
        """Return whether a person, not a model, was asked this question before this run."""
        return thread.place < self._recorded_before and not thread.is_with_a_model

    def is_revised(self, inquiries: Collection[str]) -> bool:
        """Return whether an unused thread revises one of these inquiries, which means that the
        person chose Back after them.
        """
        revisions = self._record.revisions
        if not revisions:
            return False
        revised = [
            thread for thread in revisions if not (self.has_used(thread) or thread.is_superseded)
        ]
        return bool(revised) and any(thread.asked.revises in inquiries for thread in revised)

    def secret(self, question_id: str, key: bytes, asking: FormWanted) -> QuestionThread | None:
        """Return the open thread of a secret. Threads of the same secret that were answered
        before are marked as used, because their secrets were never written.
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
        """Return the last approval about the review of a form. `places` are the indexes of the
        threads that the form has used.
        If a call asks several forms concurrently, an approval names its form. Otherwise an approval
        is about the form before it, and this run has used all threads of that form.

        An approved review does not count if a question of the form was asked after it, because the
        person did not see that answer. This happens if a recorded answer no longer fits.
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
        """The last question of the tool: the last thread of the last form."""
        last = max(self._form_of, key=self._order, default=None)
        return None if last is None else self._record.threads[last]

    @property
    def in_order(self) -> list[QuestionThread]:
        """Every thread on record that counts, in the order in which the tool asked in this run;
        threads that the run has not used come first.

        After Back, the previous answer counts until the next answer, because the person may reply
        to the model instead. The next answer either replaces it, or makes its question
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
    """Return the action that a closed thread led to, as if its reply had just been given.

    Raises:
        AnswerError: The recorded answer does not fit the question.
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
