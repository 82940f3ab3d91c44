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
"""Metadata of a request to a model. A request without it was made to a person."""


class Attempt(Struct, eq=False, gc=False):
    """A recorded request, and its response if there is one. Never part of a reference cycle
    (`gc=False`).
    """

    request: ev.InquiryRequest
    response: ev.InquiryResponse | None = None

    @property
    def is_rejection(self) -> bool:
        """Whether the answer is a rejection. `false` rejects only a yes/no question; for other
        questions it can be an ordinary option.
        """
        is_boolean = isinstance(self.request.question.answer_type, BooleanType)
        return (
            is_boolean
            and isinstance(self.response, ev.InquiryAnswered)
            and self.response.answer is False
        )


def is_unseen(response: ev.InquiryResponse | None) -> bool:
    """Return whether a person had to review a model's answer, but nobody was attached."""
    return type(response) is ev.InquiryCancelled and response.metadata == ev.MODEL_ANSWER_IS_FINAL


class QuestionThread(Struct, eq=False, gc=False):
    """A question of a call and its attempts: the first request, and one more for each escalation.
    Only the last attempt counts. Docstrings call this object a question thread.

    Args:
        asked: The first request that was written for the question.
        attempts: The request and its escalations.
        place: Index of the thread among the threads of the call, from 0.
        asked_at: Number of events in the turn before the last attempt.
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
        """Whether the question has no response yet."""
        return self.attempts[-1].response is None

    @property
    def is_with_a_model(self) -> bool:
        """Whether a model was asked."""
        return (self.last.request.metadata or {}).get("asks") == WITH_A_MODEL["asks"]

    @property
    def is_superseded(self) -> bool:
        """Whether the tool continued without the answer. Replay ignores such a thread."""
        response = self.last.response
        return isinstance(response, ev.InquiryCancelled) and response.reason == "superseded"

    def counts_for(self, on_failure: str) -> bool:
        """Return whether replay may use the recorded response when the tool asks the same question.
        A refusal is used only if the tool handles missing answers. A passed deadline is always
        used.
        """
        response = self.last.response
        if type(response) is not ev.InquiryCancelled:
            return True
        return response.reason in ("back", "deadline") or (
            response.reason != "superseded" and on_failure != "fail_call"
        )


class InquiryEntry(Struct, eq=False, gc=False):
    """The last request with a request id, and the question thread that it belongs to.

    `call` and `thread` are None if another program recorded the question without naming its call.
    """

    attempt: Attempt
    call: CallRecord | None = None
    thread: QuestionThread | None = None


class ChildRecord(Struct):
    """A turn that a call started with another agent, with the last state that the outer turn
    recorded.
    """

    began: ev.Child
    state: str = "running"


class AnswersSoFar:
    """The answers in a call, by question id, in the order in which they were given. Secrets and
    skipped questions are not included.

    `at_reply` contains a copy of the answers at each reply from a person to the model, by the
    `event_id` of the reply. Replay needs these copies, because the record of a replayed call can
    contain later answers.
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
        """Store a copy of the current answers for a reply."""
        self.at_reply[event_id] = dict(self.now)

    def _remove(self, ids: Iterable[str]) -> None:
        for key in ids:
            self.now.pop(key, None)


class CallRecord:
    """The recorded state of a call: its questions, decisions and response."""

    def __init__(self, request: ev.ToolCallRequest) -> None:
        self.request = request
        self.called_at = 0
        """Number of events in the turn before the call."""
        self.arguments: Json = request.arguments
        """The arguments that the call runs with: the model's, or those of an edit."""
        self.threads: list[QuestionThread] = []
        self.revisions: list[QuestionThread] = []
        """The question threads that were started because a person chose Back."""
        self.approvals: list[ev.Approval] = []
        self.reviews: list[tuple[ev.Approval, int]] = []
        """The events of reviews, each with the number of question threads recorded before it."""
        self.decided_at = -1
        """Number of events in the turn before a person's last decision in the call. -1 if there is
        none.
        """
        self.undecided_at: dict[str, int] = {}
        """Number of events in the turn before each waiting approval, by approval id."""
        self.decisions: set[str] = set()
        """The ids of the approvals that were decided. Only the first decision about each counts."""
        self.was_previewed = False
        """Whether the permission prompt also showed the tool's first question."""
        self.response: ev.ToolCallResponse | None = None
        self.answers = AnswersSoFar()
        self.children: dict[str, ChildRecord] = {}
        """Turns that the tool started with other agents, by the id of the event that recorded them.
        """
        self.values: dict[str, Json] = {}
        """Values that the tool stored for later runs, by name."""
        self._first_concurrent: int | None = None
        """Index of the first question thread that was still open when another question was asked.
        """
        self._open: dict[int, QuestionThread] = {}
        self._by_question: dict[tuple[str, bytes], list[QuestionThread]] = {}
        self._indexed = 0
        """Number of threads in `_by_question`."""
        self._has_nameless = False
        """Whether any recorded request has no question id."""

    @property
    def call(self) -> ToolCall:
        """The call, with the arguments that it runs with."""
        return ToolCall(self.request.event_id, self.request.id, self.request.name, self.arguments)

    # Questions
    # ----------------------------------------------------------------------------------------------

    @property
    def open_threads(self) -> list[QuestionThread]:
        """The open questions, in the order in which they were asked."""
        return [self._open[place] for place in sorted(self._open)] if self._open else []

    def note_state(self, thread: QuestionThread) -> None:
        """Update `open_threads` after a question was closed or opened again."""
        if thread.attempts[-1].response is None:
            self._open[thread.place] = thread
        else:
            self._open.pop(thread.place, None)

    def begin_thread(self, first: Attempt) -> QuestionThread:
        """Add a new question thread."""
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
        """Return whether the tool never had two open questions at the same time, up to the last of
        the question threads with the indexes `places`.
        """
        return self._first_concurrent is None or max(places, default=0) < self._first_concurrent

    def equal_threads(self, question_id: str, key: bytes) -> Sequence[QuestionThread]:
        """Return the question threads with the same id and content, in order. Requests from other
        programs may have no question id; they match by content.
        """
        while self._indexed < len(
            self.threads
        ):  # computed on first use, because listing open questions does not need the keys
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
        """Return whether this call already received this answer to the same question."""
        wanted = canonical(answer)
        responses = (thread.last.response for thread in self.equal_threads(question_id, key))
        return any(
            isinstance(r, ev.InquiryAnswered) and canonical(r.answer) == wanted for r in responses
        )

    # Approvals
    # ----------------------------------------------------------------------------------------------

    def agreed(self, request: ev.InquiryRequest) -> ev.AnsweredBy | None:
        """Return the person who approved the call, if the prompt also showed this question. The
        approval then answers the question, but only the first time that the tool asks it.
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
        """Return the approval with this id if it is still open."""
        found = next((approval for approval in reversed(self.approvals) if approval.id == id), None)
        return found if found and found.state == "waiting" else None

    @property
    def open_approvals(self) -> list[ev.Approval]:
        """The open approvals, in order. An approval that is in the log twice is returned once."""
        if not self.undecided_at:
            return []
        waiting = (
            approval
            for approval in self.approvals
            if approval.state == "waiting" and approval.id in self.undecided_at
        )
        return list({approval.event_id: approval for approval in waiting}.values())

    def waiting(self, kind: str) -> ev.Approval | None:
        """Return the open approval of this kind, or None."""
        of_kind = [a for a in self.approvals if a.kind == kind]
        return of_kind[-1] if of_kind and of_kind[-1].state == "waiting" else None

    def decided(self, kind: str) -> ev.Approval | None:
        """Return the last decision about an approval of this kind, or None."""
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
        """Return whether the call asked a question after the review was requested."""
        asked_at = self.undecided_at.get(review)
        return asked_at is not None and any(thread.asked_at > asked_at for thread in self.threads)

    def asks_again(self, review: ev.Approval) -> bool:
        """Return whether a review cannot be decided yet because a question of its form is open, for
        example after Back.
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
        """Return the recorded turn with the same agent, text and occurrence, or None."""
        found = [child.began for child in self.children.values() if _is_same(child.began, wanted)]
        return found[-1] if found else None

    @property
    def open_children(self) -> list[ev.Child]:
        """The nested turns that the call may be waiting for. Whether they wait for people is
        recorded only in their own conversations.
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
