"""Edits of a call that waits for permission: what is decided on now, and which edit has not been checked yet.

Theory of operation
===================

An edit replaces the arguments of a call. It is checked as if the model had made the edited call: the rules of the tool, `skip`, remembered
permissions, people, `only` and `approvals` are evaluated for the new arguments (`Permission.judge`).

- If the editor may decide the edited call alone, the edit is the decision: the call runs.
- If the editor is one of several people who have to say yes, the edit is the first vote for the edited call.
- Otherwise the edit is a `Proposal`: votes before it are void, and the people for the edited call decide.
- If a rule refuses the edited call, nothing changes, and the editor gets the reason.

Only a person who may decide the call that waits may edit it: an edit drops that call.

A process outside of the turn (a page, a command, a channel) does not know the rules of the agent's tools. If the waiting approval does not
say that the rules depend on no arguments (`Approval.any_arguments`), such a process records the edit as an `unchecked` proposal. It decides
nothing. The turn is then ready, and the process that runs it checks the edit first (`Call.check_edit`). The same happens in a running turn
if the tool has a rule that is a function of the program. Until then a yes is refused; a no still counts.

`read_edits` reads this state from the notes on an approval. It is the only reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.events.open_question import OpenQuestion, arguments_sha256, result_sha256
from midturn.events.types import Approval, Event, Note, Proposal, Vote
from midturn.question.json_value import Json


class Edits(Struct, frozen=True):
    """Edits of one call.

    Args:
        proposal: The proposal that people decide on; None if they decide on the call as the model made it.
        unchecked: The edit whose rules have not been read yet.
        refused: The last edit, if a rule refused it.
        first_note: Index of the first note that counts for what is decided on now.
        any: Whether the call was ever edited while it waited.
    """

    proposal: Proposal | None = None
    unchecked: Proposal | None = None
    refused: Proposal | None = None
    first_note: int = 0
    any: bool = False


_NO_EDITS: Final = Edits()


def read_edits(notes: Sequence[Note]) -> Edits:
    """Return the edits among the notes on an approval."""
    proposal = unchecked = refused = None
    first_note, was_edited = 0, False
    for place, note in enumerate(notes):
        match note:
            case Vote() if note.arguments is not UNSET and not note.withdrawn:
                unchecked, was_edited = None, True
            case Proposal(state="unchecked"):
                unchecked, was_edited = note, True
            case Proposal(state="refused"):
                unchecked, refused = None, note
            case Proposal():
                proposal, unchecked, refused, first_note, was_edited = note, None, None, place + 1, True
            case _:
                pass
    return Edits(proposal, unchecked, refused, first_note, was_edited) if was_edited or refused else _NO_EDITS


def has_unchecked_edit(turn: Sequence[Event]) -> bool:
    """Say whether an edit in a turn may wait to be checked: a cheap look, before the turn is read."""
    return any(isinstance(event, Proposal) and event.state == "unchecked" for event in turn)


def proposed_arguments(edits: Edits, voted: Json | UnsetType, made: Json) -> Json:
    """Return the arguments that are decided on: those of the last edit that was voted for, else of the proposal, else of the call."""
    if not isinstance(voted, UnsetType):
        return voted
    return made if edits.proposal is None else edits.proposal.arguments


def with_edit(question: OpenQuestion, value: Json) -> OpenQuestion:
    """Return an open question with the arguments or the content that an edit would lead to, for rules about who may answer it."""
    if question.kind == "run":
        return replace(question, arguments=value, digest=arguments_sha256(value))
    request = question.request
    if not isinstance(request, Approval) or not isinstance(value, str):
        return question
    digest = result_sha256(value, is_error=bool(request.is_error), images=())
    return replace(question, request=replace(request, content=value, images=()), digest=digest)
