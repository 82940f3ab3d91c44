"""Replay of a call's record: the attempts this run has had, and their consequences; and the result as the model reads it.

Answers are replayed by content: a call that runs again is matched by question id and whole question. Positions would break with the first
tool that asks in another order; ids alone would let an old yes approve a new diff.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, assert_never, cast

from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.question.steps import Cancelled
from midturn.record.events import Approval, InquiryAnswered, InquiryCancelled, InquiryRedacted
from midturn.record.outcome import Success, ToolError
from midturn.routing import messages
from midturn.turn.decision import Give, GoBack, Refuse
from midturn.turn.record import Attempt, CallRecord, Chain
from midturn.turn.walk import PLACEHOLDER, Walk


class Replay:
    """One run of a call beside its record, which is only read: a call that begins again gets a new one.

    `skip` leaves out the attempts that came before the form where a visitor takes a call up. What matters to the model stands in the order
    in which the tool asked: which of several forms at once moves first is up to those who answer.
    """

    def __init__(self, record: CallRecord, skip: int = 0) -> None:
        self._record = record
        self._used = set(range(skip))
        self._before = len(record.chains)
        self._emissions: dict[tuple[str, bytes], int] = {}
        self._came_to: dict[int, int] = {}  # the number of the walk, by the place of an attempt

    @property
    def latest(self) -> Chain | None:
        """What was asked last: the last attempt of the last form."""
        last = max(self._came_to, key=self._order, default=None)
        return None if last is None else self._record.chains[last]

    @property
    def in_order(self) -> list[Chain]:
        """Every attempt on record that Back has not discarded, as the tool asked in this run; what it has not asked comes first."""
        revised = {chain.asked.revises for chain in self._record.revisions if not chain.is_superseded}
        standing = [chain for chain in self._record.chains if revised.isdisjoint(link.request.id for link in chain.links)]
        return sorted(standing, key=lambda chain: self._order(chain.place))

    def _order(self, place: int) -> tuple[int, int]:
        return self._came_to.get(place, -1), place

    def emits(self, walk: Walk, question_id: str, key: bytes) -> int:
        """Note that the tool asks this, once in a walk; return how often it has."""
        emissions = self._emissions.get((question_id, key), 0)
        if question_id not in walk.emitted:
            walk.emitted.add(question_id)
            emissions = self._emissions[question_id, key] = emissions + 1
        return emissions

    def find(self, walk: Walk, question_id: str, key: bytes) -> Chain | None:
        """Return the first recorded attempt of this very question that this run has not had.

        A refusal is told again only to a coroutine that wants to know, and the end of a deadline to each; a superseded attempt counts as
        never recorded.
        """
        reports = walk.asking.on_failure != "fail_call"
        for chain in self._record.asking(question_id, key):
            if chain.place not in self._used and not chain.is_superseded and (reports or not chain.is_refused or chain.is_past_deadline):
                return chain
        return None

    def comes_to(self, walk: Walk, chain: Chain) -> None:
        """Note that a walk has come to an attempt, recorded before or now."""
        self.use(chain)
        walk.form_is_recorded = True
        walk.goes_back = False
        walk.places.append(chain.place)
        self._came_to[chain.place] = walk.number

    def use(self, chain: Chain) -> None:
        """Note that this run has had an attempt."""
        self._used.add(chain.place)

    def has_had(self, chain: Chain) -> bool:
        """Whether this run has had an attempt."""
        return chain.place in self._used

    def was_put_to_a_person(self, chain: Chain) -> bool:
        """Whether an attempt that is open was open before this run, and no model had it."""
        return chain.place < self._before and not chain.is_with_a_model

    def goes_back(self, walk: Walk) -> bool:
        """Whether Back was chosen at the review: an attempt that this run has not had revises an answer of this walk."""
        revised = [chain for chain in self._record.revisions if not (self.has_had(chain) or chain.is_superseded)]
        return bool(revised) and any(chain.asked.revises in walk.inquiries.values() for chain in revised)

    def review(self, walk: Walk) -> Approval | None:
        """Return what is on record about the review of this very walk: that it waits, or what was decided.

        Where a call asks several forms at once, the approval says which one it is about. Otherwise it is about the form that was asked
        before it, all of which this run has come to.
        """
        found: Approval | None = None
        began = min(walk.places)
        chains = self._record.chains
        for approval, place in self._record.reviews:
            if approval.form is None:
                about = began < place and all(map(self.has_had, chains[began:place]))
            else:
                about = approval.form == chains[began].asked.id
            found = approval if about else found
        return found

    def form_of_review(self, walk: Walk) -> str | None:
        """Return what an approval of this walk's answers has to say about which form it means: nothing where that is plain."""
        began = min(walk.places)
        alone = all(place in walk.places for place in range(began, len(self._record.chains)))
        return None if alone else self._record.chains[began].asked.id

    def secret(self, question_id: str, key: bytes) -> Chain | None:
        """Return the open request of a secret; every recorded answer to it is used up, for none of them was written."""
        found: Chain | None = None
        for chain in self._record.asking(question_id, key):
            found = chain if chain.is_open else found
            if isinstance(chain.last.response, InquiryRedacted):
                self.use(chain)
        return found


def recorded(chain: Chain, question: Question[Any]) -> Give | GoBack | Refuse:
    """Return what a closed attempt of a question led to, as if it had just happened.

    Raises:
        AnswerError: The recorded answer does not fit.
    """
    response = chain.last.response
    match response:
        case InquiryAnswered(answer=answer, reason=reason, answered_by=who):
            by = who.by if who else "user"
            return Give(question.id, Answered(question.check(answer), reason=reason, automatic=by != "user"), response.id, by)
        case InquiryRedacted(answered_by=who):
            by = who.by if who else "user"
            return Give(question.id, Answered(PLACEHOLDER, automatic=by != "user"), response.id, by)
        case InquiryCancelled(reason="back"):
            return GoBack()
        case InquiryCancelled(reason=reason, metadata=metadata):
            reply = (metadata or {}).get("reply")
            return Refuse(reason, reply=reply if isinstance(reply, str) else None, on_record=response.event_id)
        case None:
            raise AssertionError("an open attempt is taken over, not replayed")
        case _ as other:
            assert_never(other)


# The result of a call, as the model reads it --------------------------------------------------------------------------


_RETRY: Final = r"\s+You may retry[^.\n]*\.\s*\Z"  # a tool's own last sentence, where ours says the same after it


def for_model(call: CallRecord, outcome: Success | ToolError, run: Replay) -> tuple[str, bool]:
    """Return the content of the response and whether it is an error, with the reasons that people and models gave.

    What counts is the order in which this run of the tool asked: what was recorded last may be a secret that an earlier run had to ask
    again, or what one of several forms at once came to while another waited.
    """
    match outcome:
        case Success(content):
            body, told = content, None
        case ToolError(message):
            body, told = _explained(call, message, run.latest.last if run.latest else None)
    return with_reasons(body, run, told), isinstance(outcome, ToolError)


def with_reasons(body: str, run: Replay, told: Attempt | None = None) -> str:
    """Return what the model reads with what people typed with a "no" below it, but for what was `told` already."""
    typed = _typed_reasons(run.in_order, told)
    passed_on = _passed_on(body) if typed else None
    return "\n".join([body, *(messages.user_added(reason) for reason in typed if reason != passed_on)])


def cancel_marker(cancelled: Cancelled) -> str:
    """Return what the model reads when the person replied in place of answering."""
    return json.dumps(cancelled.to_json(), ensure_ascii=False)


def _passed_on(body: str) -> str | None:
    """Return the reason that the tool's own result passes on already, as a JSON object with a `reason`."""
    try:
        result: object = json.loads(body)
    except (ValueError, RecursionError):  # any text may be a result
        return None
    reason = cast("dict[str, object]", result).get("reason") if isinstance(result, dict) else None
    return reason if isinstance(reason, str) else None


def _explained(call: CallRecord, message: str, attempt: Attempt | None) -> tuple[str, Attempt | None]:
    """Say who rejected the call, where the last thing asked in it was answered with "no" by a model or a person."""
    response = attempt.response if attempt else None
    if attempt is None or not attempt.is_rejection or not isinstance(response, InquiryAnswered) or response.answered_by is None:
        return message, None
    tool, text, who = call.request.name, attempt.request.question.text, response.answered_by
    match who.by:
        case "assistant":
            head = messages.rejected_by_assistant(tool, who.model or "unknown", text, response.reason)
            return f"{head}\n\n{re.sub(_RETRY, '', message)}\n{messages.RETRY_OR_REVIEW}", attempt
        case "user":
            return f"{messages.rejected_by_user(tool, text, response.reason)}\n\n{message}", attempt
        case "policy":
            return f"{messages.rejected_by_policy(tool, who.name or who.by, text, response.reason)}\n\n{message}", attempt
        case _:
            return message, None


def _typed_reasons(chains: Sequence[Chain], told: Attempt | None) -> list[str]:
    """Return what people typed with a "no" in this call, in order, without what the message tells already."""
    attempts = [link for chain in chains for link in chain.links if link is not told and link.is_rejection]
    answered = [a.response for a in attempts if isinstance(a.response, InquiryAnswered)]
    return [r.reason for r in answered if r.reason and r.answered_by and r.answered_by.by == "user"]
