"""One ask of a tool on its way through its form, question by question, by a map of answers, or by replay of what is on record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, assert_never, cast

from midturn.errors import AnswerError, Problem
from midturn.events.outcome import Success, ToolError
from midturn.events.types import Approval, InquiryAnswered, InquiryCancelled, InquiryRedacted
from midturn.question.json_value import Json, SecretValue, json_equal, shown
from midturn.question.people import People
from midturn.question.question import Question
from midturn.question.reply import Answered, Replied, Reply, Submitted, WentBack
from midturn.question.walker import Ask, Cancelled, Completed, FormWalker, Step
from midturn.routing import messages
from midturn.turn.decision import Give, GoBack, Leave, Refuse, Send
from midturn.turn.record import Attempt, CallRecord, Chain
from midturn.turn.step import Answer, FormWanted

PLACEHOLDER = SecretValue("")  # stands for a secret that was answered before the process died; never reaches a tool


class Walk:
    """The walker of one ask, and what belongs to its answers: which inquiry each came from, who gave it, and why.

    `number` counts the walks of a run of its call; `screen` names the screen that a form of several questions keeps. `waits_for` is the
    id of the decision that the walk waits for, `places` say which attempts of its call it has come by. `goes_back` means that Back is
    what happened last. `is_a_persons` means that a question of it was put to a person. `deadline` is that of all its questions,
    from its first request; `people` are those of each, by its id. `is_of_one`: its form
    is one question without a review, which is complete with its answer.
    """

    def __init__(self, number: int, ask: int | None, asking: FormWanted, drafts: Mapping[str, Json], screen: str | None) -> None:
        self.number = number
        self.screen = screen
        self.ask = ask
        self.asking = asking
        self._drafts = drafts
        self.waits_for: str | None = None
        self.emitted: set[str] = set()
        self.inquiries: dict[str, str] = {}
        self.placeholders: set[str] = set()
        self.goes_back = False
        self.is_a_persons = False
        self.deadline = ""
        self.people: dict[str, People] = {}
        self.places: list[int] = []
        self.is_of_one = self.form_is_recorded = len(asking.form.questions) == 1 and not asking.form.review
        self._left: Cancelled | None = None
        self._given: dict[str, Answer[Json | SecretValue]] = {}

    @cached_property
    def walker(self) -> FormWalker:
        """What goes through the form; one question that has its answer on record needs none."""
        return FormWalker(self.asking.form, drafts=self._drafts)

    @property
    def tells_replies(self) -> bool:
        """Whether the tool hears what a person says instead of answering; otherwise that ends its call."""
        return self.asking.on_failure == "report_all"

    def step(self) -> Step:
        """Say what comes now."""
        return self._left or self.walker.step()

    def asks(self) -> Ask:
        """Return what is asked now."""
        match self.step():
            case Ask() as ask:
                return ask
            case step:
                raise AssertionError(f"nothing is asked: {step}")

    def follow(self, then: Give | GoBack | Leave | Send) -> None:
        """Move by what a decision led to; it is waited for no more."""
        self.waits_for = None
        match then:
            case Give():
                self._give(then)
            case GoBack():
                self.goes_back = self.is_a_persons = True
                self._go_back()
            case Leave(replied):
                self._leave(replied)
            case Send():
                self.walker.feed(Submitted())
            case _ as other:
                assert_never(other)

    def given(self, answers: dict[str, Json | SecretValue]) -> dict[str, Answer[Json | SecretValue]]:
        """Return the answers with who gave each; a skipped question has no such entry."""
        found: dict[str, Answer[Json | SecretValue]] = {}
        for question_id, value in answers.items():
            given = self._given.get(question_id)
            if given is None or (value is None and given.value is not None):
                found[question_id] = Answer(None, by="skipped")
            else:
                found[question_id] = Answer(value, given.reason, given.by)
        return found

    @property
    def given_so_far(self) -> dict[str, Answer[Json | SecretValue]]:
        """The answers that were given by now; no secret that is not there any more."""
        collected = self.walker.collected
        kept: dict[str, Json | SecretValue] = {key: collected[key] for key in collected if key not in self.placeholders}
        return self.given(kept)

    def _go_back(self) -> None:
        """Go back; from the end, where a visitor chose it at a review that the form itself does not have."""
        match self.walker.step():
            case Completed():
                self.walker.reopen()
            case _:
                self.walker.feed(WentBack())

    def _give(self, give: Give) -> None:
        """Take an answer in, and go on."""
        self.note(give)
        self.walker.accept(give.question_id, give.answered.value, automatic=give.answered.automatic)

    def note(self, give: Give) -> Answer[Json | SecretValue]:
        """Note who gave an answer, and why; return that with the answer."""
        question_id, answered = give.question_id, give.answered
        self.is_a_persons = self.is_a_persons or give.by == "user"
        self._given[question_id] = noted = Answer(answered.value, answered.reason, give.by)
        self.inquiries[question_id] = give.inquiry
        if answered.value is PLACEHOLDER:
            self.placeholders.add(question_id)
        else:
            self.placeholders.discard(question_id)
        return noted

    def _leave(self, replied: Replied) -> None:
        """Cancel the form; a secret that is asked again after its walk has ended is part of the walk here."""
        match self.walker.step():
            case Completed(answers):
                plain: dict[str, Json] = {key: v for key, v in answers.items() if v is not None and not isinstance(v, SecretValue)}
                self._left = Cancelled(plain, replied.text)
            case _:
                self.walker.feed(replied)


# A map of answers to a whole form -------------------------------------------------------------------------------------


def answers_to_form(walker: FormWalker, reply: Reply) -> dict[str, Answered] | None:
    """Return the answers by question id; None where the reply is one to the question that is asked now alone.

    Raises:
        AnswerError: The map does not fit the form, or not all of it would count from here on; `problems` has everything.
    """
    step = walker.step()
    if not isinstance(step, Ask) or step.total == 1 or not isinstance(reply, Answered) or not isinstance(reply.value, Mapping):
        return None
    if _fits(step.question, reply.value):
        return None
    checked = _checked(walker.questions, reply.value, reply.reason)
    problems = list(_without_effect(walker, checked))
    if problems:
        raise AnswerError(problems)
    return checked


def _fits(question: Question[Any], value: object) -> bool:
    try:
        question.check(value)
    except AnswerError:
        return False
    return True


def _checked(asked: Mapping[str, Question[Any]], value: Mapping[str, Json], reason: str | None) -> dict[str, Answered]:
    """Check each answer by itself; a reason is the reason of each. A null says of any question that it is not asked."""
    problems = [
        Problem(f"/{key}", f"the form has no question {key!r}; its questions are {', '.join(asked)}.") for key in value if key not in asked
    ]
    checked: dict[str, Answered] = {}
    for key in (key for key in value if key in asked):
        try:
            checked[key] = Answered(None if value[key] is None and asked[key].when else asked[key].check(value[key]), reason=reason)
        except AnswerError as error:
            problems += [Problem(f"/{key}{problem.pointer}", problem.message) for problem in error.problems]
    if problems:
        raise AnswerError(problems)
    return checked


def _without_effect(walker: FormWalker, answers: Mapping[str, Answered]) -> Iterator[Problem]:
    """Walk ahead, and yield a problem for every answer that would not count: its giver would believe that it does."""
    ahead = walker.copy()
    recorded = walker.collected
    asked = ahead.follow(answers)
    step = ahead.step()
    missing = step.question.id if isinstance(step, Ask) and step.question.id not in answers else None
    for key, answer in answers.items():
        if key in asked or answer.value is None or _equal(recorded.get(key), answer.value):
            continue
        if missing is not None and key not in recorded:
            message = f"the open question `{missing}` has no answer in the map, and the form goes on from there: add it."
            yield Problem(f"/{missing}", message)
            return
        yield Problem(f"/{key}", _why_not(walker, key))


def _equal(recorded: Json | SecretValue, value: Json | SecretValue) -> bool:
    return not isinstance(recorded, SecretValue) and not isinstance(value, SecretValue) and json_equal(recorded, value)


def _why_not(walker: FormWalker, key: str) -> str:
    if key in walker.collected:
        return "this question has another answer on record. Leave it out, or go back to it at the prompt."
    when = walker.questions[key].when
    gate = f" It is asked only if `{when.question_id}` is {shown(when.equals)}." if when else ""
    return f"this question is not asked with these answers.{gate} Leave it out."


# ----------------------------------------------------------------------------------------------------------------------
# Replay of a call's record: the attempts this run has had, and their consequences; and the result as the model reads it.
# Answers are replayed by content: a call that runs again is matched by question id and whole question. Positions would break with the first
# tool that asks in another order; ids alone would let an old yes approve a new diff.


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
        """Every attempt on record that stands, as the tool asked in this run; what it has not asked comes first.

        Who goes back has not taken an answer back yet: it stands where nothing was answered after that, as where they reply there. Once
        something was, its question was answered anew, or is not asked with those answers.
        """
        standing = self._record.chains
        if self._record.revisions:
            given = (InquiryAnswered, InquiryRedacted)
            answered = max((chain.place for chain in standing if isinstance(chain.last.response, given)), default=-1)
            revised = {chain.asked.revises for chain in self._record.revisions if not chain.is_superseded and chain.place <= answered}
            standing = [chain for chain in standing if revised.isdisjoint(link.request.id for link in chain.links)]
        return sorted(standing, key=lambda chain: self._order(chain.place))

    def _order(self, place: int) -> tuple[int, int]:
        return self._came_to.get(place, -1), place

    def emits(self, walk: Walk, question_id: str, key: bytes) -> int:
        """Note that the tool asks this, once in a walk; return how often it has."""
        asked = question_id, key
        emissions = self._emissions.get(asked, 0)
        if question_id not in walk.emitted:
            walk.emitted.add(question_id)
            emissions = self._emissions[asked] = emissions + 1
        return emissions

    def find(self, walk: Walk, question_id: str, key: bytes) -> Chain | None:
        """Return the first recorded attempt of this very question that this run has not had, and that counts for who asks."""
        for chain in self._record.asking(question_id, key):
            if chain.place not in self._used and chain.counts_for(walk.asking.on_failure):
                return chain
        return None

    def comes_to(self, walk: Walk, chain: Chain) -> None:
        """Note that a walk has come to an attempt, recorded before or now."""
        self._used.add(chain.place)
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
        if not self._record.revisions:
            return False
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
        case InquiryAnswered():
            by = response.answered_by.by if response.answered_by else "user"
            answered = Answered(question.check(response.answer), reason=response.reason, automatic=by != "user")
            return Give(question.id, answered, response.id, by)
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


_RETRY: Final = r"\s+You may retry(?: with (?:different|other) (?:input|arguments|changes))?\.\s*\Z"
"""A tool's own last sentence, if it says no more than ours, which comes after it."""


def for_model(call: CallRecord, outcome: Success | ToolError, run: Replay) -> tuple[str, bool]:
    """Return the content of the response and whether it is an error, with the reasons that people and models gave.

    If a person edited the arguments, those that ran come first: the model knows its own only.

    What counts is the order in which this run of the tool asked: what was recorded last may be a secret that an earlier run had to ask
    again, or what one of several forms at once came to while another waited.
    """
    match outcome:
        case Success(content):
            body, told = content, None
        case ToolError(message):
            body, told = _explained(call, message, run.latest.last if run.latest else None)
    is_error = isinstance(outcome, ToolError)
    content = with_reasons(body, run, told)
    if not json_equal(call.arguments, call.request.arguments):
        head = messages.edited_arguments_failed(call.arguments) if is_error else messages.arguments_edited(call.arguments)
        content = f"{head}\n{content}"
    return content, is_error


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
        case "policy" | "agent":
            return f"{messages.rejected_by_policy(tool, who.name or who.user or who.by, text, response.reason)}\n\n{message}", attempt
        case _:
            return message, None


def _typed_reasons(chains: Sequence[Chain], told: Attempt | None) -> list[str]:
    """Return what people typed with a "no" in this call, in order, without what the message tells already."""
    given = [(link, link.response) for chain in chains for link in chain.links if link is not told]
    typed = [
        (link, said) for link, said in given if isinstance(said, InquiryAnswered) and said.answered_by and said.answered_by.by == "user"
    ]
    return [said.reason for link, said in typed if said.reason and link.is_rejection]
