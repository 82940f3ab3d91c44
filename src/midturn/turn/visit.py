"""Answers an open turn without running it: returns the open decisions, and the events that record
an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from msgspec.structs import replace

from midturn.errors import (
    AlreadyAnswered,
    AnswerError,
    DigestMismatch,
    MidturnError,
    NotOpen,
    Problem,
)
from midturn.events.open_question import Address, asker_of, shown
from midturn.events.prompt import FormSubject, Prompt, reviewed_places
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    InquiryRequest,
    Source,
    call_requests,
    put_to_people,
)
from midturn.question.form import Form
from midturn.question.json_value import Json, SecretValue
from midturn.question.people import Directory
from midturn.question.reply import (
    Answered,
    Deferred,
    EndedTurn,
    Reply,
    Scope,
    Unavailable,
    WentBack,
)
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.routing.rules import Ruling
from midturn.turn.call import Call
from midturn.turn.call_record import CallRecord, QuestionThread
from midturn.turn.decision import CHANGED, DecisionReply
from midturn.turn.ending import ended_by_user
from midturn.turn.inputs import FormWanted, OnFailure, Record
from midturn.turn.queue import DecisionQueue, OpenDecision, not_for_agents
from midturn.turn.replay import Replay
from midturn.turn.requests import REPORTS_REPLIES
from midturn.turn.settings import TurnSettings
from midturn.turn.standing_decisions import refusal
from midturn.turn.step_output import StepOutput
from midturn.turn.view import TurnView, went_on, why_closed

_EVERYBODY_WAITS = DetachedPolicies(run="defer", deliver="defer", tool="defer")


class Visit:
    """One call of an open turn, replayed up to its open decision.

    Tools are not run, and other calls are not changed.

    `prompt` returns the prompt for a person, and `take` returns the batch to append for a reply.
    After a reply, including Back, `prompt` returns the next question to show. The request for the
    next question is usually not part of this batch, but of the batch for the next reply, because
    the settings of the next run may answer the question. There are two exceptions: after a map of
    answers, because the unanswered questions must stay open, and after Back at a review, because
    only this request records that the person chose Back.

    Args:
        window: The events of the last turn.
        event_id: The request to answer.
        ids: Ids for the new events.
        conversation: The conversation, for prompts and their ids.
        directory: The configured people of the process that receives the answer, or None.
        rules: Evaluates the tool's permission rules for edited arguments. None if this process does
            not have the rules; the process that runs the turn then checks edits.

    Raises:
        NotOpen: The turn has no such open request.
        AlreadyAnswered: Another answer came first.
    """

    def __init__(
        self,
        window: Sequence[Event],
        event_id: str,
        ids: Iterator[str],
        conversation: str = "",
        directory: Directory | None = None,
        rules: Callable[[Json], Ruling] | None = None,
    ) -> None:
        self._window = window
        self._ids = ids
        self._conversation = conversation
        self._event_id = event_id
        self._directory = directory
        self._rules = rules
        self._form: tuple[int, FormWanted] | None = None
        """The form of the request, after the index of its first question thread in the call. None
        for a permission or a delivery.
        """
        request = next(
            (asked for asked in put_to_people(window) if asked.event_id == event_id), None
        )
        self._load()
        if request is None or self._output.record.ended or not self._output.record.started:
            raise self._closed([event_id])
        if isinstance(request, InquiryRequest):
            self._call = self._at_question(request)
        else:
            self._call = self._at_approval(request)
        self._held = self._drained()

    @property
    def request(self) -> Event | None:
        """The request to answer."""
        return next(
            (asked for asked in put_to_people(self._window) if asked.event_id == self._event_id),
            None,
        )

    @property
    def form(self) -> Form | None:
        """The form that the question belongs to. None for a permission or a delivery."""
        return self._form[1].form if self._form else None

    @property
    def answers(self) -> Mapping[str, Json]:
        """The answers of a complete form, without secrets."""
        return {
            key: value
            for key, value in self._call.answers.items()
            if not isinstance(value, SecretValue)
        }

    @property
    def answers_so_far(self) -> Mapping[str, Json]:
        """The answers to earlier questions of the form, without secrets."""
        each = self._open()
        run = self._call.form_run(each.id) if each else None
        known = run.walker.collected if run else {}
        return {key: value for key, value in known.items() if not isinstance(value, SecretValue)}

    @property
    def barred_for_programs(self) -> str:
        """Why only people may decide. Empty if a program may answer on its own behalf."""
        each = self._open()
        return not_for_agents(each.decision, Answered(None)) if each else ""

    @property
    def secrets(self) -> frozenset[str]:
        """The ids of the questions that have been answered with a secret so far."""
        each = self._open()
        run = self._call.form_run(each.id) if each else None
        known = run.walker.collected if run else self._call.answers
        return frozenset(key for key, value in known.items() if isinstance(value, SecretValue))

    def prompt(self) -> Prompt | None:
        """Return the prompt for a person, or None if no decision is open."""
        each = self._open()
        prompt = each.decision.prompt() if each else None
        asker = asker_of(self._window)
        if prompt is None or asker is None:
            return prompt
        always = asker.always if prompt.kind == "run" else ()
        scopes: tuple[Scope, ...] = tuple(scope for scope in prompt.scopes if scope == "project")
        return replace(
            prompt, may_remember=bool(always), always=always, scopes=scopes
        )  # a call of an external agent is a separate turn: `conversation` is not offered

    def checked(self) -> tuple[Event, ...]:
        """Check an unchecked edit with `rules`, and return the events to append. Empty if there is
        no such edit.
        """
        batch, self._held = self._held, ()
        return batch

    def take(self, reply: Reply, who: AnsweredBy, digest: str = "") -> tuple[Event, ...]:
        """Return the batch to append for a reply. It must be durable before the next question is
        shown.

        Args:
            reply: The reply. For a form of several questions, `Answered` may contain a map of
                answers by question id: every answer is recorded, and the form counts as reviewed.
            who: The person or program that replied.
            digest: Digest of the subject that was shown (see `OpenQuestion.digest`).

        Raises:
            AnswerError: The reply is invalid. Nothing was changed.
            NotAllowed: This person may not answer.
        """
        each = self._open()
        if each is None:
            raise self._closed([])
        reply = self._with_kept_choice(reply)
        self._check_scope(reply)
        keeps_all = isinstance(reply, WentBack)
        match reply:
            case EndedTurn() if barred := self._queue.barred_from_ending(each, who):
                raise barred.error
            case EndedTurn():
                self._output.end(ended_by_user({self._call.event}, who))
                self._call.abandon()
            case Unavailable():
                raise AnswerError([Problem("", "No one was there to answer.")])
            case Deferred():
                raise AnswerError(
                    [Problem("", "The question was left open, so there is nothing to record.")]
                )
            case _ if (answers := self._call.answers_to_form(each.id, reply)) is not None:
                self._call.take_all(each.id, answers, who)
                keeps_all = True
            case _:
                self._decide(each, reply, who, digest)
        self._call.advance()
        events = self._drained()
        asked = next((place for place, event in enumerate(events) if _asks(event)), len(events))
        now = len(events) if keeps_all else asked
        batch, self._held = (*self._held, *events[:now]), events[now:]
        return batch

    def _with_kept_choice(self, reply: Reply) -> Reply:
        """Return an approval that names the permission which the external agent must remember.

        Raises:
            AnswerError: The reply names an unknown permission, or several permissions are offered
                and the reply names none.
        """
        prompt = self.prompt()
        if prompt is None or not isinstance(reply, Answered) or not reply.remember:
            return reply
        if not prompt.always and isinstance(reply.remember, str):
            raise AnswerError(
                [
                    Problem(
                        "",
                        "`remember` must be true or false: this agent has no standing permissions"
                        " to choose from.",
                    )
                ]
            )
        if not prompt.always:
            return reply
        if reply.value is not True:
            raise AnswerError(
                [
                    Problem(
                        "",
                        "Only an approval can be remembered: this agent cannot remember a refusal.",
                    )
                ]
            )
        kept = (
            prompt.always[0]
            if reply.remember is True and len(prompt.always) == 1
            else reply.remember
        )
        if kept not in prompt.always:
            raise AnswerError(
                [
                    Problem(
                        "",
                        "Name the permission to remember, one of:"
                        f" {'; '.join(map(repr, prompt.always))}.",
                    )
                ]
            )
        return replace(reply, remember=kept)

    def _check_scope(self, reply: Reply) -> None:
        """Raise an `AnswerError` if the reply has a scope that the prompt does not offer."""
        prompt = self.prompt()
        if (
            prompt is None
            or not isinstance(reply, Answered)
            or reply.scope is None
            or asker_of(self._window) is None
        ):
            return
        if why := refusal(reply.scope, prompt.scopes, has_people=prompt.people is not None):
            raise AnswerError([Problem("", why)])

    def catch_up(self, window: Sequence[Event]) -> None:
        """Replay the call again, because another process wrote to the turn after the visit began.

        Raises:
            AlreadyAnswered: The shown question was answered.
            NotOpen: The call is waiting for another decision now.
            DigestMismatch: The call was edited after it was shown. The permission is still open,
                and `prompt` returns the edited call.
        """
        shown, waited = self.prompt(), self._call.waiting
        self._window = window
        self._load()
        call = self._output.record.calls.get(self._call.event)
        if call is None or call.response or self._output.record.ended:
            raise self._closed(waited)
        self._call = self._replayed(call)
        self._held = self._drained()
        now = self.prompt()
        if shown is None or now is None:
            raise self._closed(waited)
        is_as_shown = (shown.kind, shown.question, shown.subject) == (
            now.kind,
            now.question,
            now.subject,
        )
        if (
            now.digest
            and shown.event == now.event
            and not (is_as_shown and shown.digest == now.digest)
        ):
            raise DigestMismatch([Problem("", CHANGED.format(now.digest))], digest=now.digest)
        if not is_as_shown:
            raise self._closed(waited)

    def _closed(self, waited: Sequence[str]) -> AlreadyAnswered | NotOpen:
        """Return the error for a question that is no longer open.

        Ids of requests that were not written yet are ignored.
        """
        turn = TurnView.last(self._window)
        asked = next(
            (
                event_id
                for event_id in waited
                if event_id == self._event_id or turn.was_asked(event_id)
            ),
            None,
        )
        if asked is None:
            return went_on(self._window, Address(self._conversation, self._event_id))
        return why_closed(self._window, Address(self._conversation, asked))

    def _decide(
        self, each: OpenDecision, reply: DecisionReply, who: AnsweredBy, digest: str
    ) -> None:
        invalid = self._call.take(each, reply, who, digest)
        if invalid is not None:
            raise invalid.error
        if (still := self._queue.find(each.id)) is not None and still.decision is each.decision:
            self._queue.withdraw(each.id)  # a vote was recorded; the next voter needs a new `Visit`

    def _open(self) -> OpenDecision | None:
        waiting = self._call.waiting
        return self._queue.find(waiting[0]) if waiting else None

    def _drained(self) -> tuple[Event, ...]:
        return tuple(effect.event for effect in self._output.drain() if isinstance(effect, Record))

    # Replaying the call
    # ----------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Load the turn record, with settings that leave every decision to a person."""
        names = {call.name for call in call_requests(self._window)}
        policies = {
            name: ToolPolicy(source=Source.tool(name), detached=_EVERYBODY_WAITS) for name in names
        }
        settings = TurnSettings(
            tools=policies,
            conversation=self._conversation,
            attached=False,
            answerers=self._directory,
            knows_rules=False,
            rules_of_edits=self._rules,
        )
        self._output = StepOutput(settings, self._ids)
        self._queue = DecisionQueue(self._output)
        for event in self._window:
            self._output.record.apply(event)

    def _at_question(self, request: InquiryRequest) -> Call:
        """Replay a form until the requested question is open.

        If the tool asked the same question both in a form and alone, the request can belong to
        either. Replay determines which.
        """
        record, thread = self._open_thread(request)
        for first, form in _forms(record, thread):
            self._form = first, _wanted(form, request)
            call = self._replayed(self._output.record.calls[record.request.event_id])
            if request.event_id in call.waiting:
                return call
            self._load()  # replay changed the record without reaching the question, so reload it
        raise self._closed([request.event_id])

    def _open_thread(self, request: InquiryRequest) -> tuple[CallRecord, QuestionThread]:
        """Return the call and the question thread of a request that is still open."""
        entry = self._output.record.inquiries[request.id]
        if (
            entry.attempt.response
            or entry.call is None
            or entry.thread is None
            or entry.call.response is not None
        ):
            raise self._closed([request.event_id])
        return entry.call, entry.thread

    def _at_approval(self, request: Approval) -> Call:
        call = self._output.record.calls.get(request.call)
        if (
            call is None
            or call.response is not None
            or any(a.id == request.id and a.state != "waiting" for a in call.approvals)
        ):
            raise self._closed([request.event_id])
        if request.kind == "review":
            self._form = self._reviewed(call, request)
        return self._replayed(call)

    def _reviewed(self, call: CallRecord, request: Approval) -> tuple[int, FormWanted]:
        """Return the form under review, after the index of its first question thread."""
        first = next(
            (
                thread
                for thread in reversed(call.threads)
                if thread.asked.form and request.form in (None, thread.asked.id)
            ),
            None,
        )
        if first is None or first.asked.form is None:
            raise self._closed([request.event_id])
        form = Form.from_record(list(first.asked.form.questions), review=first.asked.form.review)
        return first.place, _wanted(form, first.asked)

    def _replayed(self, record: CallRecord) -> Call:
        """Replay a call until a decision is open: an approval, or a question of a form. Return the
        call.
        """
        first, asking = self._form or (0, None)
        policy = self._output.settings.tools[record.request.name]
        call = Call(self._output, self._queue, record, policy, Replay(record, first))
        if asking is None:
            call.begin()
        else:
            call.returned(asking)
            call.advance()
        return call


def reviewed_answers(turn: Sequence[Event], call: CallRecord, review: Approval) -> str:
    """Return the answers of a form under review as a list in Markdown, without secrets.

    If the form cannot be replayed, because another program or another version asked it, the
    recorded answers are listed.
    """
    try:
        prompt = Visit(turn, review.event_id, map(str, count())).prompt()
    except MidturnError:
        prompt = None
    subject = (
        prompt.subject if prompt and isinstance(prompt.subject, FormSubject) else _recorded(call)
    )
    questions = [subject.questions[place] for place in reviewed_places(subject)]
    return "\n".join(
        f"- {question.text}: {shown(subject.answers[question.id])}" for question in questions
    )


def review_digest(turn: Sequence[Event], review: Approval) -> str:
    """Return the digest of the answers under review. Empty if the form cannot be replayed, because
    another program or another version asked it.
    """
    try:
        prompt = Visit(turn, review.event_id, map(str, count())).prompt()
    except MidturnError:
        return ""
    return prompt.digest if prompt else ""


def _recorded(call: CallRecord) -> FormSubject:
    """Return the questions of a call and their recorded answers."""
    asked = [attempt for thread in call.threads for attempt in thread.attempts]
    answers = {
        each.request.question_id: each.response.answer
        for each in asked
        if each.response and each.response.outcome == "answered"
    }
    questions = {
        each.request.question_id: each.request.question.asked(each.request.question_id)
        for each in asked
    }
    return FormSubject(tuple(questions.values()), answers)


def _forms(call: CallRecord, thread: QuestionThread) -> Iterator[tuple[int, Form]]:
    """Yield the forms that a question may belong to, each after the index of its first question
    thread. A form of the question alone comes last.
    """
    question_id = (
        thread.asked.question_id or "answer"
    )  # requests from other programs may have no question id
    for first in range(thread.place, -1, -1):
        asked = call.threads[first].asked.form
        if asked and any(question.get("id") == question_id for question in asked.questions):
            yield (
                first,
                Form.from_record(list(asked.questions), review=asked.review),
            )  # an earlier form among several concurrent ones
    yield thread.place, Form((thread.asked.question.asked(question_id),))


def _wanted(form: Form, request: InquiryRequest) -> FormWanted:
    """Return a form with the options that the tool asked it with."""
    source = request.source
    agent = source.name if source.source == "other" else None
    return FormWanted(form, source, _on_failure(request), on_behalf_of=agent)


def _on_failure(request: InquiryRequest) -> OnFailure:
    return (
        "report_all"
        if (request.metadata or {}).get("reply") == REPORTS_REPLIES["reply"]
        else "fail_call"
    )


def _asks(event: Event) -> bool:
    return isinstance(event, InquiryRequest) or (
        isinstance(event, Approval) and event.state == "waiting"
    )
