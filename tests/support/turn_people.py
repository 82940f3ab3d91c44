"""Behaviour of people and models in a scripted turn: a pure function of the call, the question
and how often it was asked.
"""

from __future__ import annotations

import zlib
from typing import Literal, TypeAlias

from msgspec import Struct

from support.turn_script import VALUES, Ask, Called, Script, Value, asks_of

Manner: TypeAlias = Literal["plain", "misfit", "three misfits", "raises", "away"]
MODEL = "scripted/reviewer"
LOST = "device lost"
OVERLOADED = "overloaded"
ARGUMENTS = "as the model wrote them"
EDITED = "as somebody edited them"
EDITED_RESULT = "what somebody wrote instead"


class Says(Struct, frozen=True):
    """An answer with an optional reason."""

    value: Value
    reason: str | None = None
    remember: bool = False


class Does(Struct, frozen=True):
    """A reaction other than an answer."""

    what: Literal["back", "reply", "end", "edit", "fails", "interrupted", "late"]


Reaction: TypeAlias = Says | Does


def _mood(called: Called, about: str, time: int) -> int:
    forced = called.forced.get(about)
    if forced is not None:
        return forced
    return called.moods[(zlib.crc32(about.encode()) + 5 * time) % len(called.moods)] % 16


def person(  # noqa: PLR0911  one line per mood
    called: Called, question: Ask, time: int, *, can_go_back: bool, link: bool = False
) -> Reaction:
    """Return the reaction of a person to a question that comes up for the `time`th time."""
    first, second = VALUES[question.kind]
    if question.remembers:
        return Says(first, remember=True) if time == 0 else Says(second)
    if question.kind == "secret" and time:  # it may be asked again at any time
        return Says(first)
    match _mood(called, f"{'link' if link else 'person'} {question.id}", time):
        case 3 if question.timed:
            return Does("late")
        case 4 | 5 | 6:
            return Says(second)
        case 7:
            return Says(second, "I have my reasons.")
        case 8:
            return Says(first, "It looks fine.")
        case 9 | 10 | 11 if can_go_back and time < 3:
            return Does("back")
        case 12:
            return Does("reply")
        case 13 if called.may_end:
            return Does("end")
        case 14 | 15 if question.optional:
            return Says(None)
        case _:
            return Says(first)


def manner(script: Script, called: Called, about: str, time: int) -> Manner:
    """Return how a prompt behaves before the person reacts. `away` is possible only in an
    attached turn.
    """
    match _mood(called, f"manner {about}", time):
        case 10:
            return "misfit"
        case 11:
            return "three misfits"
        case 12:
            return "raises"
        case 13 if script.attached:
            return "away"
        case _:
            return "plain"


def manner_of(script: Script, called: Called, question: Ask, time: int) -> Manner:
    """Return how the prompt of a question behaves. A secret that waits in the store can only be
    answered at a prompt.
    """
    if question.remembers:
        return "plain"
    how = manner(script, called, question.id, 0 if question.kind == "secret" else time)
    waits = called.tool is not None and called.tool.detached["tool"] == "defer"
    return "plain" if how == "away" and question.kind == "secret" and waits else how


def manner_of_decision(script: Script, called: Called, kind: str) -> Manner:
    """Return how the prompt of an approval behaves. A remembered permission must not depend on
    the order of calls.
    """
    remembers = kind == "run" and called.tool is not None and called.tool.permits
    return "plain" if remembers else manner(script, called, kind, 0)


def model(called: Called, question: Ask, time: int) -> Reaction:
    """Return the reaction of a model that answers in place of a person."""
    first, second = VALUES[question.kind]
    match _mood(called, f"model {question.id}", time):
        case 6 | 7 | 8:
            return Says(second, "It drops a test.")
        case 9:
            return Says(second)
        case 10 | 11 | 12:
            return Does("fails")
        case 13 if called.may_end:
            return Does("interrupted")
        case _:
            return Says(first, "It is what was asked for.")


def permission(called: Called) -> Reaction:  # noqa: PLR0911  one line per mood
    """Return the decision of a person about a call."""
    permits = called.tool.permits if called.tool else ""
    if permits:
        return Says(permits == "y", remember=True)
    match _mood(called, "run", 0):
        case 3 if called.tool and called.tool.timed:
            return Does("late")
        case 8:
            return Says(False)
        case 9 | 10:
            return Says(False, "Not on a Friday.")
        case 11 | 12 | 13:
            return Does("edit")
        case 15 if called.may_end:
            return Does("end")
        case _:
            return Says(True)


def delivery(called: Called) -> Reaction:
    """Return the decision of a person about a result."""
    match _mood(called, "deliver", 0):
        case 8 | 9:
            return Says(False)
        case 10 | 11 | 12:
            return Does("edit")
        case 13 if called.may_end:
            return Does("end")
        case _:
            return Says(True)


def review(called: Called, backs: int) -> Reaction:
    """Return the reaction of a person to the review, after going back `backs` times in this call.

    After a crash, Back to a lost secret is asked and recorded once more. With secrets, only the
    first Back counts therefore.
    """
    most = 1 if any(question.kind == "secret" for question in asks_of(called.program)) else 3
    match _mood(called, "review", min(backs, most)):
        case 4 | 5 | 6 | 7 | 8 | 9 if backs < most:
            return Does("back")
        case 10:
            return Does("reply")
        case 11 if called.may_end:
            return Does("end")
        case _:
            return Says(True)
