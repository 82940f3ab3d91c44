"""The stories: the questions, the actions of the participants, and the one expected outcome
for every interface.
"""

from __future__ import annotations

from typing import Any

from support.cli import asks
from support.stories.absence_stories import ABSENCES
from support.stories.outcome import (
    Outcome,
    answered,
    approval,
    asked,
    closed,
    failed,
    outcome,
    secretly,
)
from support.stories.people import another
from support.stories.scene import ENV, Pair, Scene
from support.stories.story import Story

NOTE: dict[str, Any] = {"id": "note", "text": "A note?", "answer_type": {"type": "text"}}
CONFIRM = asks()
YES = {"question_id": "confirm", "equals": True}
WHY: dict[str, Any] = {
    "id": "why",
    "text": "Why not?",
    "answer_type": {"type": "text"},
    "when": {**YES, "equals": False},
}
TOKEN: dict[str, Any] = {"id": "token", "text": "The token?", "answer_type": {"type": "secret"}}
READY: dict[str, Any] = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}
REGION: dict[str, Any] = {
    "id": "region",
    "text": "Which region?",
    "answer_type": {"type": "select", "options": ["eu-1", "us-2"]},
}


def ask_one(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def half_a_form(pair: Pair) -> None:
    """A question that was shown to a person stays open for that person, even if another process
    continues the turn.
    """
    pair.asker.begin()
    pair.person.answer("env", "dev")
    pair.person.leave()
    pair.asker.go_on()
    pair.asker.go_on()
    pair.person.return_()
    pair.person.answer("note", "Slowly.")
    pair.asker.go_on()


def not_allowed_any_more(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.end_turn("run")
    pair.asker.go_on()


def allowed_late(pair: Pair) -> None:
    """The answer arrives after another person ended the turn."""
    pair.asker.begin()
    _ended_by_another(pair, "run")


def allowed_twice(pair: Pair) -> None:
    """The first answer wins. A yes after a no is refused with the name of the first responder."""
    pair.asker.begin()
    other = another(pair, "ben")
    question = other.find("run")
    other.refuse("run", "Not on a Friday.")
    told = pair.person.refusal(question.id)
    assert _names_first_responder(told, question.id), told
    pair.asker.go_on()


def another_call(pair: Pair) -> None:
    """An approval never applies to a call other than the one that was shown."""
    pair.asker.begin()
    _asks_something_else(pair, "run")
    pair.person.allow("run")
    pair.asker.go_on()


def reply(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.answer("env", "dev")
    pair.asker.go_on()
    pair.person.reply("confirm", "Which one is cheaper?")
    pair.asker.go_on()


def allowed(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.allow("run")
    pair.asker.go_on()


def not_allowed(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.refuse("run", "Not on a Friday.")
    pair.asker.go_on()


def edited(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.edit("run", {"say": "Deployed to dev."})
    pair.asker.go_on()


def cancelled(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.end_turn("confirm")
    pair.asker.go_on()


def back(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.answer("confirm", True)
    pair.asker.go_on()
    pair.person.back("env")
    pair.asker.go_on()
    pair.person.answer("confirm", False)
    pair.asker.go_on()
    pair.person.answer("why", "Too late.")
    pair.asker.go_on()


def review(pair: Pair) -> None:
    """The person reviews all answers and changes the last one."""
    pair.asker.begin()
    pair.person.answer("env", "dev")
    pair.asker.go_on()
    pair.person.answer("confirm", True)
    pair.asker.go_on()
    pair.person.back("review")
    pair.asker.go_on()
    pair.person.answer("confirm", False)
    pair.asker.go_on()
    pair.person.allow("review")
    pair.asker.go_on()


def delivered(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.allow("deliver")
    pair.asker.go_on()


def withheld(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.refuse("deliver", "")
    pair.asker.go_on()


def changed_result(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.edit("deliver", "Deployed somewhere.")
    pair.asker.go_on()


def secret(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.answer("token", "hunter22")
    pair.asker.go_on()


def asked_twice(pair: Pair) -> None:
    """Asking an open question again creates no second question."""
    pair.asker.begin()
    pair.asker.again()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def answered_late(pair: Pair) -> None:
    """The answer arrives after another person ended the turn."""
    pair.asker.begin()
    _ended_by_another(pair, "confirm")


def _names_first_responder(told: str, id: str) -> bool:
    """Return whether a refusal names ben as the first responder. The page uses its own
    sentence.
    """
    on_page = "ben" in told and "already answered this. Their answer stands." in told
    return (
        on_page
        or f"The question {id} was answered before, by ben (api). That answer stands." in told
    )


def answered_twice(pair: Pair) -> None:
    """The first answer wins, and the second is refused with the name of the first responder."""
    pair.asker.begin()
    other = another(pair, "ben")
    question = other.find("confirm")
    other.answer("confirm", False)
    told = pair.person.refusal(question.id)
    assert _names_first_responder(told, question.id), told
    pair.asker.go_on()


def superseded(pair: Pair) -> None:
    """An answer never applies to a question other than the one that was shown."""
    pair.asker.begin()
    _asks_something_else(pair, "confirm")
    pair.person.answer("confirm", True)
    pair.asker.go_on()


_TOLD_OF_EDIT = (
    'The user edited the arguments of this call. It ran with: {"say": "Deployed to dev."}'
)
_NOT_ASKED = (
    "it is not asked any more.",
    "The agent has asked something else since.",
    "has gone on with something else.",
    "it was decided at the agent's own prompt.",
)
"""Possible messages when a person answers a question that was closed: it is no longer asked, its
call was withdrawn, or the agent's own dialog decided.
"""


def _ended_by_another(pair: Pair, asked: str) -> None:
    other = another(pair, "ben")
    question = other.find(asked)
    other.end_turn(asked)
    told = pair.person.refusal(question.id)
    assert f"The question {question.id} is closed: its turn was ended by ben (api)." in told, told
    pair.asker.go_on()


def _asks_something_else(pair: Pair, asked: str) -> None:
    first = another(pair).find(asked)
    pair.asker.change()
    pair.asker.again()
    told = pair.person.refusal(first.id)
    assert f"The question {first.id} is closed: " in told, told
    assert any(why in told for why in _NOT_ASKED), told


def two_people(pair: Pair) -> None:
    """Two calls ask at the same time, and two people answer them."""
    pair.asker.begin()
    another(pair, "ben").answer("region", "eu-1")
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def rejected(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.answer("confirm", False, "Not on a Friday.")
    pair.asker.go_on()


STORIES = (
    Story(
        name="one question",
        scene=Scene(ask=[CONFIRM]),
        play=ask_one,
        outcome=outcome(asked("confirm"), answered("confirm", True), words='{"confirm": true}'),
    ),
    Story(
        name="partly answered form",
        scene=Scene(ask=[ENV, NOTE]),
        play=half_a_form,
        outcome=outcome(
            asked("env"),
            answered("env", "dev"),
            asked("note"),
            answered("note", "Slowly."),
            words='{"env": "dev", "note": "Slowly."}',
        ),
    ),
    Story(
        name="reply",
        scene=Scene(ask=[ENV, CONFIRM]),
        play=reply,
        outcome=outcome(
            asked("env"),
            answered("env", "dev"),
            asked("confirm"),
            closed("confirm", "reply"),
            words=(
                '{"cancelled": true, "answered": {"env": "dev"}, "reply": "Which one is cheaper?"}'
            ),
        ),
    ),
    Story(
        name="permission: yes",
        scene=Scene(say="Deployed.", run="ask"),
        play=allowed,
        outcome=outcome(approval("run", "approved"), words="Deployed."),
    ),
    Story(
        name="permission: no",
        scene=Scene(say="Deployed.", run="ask"),
        play=not_allowed,
        outcome=outcome(
            approval("run", "skipped", reason="Not on a Friday."),
            words=failed('deploy was skipped by the user. Reason: "Not on a Friday."'),
        ),
    ),
    Story(
        name="permission: edit",
        scene=Scene(say="Deployed.", run="ask"),
        play=edited,
        outcome=outcome(
            approval("run", "edited", edited={"say": "Deployed to dev."}),
            words=f"{_TOLD_OF_EDIT}\nDeployed to dev.",
        ),
    ),
    Story(
        name="permission: turn ended by the person",
        scene=Scene(say="Deployed.", run="ask"),
        play=not_allowed_any_more,
        outcome=outcome(words=failed("Tool input cancelled by user."), end="ended_by_user"),
    ),
    Story(
        name="permission: answered after the turn ended",
        scene=Scene(say="Deployed.", run="ask"),
        play=allowed_late,
        outcome=outcome(words=failed("Tool input cancelled by user."), end="ended_by_user"),
    ),
    Story(
        name="permission: answered twice",
        scene=Scene(say="Deployed.", run="ask"),
        play=allowed_twice,
        outcome=outcome(
            approval("run", "skipped", reason="Not on a Friday."),
            words=failed('deploy was skipped by the user. Reason: "Not on a Friday."'),
        ),
    ),
    Story(
        name="permission: the agent makes another call",
        scene=Scene(say="Deployed.", run="ask", changed=[CONFIRM]),
        play=another_call,
        outcome=outcome(
            closed("run", "superseded"), approval("run", "approved"), words="Deployed."
        ),
    ),
    Story(
        name="turn ended by the person",
        scene=Scene(ask=[CONFIRM]),
        play=cancelled,
        outcome=outcome(
            asked("confirm"),
            closed("confirm", "user"),
            words=failed("Tool input cancelled by user."),
            end="ended_by_user",
        ),
    ),
    Story(
        name="Back",
        scene=Scene(ask=[CONFIRM, {**ENV, "when": YES}, WHY]),
        play=back,
        outcome=outcome(
            asked("confirm"),
            answered("confirm", True),
            asked("env"),
            closed("env", "back"),
            asked("confirm"),
            answered("confirm", False),
            asked("why"),
            answered("why", "Too late."),
            words='{"confirm": false, "env": null, "why": "Too late."}',
        ),
    ),
    Story(
        name="review",
        scene=Scene(ask=[ENV, CONFIRM], by_model=True),
        play=review,
        outcome=outcome(
            asked("env"),
            answered("env", "dev"),
            asked("confirm"),
            answered("confirm", True),
            asked("confirm"),
            answered("confirm", False),
            approval("review", "approved"),
            words='{"env": "dev", "confirm": false}',
        ),
    ),
    Story(
        name="deliver: yes",
        scene=Scene(say="Deployed to x.", result="ask"),
        play=delivered,
        outcome=outcome(approval("deliver", "approved"), words="Deployed to x."),
    ),
    Story(
        name="deliver: no",
        scene=Scene(say="Deployed to x.", result="ask"),
        play=withheld,
        outcome=outcome(
            approval("deliver", "skipped"),
            words=failed("The result of deploy was withheld by the user."),
        ),
    ),
    Story(
        name="deliver: edit",
        scene=Scene(say="Deployed to x.", result="ask"),
        play=changed_result,
        outcome=outcome(
            approval("deliver", "edited", edited="Deployed somewhere."), words="Deployed somewhere."
        ),
    ),
    Story(
        name="secret",
        scene=Scene(ask=[TOKEN]),
        play=secret,
        outcome=outcome(asked("token"), secretly("token"), words='{"token": "[redacted]"}'),
    ),
    Story(
        name="question asked twice",
        scene=Scene(ask=[CONFIRM]),
        play=asked_twice,
        outcome=outcome(asked("confirm"), answered("confirm", True), words='{"confirm": true}'),
    ),
    Story(
        name="answered after the turn ended",
        scene=Scene(ask=[CONFIRM]),
        play=answered_late,
        outcome=outcome(
            asked("confirm"),
            closed("confirm", "user"),
            words=failed("Tool input cancelled by user."),
            end="ended_by_user",
        ),
    ),
    Story(
        name="answered twice",
        scene=Scene(ask=[CONFIRM]),
        play=answered_twice,
        outcome=outcome(asked("confirm"), answered("confirm", False), words='{"confirm": false}'),
    ),
    Story(
        name="question text changed",
        scene=Scene(ask=[CONFIRM], changed=[asks(text="Deploy to production?")]),
        play=superseded,
        outcome=outcome(
            asked("confirm"),
            closed("confirm", "superseded"),
            asked("confirm"),
            answered("confirm", True),
            words='{"confirm": true}',
        ),
    ),
    Story(
        name="two calls, two people",
        scene=Scene(ask=[CONFIRM], second=[REGION]),
        play=two_people,
        outcome=Outcome(
            (
                asked("confirm"),
                answered("confirm", True),
                asked("region"),
                answered("region", "eu-1"),
            ),
            ('{"confirm": true}', '{"region": "eu-1"}'),
        ),
    ),
    Story(
        name="answered no, with a reason",
        scene=Scene(ask=[CONFIRM]),
        play=rejected,
        outcome=outcome(
            asked("confirm"),
            answered("confirm", False, "Not on a Friday."),
            words='{"confirm": false}\nThe user added: "Not on a Friday."',
        ),
    ),
    Story(
        name="typed result of the turn",
        scene=Scene(ask=[CONFIRM], schema=READY),
        play=ask_one,
        outcome=outcome(
            asked("confirm"),
            answered("confirm", True),
            words='{"confirm": true}',
            result='{"ready": true}',
        ),
    ),
    *ABSENCES,
)
