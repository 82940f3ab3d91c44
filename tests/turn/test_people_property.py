"""Random votes, passings and changes of mind: whoever takes them, and wherever the turn is cut, they come to the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from hypothesis import given, settings as hypothesis_settings, strategies as st

from midturn.errors import AlreadyAnswered, NotAllowed, NotOpen
from midturn.question.form import Form
from midturn.question.people import People
from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.record.asker import Address
from midturn.record.events import AnsweredBy, Event, InquiryAnswered, InquiryRequest, Reassigned, Vote
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.turn.effects import Record, RunTool
from midturn.turn.inputs import AnsweredElsewhere, FormWanted, Noted, ToolReturned
from midturn.turn.people import note_batch
from midturn.turn.turn import Turn
from midturn.turn.visit import Visit
from support.turns import DEPLOY, Played, counting_ids, settings

MEMBERS = ("ana", "bo", "carl")
Act: TypeAlias = tuple[Literal["yes", "no", "back", "pass"], str, str]
acts = st.lists(
    st.tuples(
        st.sampled_from(["yes", "yes", "yes", "no", "back", "pass"]),
        st.sampled_from([*MEMBERS, "dora", ""]),
        st.sampled_from(["web", "inbox", "terminal", "api"]),
    ),
    max_size=8,
)
DETACHED = ToolPolicy(source=DEPLOY, run="unattended", detached=DetachedPolicies(tool="defer"))


def expected(people: People, done: Sequence[Act]) -> bool | None:
    """Say what the answer is, in other words than the machine has."""
    said: dict[str, str] = {}
    for what, who, via in done:
        if (not who and (people.only or people.approvals > 1)) or (people.only and who not in MEMBERS):
            continue
        mine = [name for name, how in said.items() if name == who or {how, via} <= {"inbox", "terminal"}]
        if what == "no":
            return False
        if what == "back" and mine:
            del said[mine[0]]
        if what == "yes" and not mine:
            said[who] = via
        if len(said) >= people.approvals:
            return True
    return None


def begun(people: People) -> list[Event]:
    """Return the events of a turn that waits for certain people."""
    played = Played(settings(DETACHED, attached=False))
    (call,) = played.model_calls("deploy")
    question = Question.boolean("go", "Deploy?", people=people)
    played.step(ToolReturned(call, FormWanted(Form([question]), DEPLOY)))
    return played.events


def from_outside(events: list[Event], act: Act) -> None:
    """Have a process that does not run the turn take an act, as every store does."""
    what, who, via = act
    request = next(event for event in events if isinstance(event, InquiryRequest))
    by, ids = AnsweredBy("user", via=via, user=who or None), counting_ids(len(events) + 1)
    try:
        if what in ("yes", "no"):
            events += Visit(events, request.event_id, ids).take(Answered(what == "yes"), by)
        else:
            note = Vote(id="", withdrawn=True, answered_by=by) if what == "back" else Reassigned(id="", to=("bo",), answered_by=by)
            events += note_batch(events, Address("1", request.event_id), note, ids)
    except (NotAllowed, NotOpen, AlreadyAnswered):
        pass


def inside(events: list[Event], act: Act) -> None:
    """Have the process that runs the turn take an act that was handed over; a note was let through at the door."""
    what, who, via = act
    request = next(event for event in events if isinstance(event, InquiryRequest))
    by = AnsweredBy("user", via=via, user=who or None)
    if what in ("back", "pass"):
        before = len(events)
        from_outside(events, act)
        (note, *_) = events[before:] or [None]
        del events[before:]
        if not isinstance(note, Vote | Reassigned):
            return
        happened = Noted(request.event_id, note)
    else:
        happened = AnsweredElsewhere(request.event_id, Answered(what == "yes"), by)
    turn, effects = Turn.resume(events, settings(DETACHED, attached=False), counting_ids(len(events) + 1))
    call = events[next(place for place, event in enumerate(events) if event.type == "tool_call_request")].event_id
    question = Question.boolean("go", "Deploy?", people=request.people)
    effects += turn.step(ToolReturned(call, FormWanted(Form([question]), DEPLOY))) + turn.step(happened)
    events += [effect.event for effect in effects if isinstance(effect, Record)]


def outcome(events: Sequence[Event]) -> bool | None:
    answers = [event for event in events if isinstance(event, InquiryAnswered)]
    assert len(answers) <= 1
    return None if not answers else answers[0].answer is True


@hypothesis_settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(done=acts, only=st.booleans(), approvals=st.integers(1, 3), lives=st.lists(st.booleans(), min_size=8, max_size=8))
def test_votes_come_to_the_same_whoever_takes_them_and_wherever_the_turn_is_cut(
    done: list[Act],
    only: bool,  # noqa: FBT001  drawn at random
    approvals: int,
    lives: list[bool],
) -> None:
    people = People(ask=MEMBERS, only=only, approvals=approvals)
    wanted = expected(people, done)
    events = begun(people)
    for act, lives_on in zip(done, lives, strict=False):
        if outcome(events) is None:
            (inside if lives_on else from_outside)(events, act)
    assert outcome(events) is wanted
    for cut in range(len(events) + 1):  # from each prefix, the same decision stands or none does
        turn = Turn.load(events[:cut], settings(DETACHED, attached=False), counting_ids(cut + 1))
        known = [attempt.response for attempt in turn.record.inquiries.values()]
        assert [response for response in known if response is not None] in ([], [e for e in events if isinstance(e, InquiryAnswered)])
    if wanted is not None:
        turn, _ = Turn.resume(events, settings(DETACHED, attached=False), counting_ids(len(events) + 1))
        call = next(iter(turn.record.calls))
        (run,) = turn.step(ToolReturned(call, FormWanted(Form([Question.boolean("go", "Deploy?", people=people)]), DEPLOY)))
        assert isinstance(run, RunTool)
        assert run.answers == {"go": wanted}
