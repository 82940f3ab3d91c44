"""One ask of a tool on its way through its form, question by question or by a map of answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from midturn.errors import AnswerError, Problem
from midturn.question.people import People
from midturn.question.question import Question
from midturn.question.reply import Answered, Replied, Reply, Submitted, WentBack
from midturn.question.steps import Ask, Cancelled, Completed, Step
from midturn.question.walker import FormWalker
from midturn.turn.decision import Give, GoBack, Leave, Send
from midturn.turn.effects import Answer
from midturn.turn.inputs import FormWanted
from midturn.values.json_value import Json, json_equal, shown
from midturn.values.secret import SecretValue

PLACEHOLDER = SecretValue("")  # stands for a secret that was answered before the process died; never reaches a tool


class Walk:
    """The walker of one ask, and what belongs to its answers: which inquiry each came from, who gave it, and why.

    `number` counts the walks of a run of its call; `screen` names the screen that a form of several questions keeps. `waits_for` is the
    id of the decision that the walk waits for, `places` say which attempts of its call it has come by. `goes_back` means that Back is
    what happened last. `is_a_persons` means that a question of it was put to a person. `deadline` is that of all its questions,
    from its first request; `people` are those of each, by its id.
    """

    def __init__(self, number: int, ask: int | None, asking: FormWanted, drafts: Mapping[str, Json], screen: str | None) -> None:
        self.number = number
        self.screen = screen
        self.ask = ask
        self.asking = asking
        self.walker = FormWalker(asking.form, drafts=drafts)
        self.waits_for: str | None = None
        self.emitted: set[str] = set()
        self.inquiries: dict[str, str] = {}
        self.placeholders: set[str] = set()
        self.goes_back = False
        self.is_a_persons = False
        self.deadline = ""
        self.people: dict[str, People] = {}
        self.places: list[int] = []
        self.form_is_recorded = len(asking.form.questions) == 1 and not asking.form.review
        self._left: Cancelled | None = None
        self._given: dict[str, Answer[Json | SecretValue]] = {}

    @property
    def tells_replies(self) -> bool:
        """Whether the tool hears what a person says instead of answering; otherwise that ends its call."""
        return self.asking.on_failure == "report_all"

    def step(self) -> Step:
        """Say what comes now."""
        return self._left or self.walker.step()

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
        return {question_id: self._attributed(question_id, value) for question_id, value in answers.items()}

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
        """Feed an answer; after the walk has ended, it is a secret that had to be asked again."""
        question_id, answered = give.question_id, give.answered
        self.is_a_persons = self.is_a_persons or give.by == "user"
        self._given[question_id] = Answer(answered.value, answered.reason, give.by)
        self.inquiries[question_id] = give.inquiry
        if answered.value is PLACEHOLDER:
            self.placeholders.add(question_id)
        else:
            self.placeholders.discard(question_id)
        match self.walker.step():
            case Completed():
                self.walker.replace(question_id, answered.value)
            case _:
                self.walker.accept(answered.value, automatic=answered.automatic)

    def _leave(self, replied: Replied) -> None:
        """Cancel the form; a secret that is asked again after its walk has ended is part of the walk here."""
        match self.walker.step():
            case Completed(answers):
                plain: dict[str, Json] = {key: v for key, v in answers.items() if v is not None and not isinstance(v, SecretValue)}
                self._left = Cancelled(plain, replied.text)
            case _:
                self.walker.feed(replied)

    def _attributed(self, question_id: str, value: Json | SecretValue) -> Answer[Json | SecretValue]:
        given = self._given.get(question_id)
        if given is None or (value is None and given.value is not None):
            return Answer(None, by="skipped")
        return Answer(value, given.reason, given.by)


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
