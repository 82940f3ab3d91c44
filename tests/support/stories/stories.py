"""The stories: what is asked, what everybody does, and the one outcome that each has, whatever the door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from support.cli import asks
from support.stories.outcome import Outcome, answered, approval, asked, closed, outcome
from support.stories.scene import Pair, Scene

ENV: dict[str, Any] = {"id": "env", "text": "Which environment?", "answer_type": {"type": "select", "options": ["dev", "prod"]}}
NOTE: dict[str, Any] = {"id": "note", "text": "A note?", "answer_type": {"type": "text"}}
CONFIRM = asks()


class Story(Struct, frozen=True, kw_only=True):
    """A scene, what is played in it, and what has to become of it."""

    name: str
    scene: Scene
    play: Callable[[Pair], None]
    outcome: Outcome


def ask_one(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def half_a_form(pair: Pair) -> None:
    """What was put to a person stays put to a person, whoever goes on with the turn while they are away."""
    pair.asker.begin()
    pair.person.answer("env", "dev")
    pair.person.leave()
    pair.asker.go_on()
    pair.asker.go_on()
    pair.person.return_()
    pair.person.answer("note", "Slowly.")
    pair.asker.go_on()


def reply(pair: Pair) -> None:
    pair.asker.begin()
    pair.person.answer("env", "dev")
    pair.asker.go_on()
    pair.person.reply("note", "Which one is cheaper?")
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


STORIES = (
    Story(
        name="ask one",
        scene=Scene(ask=[CONFIRM]),
        play=ask_one,
        outcome=outcome(asked("confirm"), answered("confirm", True), words='{"confirm": true}'),
    ),
    Story(
        name="a form, half answered",
        scene=Scene(ask=[ENV, NOTE]),
        play=half_a_form,
        outcome=outcome(
            asked("env"), answered("env", "dev"), asked("note"), answered("note", "Slowly."), words='{"env": "dev", "note": "Slowly."}'
        ),
    ),
    Story(
        name="reply",
        scene=Scene(ask=[ENV, NOTE]),
        play=reply,
        outcome=outcome(
            asked("env"),
            answered("env", "dev"),
            asked("note"),
            closed("note", "reply"),
            words='{"cancelled": true, "answered": {"env": "dev"}, "reply": "Which one is cheaper?"}',
        ),
    ),
    Story(
        name="permission: yes",
        scene=Scene(say="Deployed.", run="ask"),
        play=allowed,
        outcome=outcome(approval("run", "waiting"), approval("run", "approved"), words="Deployed."),
    ),
    Story(
        name="permission: no",
        scene=Scene(say="Deployed.", run="ask"),
        play=not_allowed,
        outcome=outcome(
            approval("run", "waiting"),
            approval("run", "skipped", reason="Not on a Friday."),
            words='deploy was skipped by the user. Reason: "Not on a Friday."',
        ),
    ),
    Story(
        name="permission: edit",
        scene=Scene(say="Deployed.", run="ask"),
        play=edited,
        outcome=outcome(
            approval("run", "waiting"), approval("run", "edited", edited={"say": "Deployed to dev."}), words="Deployed to dev."
        ),
    ),
    Story(
        name="cancelled",
        scene=Scene(ask=[CONFIRM]),
        play=cancelled,
        outcome=outcome(asked("confirm"), closed("confirm", "user"), words="Tool input cancelled by user.", end="ended_by_user"),
    ),
)
