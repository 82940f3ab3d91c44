"""The rules of who decides what: each is played through every interface, and the log says whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from support.decisions.interfaces import ANA, Interface
from support.decisions.scene import PRODUCTION, SHARED, STAGING, THEIRS

Play: TypeAlias = Callable[[Interface], None]


class Rule(Struct, frozen=True):
    """A rule, in one sentence, and how it is tried."""

    name: str
    says: str
    play: Play


def edit(at: Interface) -> None:
    """Ana may allow the call, and not the call that she makes of it: two others decide that."""
    at.begin(STAGING)
    at.look()
    at.edit(PRODUCTION)
    at.call.go_on()
    assert at.call.ran == []
    question = at.call.question()
    assert question.whose is not None
    assert question.whose.eligible == {"bo", "carl"}
    at.call.answer("bo", approve=True)
    assert at.call.ran == []
    at.call.answer("carl", approve=True)
    assert at.call.ran == [PRODUCTION]


def stale_yes(at: Interface) -> None:
    """Bo has edited the call since ana looked at it: her yes does not count for what she has not seen."""
    at.begin(SHARED)
    at.look()
    at.call.answer("bo", arguments={"say": f"{SHARED} again"})
    told = at.yes()
    assert told, "she is told"
    assert ANA not in at.call.votes
    assert at.call.ran == []
    assert at.call.is_open()


def ineligible_voter(at: Interface) -> None:
    """Bo alone decides: the yes of ana is refused."""
    at.begin(THEIRS)
    at.look()
    assert at.yes()
    assert at.call.is_open()
    assert at.call.deciders == []
    assert at.call.ran == []


def ineligible_end(at: Interface) -> None:
    """Bo alone decides: ana does not end the turn in his place."""
    at.begin(THEIRS)
    at.look()
    assert at.end()
    assert at.call.is_open()
    assert not at.call.has_ended


def forged_note(at: Interface) -> None:
    """Nobody puts a question to a person who may not decide it."""
    at.begin(SHARED)
    at.look()
    assert at.reassign("mallory")
    question = at.call.question()
    assert question.whose is not None
    assert "mallory" not in {*question.whose.ask, *(question.whose.eligible or ())}


def paste(at: Interface) -> None:
    """A text that is pasted at the prompt decides nothing, and what is typed later does."""
    at.begin(STAGING)
    at.look()
    at.paste("yes, all of them\ryes\r")
    assert at.call.ran == []
    assert at.call.is_open()
    assert at.call.deciders == []


def duplicate_identity(at: Interface) -> None:
    """Ana says yes, and once more under another login of hers: that is one vote."""
    at.begin(SHARED)
    at.look()
    assert at.yes() == ""
    refused = ""
    try:
        at.call.answer("a.smith", approve=True)
    except Exception as error:  # noqa: BLE001  whatever refuses it
        refused = str(error)
    assert "has said yes already" in refused, refused
    assert at.call.votes == [ANA]
    assert at.call.ran == []


RULES = (
    Rule("edit", "An edit is checked as if the model had made the edited call.", edit),
    Rule("stale yes", "A yes counts for what its author saw.", stale_yes),
    Rule("ineligible voter", "Who may not decide does not.", ineligible_voter),
    Rule("ineligible end", "Who may not decide ends nothing, either.", ineligible_end),
    Rule("forged note", "Nobody makes anybody else a voter.", forged_note),
    Rule("paste", "Pasted text decides nothing.", paste),
    Rule("duplicate identity", "One person is one voter.", duplicate_identity),
)
