"""Random forms and actions, and an oracle that computes the next step without keeping a
position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from hypothesis import strategies as st
from msgspec import UNSET, Struct, UnsetType

from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Submitted, WentBack
from midturn.question.walker import Ask, Cancelled, Completed, FormEnded, Review, Step

Action: TypeAlias = Answered | WentBack | Replied | EndedTurn | Submitted

POSSIBLE: dict[str, list[Any]] = {
    "boolean": [True, False],
    "select": ["red", "blue", {"other": "green"}],
    "multi_select": [[], ["red"], ["red", "blue"]],
    "text": ["", "some words"],
    "secret": [SecretValue("hunter2"), SecretValue("swordfish")],
}
IMPOSSIBLE: dict[str, list[Any]] = {
    "boolean": ["true", 1, None],
    "select": ["pink", ["red"]],
    "multi_select": ["red", ["red", "red"]],
    "text": [7, None],
    "secret": [7, ["hunter2"]],
}
KINDS = tuple(POSSIBLE)


class Draw(Struct, frozen=True):
    """Small numbers from which a question or an action is made. Hypothesis shrinks them well."""

    kind: int
    choice: int
    gate: int
    flag: bool


def _draws(kinds: st.SearchStrategy[int]) -> st.SearchStrategy[Draw]:
    return st.builds(Draw, kinds, st.integers(0, 5), st.integers(0, 30), st.booleans())


draws = _draws(st.integers(0, 11))
answering = _draws(
    st.sampled_from([2, 6, 7, 8, 9, 10, 11])
)  # mostly answers, sometimes Back, until the form is complete


@st.composite
def forms(draw: st.DrawFn, *, longest: int = 7) -> Form:
    """Return a form whose conditions can all be true and can all be false."""
    return form_of(draw(st.lists(draws, min_size=1, max_size=longest)), review=draw(st.booleans()))


def form_of(made_from: Sequence[Draw], *, review: bool) -> Form:
    """Return the form for these numbers."""
    questions: list[Question[Any]] = []
    for place, numbers in enumerate(made_from):
        questions.append(_question(place, numbers, questions))
    return Form(questions, review)


def _question(place: int, draw: Draw, before: Sequence[Question[Any]]) -> Question[Any]:
    name, kind = f"q{place}", KINDS[draw.kind % len(KINDS)]
    terms: dict[str, Any] = {"optional": draw.flag, "when": _when(draw, before)}
    match kind:
        case "boolean":
            return Question.boolean(name, "Yes?", **terms)
        case "select":
            return Question.select(name, "Which?", ["red", "blue"], allow_other=True, **terms)
        case "multi_select":
            return cast(
                "Question[Any]",
                Question.multi_select(name, "Which ones?", ["red", "blue"], **terms),
            )
        case "secret":
            return Question.secret(name, "Passphrase?", **terms)
        case _:
            return Question.text(name, "What?", **terms)


def _when(draw: Draw, before: Sequence[Question[Any]]) -> When | None:
    named = [question for question in before if kind_of(question) != "secret"]
    if not named or draw.gate % 3 == 0:
        return None
    question = named[draw.gate % len(named)]
    possible = [
        *POSSIBLE[kind_of(question)],
        *([None] if question.optional or question.when else []),
    ]
    return When(question.id, possible[draw.choice % len(possible)])


def kind_of(question: Question[Any]) -> str:
    """Return the tag of a question's answer type."""
    return str(type(question.answer_type).__struct_config__.tag)


def action(draw: Draw, step: Step) -> Action:
    """Return an action that is possible at this step: mostly an answer, sometimes an invalid
    one.
    """
    match draw.kind, step:
        case 0, _:
            return Replied("never mind" if draw.flag else None)
        case 1, _:
            return EndedTurn() if draw.gate == 0 else WentBack()
        case 2 | 3 | 4, _:
            return WentBack()
        case 5, Ask(question):
            return Answered(IMPOSSIBLE[kind_of(question)][draw.choice % 2])
        case _, Ask(question):
            possible = [*POSSIBLE[kind_of(question)], *([None] if question.optional else [])]
            return Answered(
                possible[draw.choice % len(possible)], automatic=draw.flag and draw.gate % 2 == 0
            )
        case _:
            return Submitted()


class Given(Struct, frozen=True):
    """A submitted answer, in the order of submission."""

    id: str
    value: Json | SecretValue
    automatic: bool


class Past(Struct, frozen=True):
    """The history of a walk, reduced: the valid answers, the number of Backs since the last
    answer, and the end.
    """

    given: tuple[Given, ...] = ()
    backs: int = 0
    end: Cancelled | FormEnded | None = None
    submitted: bool = False


def fold(form: Form, actions: Sequence[Action]) -> Past:
    """Reduce the actions of a walk. There is no cursor: Back only counts, and an answer discards
    the answers after it.
    """
    past = Past()
    for happened in actions:
        match happened:
            case Answered(value, automatic=automatic):
                kept = past.given[: past.given.index(_revised(past))] if past.backs else past.given
                asked = expected_step(form, past)
                assert isinstance(asked, Ask)
                past = Past((*kept, Given(asked.question.id, value, automatic)))
            case WentBack():
                past = Past(past.given, past.backs + 1)
            case Replied(reply):
                answered: dict[str, Json] = {
                    g.id: g.value
                    for g in past.given
                    if g.value is not None and not isinstance(g.value, SecretValue)
                }
                past = Past(past.given, end=Cancelled(answered, reply))
            case EndedTurn():
                past = Past(past.given, end=FormEnded())
            case Submitted():
                past = Past(past.given, submitted=True)
    return past


def expected_step(form: Form, past: Past) -> Step:
    """Return the step that must follow."""
    if past.end is not None:
        return past.end
    humans = [given for given in past.given if not given.automatic]
    if past.backs:
        given = _revised(past)
        prefill: Json | UnsetType = UNSET if isinstance(given.value, SecretValue) else given.value
        question = next(q for q in form.questions if q.id == given.id)
        return Ask(
            question, _number(question), len(form.questions), prefill, len(humans) > past.backs
        )
    answers, question = _settle(form, past)
    if question is not None:
        return Ask(question, _number(question), len(form.questions), UNSET, bool(humans))
    return Review(answers) if form.review and humans and not past.submitted else Completed(answers)


def _revised(past: Past) -> Given:
    return [given for given in past.given if not given.automatic][-past.backs]


def _settle(form: Form, past: Past) -> tuple[dict[str, Json | SecretValue], Question[Any] | None]:
    """Read the form from its beginning: return the answers, including skipped questions, and the
    first open question.
    """
    given = {g.id: g.value for g in past.given}
    answers: dict[str, Json | SecretValue] = {}
    for question in form.questions:
        if question.when is not None and answers[question.when.question_id] != question.when.equals:
            answers[question.id] = None
        elif question.id in given:
            answers[question.id] = given[question.id]
        else:
            return answers, question
    return answers, None


def _number(question: Question[Any]) -> int:
    return int(question.id.removeprefix("q")) + 1
