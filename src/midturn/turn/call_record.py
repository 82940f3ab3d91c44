"""The recorded state of one tool call: its questions, approvals, answers, nested turns and
response.

Only `TurnRecord.apply` (`turn/record.py`) changes these objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from midturn.events import types as ev
from midturn.events.types import ToolCall
from midturn.events.window import was_previewed
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json, canonical

WITH_A_MODEL: Final[Mapping[str, Json]] = {"asks": "assistant"}
"""Metadata of a request that was sent to a model. A request without it was sent to a person."""


class Attempt(Struct, eq=False, gc=False):
    """A recorded request and its response, if there is one. An attempt is never part of a
    reference cycle (`gc=False`).
    """

    request: ev.InquiryRequest
    response: ev.InquiryResponse | None = None

    @property
    def is_rejection(self) -> bool:
        """Whether the answer rejects the request. `false` is a rejection only for a yes/no
        question. For other questions it may be an ordinary option.
        """
        is_boolean = isinstance(self.request.question.answer_type, BooleanType)
        return (
            is_boolean
            and isinstance(self.response, ev.InquiryAnswered)
            and self.response.answer is False
        )


def is_unseen(response: ev.InquiryResponse | None) -> bool:
    """Return whether a person should have reviewed a model's answer, but nobody was attached."""
    return type(response) is ev.InquiryCancelled and response.metadata == ev.MODEL_ANSWER_IS_FINAL


class QuestionThread(Struct, eq=False, gc=False):
    """One question of a call with its attempts: the first request, and one for each escalation.
    The last attempt counts.

    Args:
        asked: The request that was first written for the tool's question.
        attempts: The request and its escalations.
        place: Index of the thread among the threads of the call, from 0.
        asked_at: Number of events of the turn before the last attempt.
    """

    asked: ev.InquiryRequest
    attempts: tuple[Attempt, ...]
    place: int
    asked_at: int = 0

    @property
    def last(self) -> Attempt:
        """The final attempt. A model's answer is final if nobody was attached to review it."""
        last = self.attempts[-1]
        return self.attempts[-2] if len(self.attempts) > 1 and is_unseen(last.response) else last

    @property
    def is_open(self) -> bool:
        """Whether the question still waits for an answer."""
        return self.attempts[-1].response is None

    @property
    def is_with_a_model(self) -> bool:
        """Whether a model was asked."""
        return (self.last.request.metadata or {}).get("asks") == WITH_A_MODEL["asks"]

    @property
    def is_superseded(self) -> bool:
        """Whether the tool continued without the answer. Replay treats such a thread as never
        recorded.
        """
        response = self.last.response
        return isinstance(response, ev.InquiryCancelled) and response.reason == "superseded"

    def counts_for(self, on_failure: str) -> bool:
        """Return whether the recorded response also answers an equal question.
        A refusal answers an equal question only if the tool handles missing answers. A passed
        deadline always does.
        """
        response = self.last.response
        if type(response) is not ev.InquiryCancelled:
            return True
        return response.reason in ("back", "deadline") or (
            response.reason != "superseded" and on_failure != "fail_call"
        )


class InquiryEntry(Struct, eq=False, gc=False):
    """Index entry of an inquiry id: the last request with this id, and the thread that it belongs
    to.

    `call` and `thread` are None for a question of another program that does not name its call.
    """

    attempt: Attempt
    call: CallRecord | None = None
    thread: QuestionThread | None = None


class ChildRecord(Struct):
    """A turn of another agent inside a call, with the last state that the outer turn has
    recorded.
    """

    began: ev.Child
    state: str = "running"


class AnswersSoFar:
    """The answers of a call, by question id, in the order in which they were given; without secrets
    and skipped questions.

    `at_reply` maps the `event_id` of a person's reply to the model to the answers at that time.
    Replay needs this map, because the record of a replayed call can contain later answers.
    """

    def __init__(self) -> None:
        self.now: dict[str, Json] = {}
        self.at_reply: dict[str, dict[str, Json]] = {}
        self._after: dict[str, tuple[str, ...]] = {}

    def ask(self, request: ev.InquiryRequest) -> None:
        """Remove the answers to questions that are asked again."""
        if request.form:
            ids = [str(asked.get("id")) for asked in request.form.questions]
            self._after |= {key: tuple(ids[place:]) for place, key in enumerate(ids, 1)}
            self._remove(ids)
        if request.question_id in self.now:
            del self.now[request.question_id]

    def close(self, request: ev.InquiryRequest, response: ev.InquiryResponse) -> None:
        """Add an answer. A revised answer removes the later answers of the same form."""
        if response.outcome == "cancelled":
            if response.reason == "reply":
                self.reply(response.event_id)
            return
        if request.revises:
            self._remove(self._after.get(request.question_id, ()))
        if response.outcome == "answered" and response.answer is not None and request.question_id:
            self.now[request.question_id] = response.answer

    def reply(self, event_id: str) -> None:
        """Keep the current answers for a reply."""
        self.at_reply[event_id] = dict(self.now)

    def _remove(self, ids: Iterable[str]) -> None:
        for key in ids:
            self.now.pop(key, None)


class CallRecord:
    """A call with its questions, its decisions and its response."""

    def __init__(self, request: ev.ToolCallRequest) -> None:
        self.request = request
        self.called_at = 0
        """Number of events of the turn before the call."""
        self.arguments: Json = request.arguments
        """The arguments with which the call runs: from the model, or edited by a person."""
        self.threads: list[QuestionThread] = []
        self.revisions: list[QuestionThread] = []
        """The threads of questions that were asked again because a person chose Back."""
        self.approvals: list[ev.Approval] = []
        self.reviews: list[tuple[ev.Approval, int]] = []
        """Approvals of reviews, each with the number of threads that were recorded before it."""
        self.decided_at = -1
        """Number of events of the turn before the last decision of a person in the call; -1 if
        there is none.
        """
        self.undecided_at: dict[str, int] = {}
        """Number of events of the turn before each waiting approval, by approval id."""
        self.decisions: set[str] = set()
        """The ids of the approvals that were decided: the first decision counts."""
        self.was_previewed = False
        """Whether the person who was asked for permission also saw the first question of the
        tool.
        """
        self.response: ev.ToolCallResponse | None = None
        self.answers = AnswersSoFar()
        self.children: dict[str, ChildRecord] = {}
        """Turns of other agents that the tool has started, by the event that recorded them."""
        self.values: dict[str, Json] = {}
        """Values that the tool keeps for its later runs, by name."""
        self._first_concurrent: int | None = None
        """Index of the first thread that was still open when another question was asked."""
        self._open: dict[int, QuestionThread] = {}
        self._by_question: dict[tuple[str, bytes], list[QuestionThread]] = {}
        self._indexed = 0
        """Number of threads in `_by_question`."""
        self._has_nameless = False
        """Whether a request on record has no question id."""

    @property
    def call(self) -> ToolCall:
        """The call as it runs."""
        return ToolCall(self.request.event_id, self.request.id, self.request.name, self.arguments)

    # Questions
    # ----------------------------------------------------------------------------------------------

    @property
    def open_threads(self) -> list[QuestionThread]:
        """The questions that wait for an answer, in the order in which they were asked."""
        return [self._open[place] for place in sorted(self._open)] if self._open else []

    def note_state(self, thread: QuestionThread) -> None:
        """Update `open_threads` after a thread has closed or was opened again."""
        if thread.attempts[-1].response is None:
            self._open[thread.place] = thread
        else:
            self._open.pop(thread.place, None)

    def begin_thread(self, first: Attempt) -> QuestionThread:
        """Add a question that the tool asks."""
        threads = self.threads
        thread = QuestionThread(first.request, (first,), len(threads))
        threads.append(thread)
        if self._open and self._first_concurrent is None:
            self._first_concurrent = min(self._open)
        self._open[thread.place] = thread
        if first.request.revises is not None:
            self.revisions.append(thread)
        return thread

    def is_sequential(self, places: Sequence[int]) -> bool:
        """Return whether the tool never had two open questions at the same time, up to the last
        of these threads. `places` contains the indexes of the threads.
        """
        return self._first_concurrent is None or max(places, default=0) < self._first_concurrent

    def equal_threads(self, question_id: str, key: bytes) -> Sequence[QuestionThread]:
        """Return the threads of equal questions in order. Requests of other programs may have no
        question id.
        """
        while self._indexed < len(
            self.threads
        ):  # computed on first use, because lists of open questions need no keys
            thread = self.threads[self._indexed]
            self._by_question.setdefault(
                (thread.asked.question_id, thread.asked.question.key), []
            ).append(thread)
            self._indexed += 1
            self._has_nameless = self._has_nameless or not thread.asked.question_id
        with_id = self._by_question.get((question_id, key), ())
        if not (self._has_nameless and question_id):
            return with_id
        return sorted(
            (*with_id, *self._by_question.get(("", key), ())), key=lambda thread: thread.place
        )

    def has_had(self, question_id: str, key: bytes, answer: Json) -> bool:
        """Return whether an equal question of this call has had this answer."""
        wanted = canonical(answer)
        responses = (thread.last.response for thread in self.equal_threads(question_id, key))
        return any(
            isinstance(r, ev.InquiryAnswered) and canonical(r.answer) == wanted for r in responses
        )

    # Approvals
    # ----------------------------------------------------------------------------------------------

    def agreed(self, request: ev.InquiryRequest) -> ev.AnsweredBy | None:
        """Return the person who allowed the call and also saw this question. The permission then
        answers the question, but only the first time that the tool asks it.
        """
        given = self.decided("run")
        if (
            given is None
            or given.state != "approved"
            or given.answered_by is None
            or not was_previewed(given, request)
        ):
            return None
        is_the_first = len(self.equal_threads(request.question_id, request.question.key)) == 1
        return given.answered_by if is_the_first and given.answered_by.by == "user" else None

    def undecided(self, id: str) -> ev.Approval | None:
        """Return the approval with this id if the approval waits."""
        found = next((approval for approval in reversed(self.approvals) if approval.id == id), None)
        return found if found and found.state == "waiting" else None

    @property
    def open_approvals(self) -> list[ev.Approval]:
        """The approvals that wait, in order. An approval whose line is in the log twice is
        returned once.
        """
        if not self.undecided_at:
            return []
        waiting = (
            approval
            for approval in self.approvals
            if approval.state == "waiting" and approval.id in self.undecided_at
        )
        return list({approval.event_id: approval for approval in waiting}.values())

    def waiting(self, kind: str) -> ev.Approval | None:
        """Return the approval of this kind that still waits."""
        of_kind = [a for a in self.approvals if a.kind == kind]
        return of_kind[-1] if of_kind and of_kind[-1].state == "waiting" else None

    def decided(self, kind: str) -> ev.Approval | None:
        """Return the last decision of this kind."""
        of_kind = [a for a in self.approvals if a.kind == kind and a.state != "waiting"]
        return of_kind[-1] if of_kind else None

    @property
    def is_past_deadline(self) -> bool:
        """Whether the permission for the call has expired."""
        permission = self.decided("run")
        return (
            permission is not None and permission.state == "expired" and self.waiting("run") is None
        )

    def was_answered_since(self, review: str) -> bool:
        """Return whether a question of the call was asked again after people were asked to review
        the answers.
        """
        asked_at = self.undecided_at.get(review)
        return asked_at is not None and any(thread.asked_at > asked_at for thread in self.threads)

    def asks_again(self, review: ev.Approval) -> bool:
        """Return whether a review cannot be decided because a question of its form is open. Back
        may have opened the question again.
        """
        if not self._open or review.form is None:
            return bool(self._open)
        first = next((thread.place for thread in self.threads if thread.asked.id == review.form), 0)
        form = self.threads[first].asked.form
        ids = {str(question.get("id")) for question in form.questions} if form else set[str]()
        return any(
            thread.place >= first and thread.asked.revises and thread.asked.question_id in ids
            for thread in self._open.values()
        )

    # Turns of other agents inside its tool
    # ----------------------------------------------------------------------------------------------

    def child_like(self, wanted: ev.Child) -> ev.Child | None:
        """Return the recorded turn of the same agent with the same text and occurrence."""
        found = [child.began for child in self.children.values() if _is_same(child.began, wanted)]
        return found[-1] if found else None

    @property
    def open_children(self) -> list[ev.Child]:
        """The turns of other agents that the call may wait for. Only the conversations of these
        turns record whether they wait for people.
        """
        return (
            []
            if self.response
            else [child.began for child in self.children.values() if child.state != "done"]
        )


def _is_same(one: ev.Child, other: ev.Child) -> bool:
    return (one.agent, one.text_sha256, one.occurrence) == (
        other.agent,
        other.text_sha256,
        other.occurrence,
    )
