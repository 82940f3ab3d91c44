"""The rules about who decides. Each rule is tested through every interface and checked against
the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

import midturn as mt
from support.decisions.interfaces import ANA, Interface
from support.decisions.scene import PRODUCTION, SHARED, STAGING, THEIRS
from support.hooks import until

Play: TypeAlias = Callable[[Interface], None]


class Rule(Struct, frozen=True):
    """A rule and the function that tests it."""

    name: str
    says: str
    play: Play


def edit(at: Interface) -> None:
    """Ana may approve the call, but her edit of it needs the approval of two other people."""
    at.begin(STAGING)
    at.look()
    at.edit(PRODUCTION)
    at.call.go_on()
    assert at.call.ran == []
    until(lambda: _eligible(at.call.question()), lambda people: people == {"bo", "carl"})
    at.call.answer("bo", approve=True)
    assert at.call.ran == []
    at.call.answer("carl", approve=True)
    until(lambda: at.call.ran, lambda ran: ran == [PRODUCTION])


def _eligible(question: mt.OpenQuestion) -> frozenset[str]:
    """Return the people who may decide, or an empty set if anyone may."""
    return frozenset(() if question.whose is None else question.whose.eligible or ())


def stale_yes(at: Interface) -> None:
    """Bo edits the call after Ana read it. Her approval does not count, because she did not see
    the edited content.
    """
    at.begin(SHARED)
    at.look()
    at.call.answer("bo", arguments={"say": f"{SHARED} again"})
    told = at.yes()
    assert told, "she is told"
    assert ANA not in at.call.votes
    assert at.call.ran == []
    assert at.call.is_open()


def ineligible_voter(at: Interface) -> None:
    """Only Bo may decide. Ana's yes is refused."""
    at.begin(THEIRS)
    at.look()
    assert at.yes()
    assert at.call.is_open()
    assert at.call.deciders == []
    assert at.call.ran == []


def ineligible_end(at: Interface) -> None:
    """Only Bo may decide. Ana cannot end the turn."""
    at.begin(THEIRS)
    at.look()
    assert at.end()
    assert at.call.is_open()
    assert not at.call.has_ended


def forged_note(at: Interface) -> None:
    """A question cannot be reassigned to a person who may not decide it."""
    at.begin(SHARED)
    at.look()
    assert at.reassign("mallory")
    question = at.call.question()
    assert question.whose is not None
    assert "mallory" not in {*question.whose.ask, *(question.whose.eligible or ())}


def paste(at: Interface) -> None:
    """Text that is pasted at the prompt does not submit a decision."""
    at.begin(STAGING)
    at.look()
    at.paste("yes, all of them\ryes\r")
    assert at.call.ran == []
    assert at.call.is_open()
    assert at.call.deciders == []


def duplicate_identity(at: Interface) -> None:
    """Ana approves again with another login. That counts as one vote."""
    at.begin(SHARED)
    at.look()
    assert at.yes() == ""
    refused = ""
    try:
        at.call.answer("a.smith", approve=True)
    except Exception as error:  # noqa: BLE001  each interface raises its own error
        refused = str(error)
    assert "has said yes already" in refused, refused
    assert at.call.votes == [ANA]
    assert at.call.ran == []


RULES = (
    Rule("edit", "An edit is checked as if the model had made the edited call.", edit),
    Rule(
        "stale approval",
        "An approval counts only for the content that the approver saw.",
        stale_yes,
    ),
    Rule("ineligible voter", "A person who may not decide cannot answer.", ineligible_voter),
    Rule("ineligible end", "A person who may not decide cannot end the question.", ineligible_end),
    Rule(
        "reassignment",
        "A question cannot be reassigned to a person who may not decide it.",
        forged_note,
    ),
    Rule("paste", "Pasted text never submits a decision.", paste),
    Rule("duplicate identity", "One person has one vote.", duplicate_identity),
)
