"""Edits of a call that waits for permission: the edit that people must decide, and the edit that
must be checked first.

Theory of operation
===================

An edit replaces the arguments of a call. It is checked as if the model had made the edited call:
the rules of the tool, `skip`, remembered permissions, people, `only` and `approvals` are evaluated
for the new arguments (`PermissionDecision.judge`).

- If the editor may decide the edited call alone, the edit counts as an approval, and the call runs.
- If several people must approve and the editor is one of them, the edit is the first vote for the
  edited call.
- Otherwise the edit is a `Proposal`. Earlier votes are void, and the people who are allowed to
  decide the edited call are asked.
- If a rule refuses the edited call, the edit is dropped and the editor receives the reason.

Only a person who may decide the waiting call may edit it, because the edit replaces that call.

A process that does not run the turn (a web page, a command, a channel) does not have the rules of
the agent's tools. Unless the waiting approval says that the rules are the same for all arguments
(`Approval.any_arguments`), such a process records the edit as an `unchecked` proposal, which does
not decide the call. The turn is then ready, and the process that runs it checks the edit first
(`Call._check_edit`). The same happens in a running turn if the tool has a Python rule function
(`@tool(run=…)`). Until the edit is checked, an approval is rejected, but a refusal is accepted.

`read_edits` computes this state from the notes on an approval. No other code does.
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
        proposal: The proposal that people must decide. None if they decide the model's call.
        unchecked: The last edit, if the rules were not evaluated for it yet.
        refused: The last edit, if a rule refused it.
        first_note: Index of the first note that applies to the current subject.
        any: Whether the call was ever edited while it waited for permission.
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
                proposal, unchecked, refused, first_note, was_edited = (
                    note,
                    None,
                    None,
                    place + 1,
                    True,
                )
            case _:
                pass
    return (
        Edits(proposal, unchecked, refused, first_note, was_edited)
        if was_edited or refused
        else _NO_EDITS
    )


def has_unchecked_edit(turn: Sequence[Event]) -> bool:
    """Return whether a turn may contain an unchecked edit.

    A fast check for callers that have not decoded the turn yet.
    """
    return any(isinstance(event, Proposal) and event.state == "unchecked" for event in turn)


def proposed_arguments(edits: Edits, voted: Json | UnsetType, made: Json) -> Json:
    """Return the arguments to approve: from the last edit that has a vote, else from the proposal,
    else from the call.
    """
    if not isinstance(voted, UnsetType):
        return voted
    return made if edits.proposal is None else edits.proposal.arguments


def with_edit(question: OpenQuestion, value: Json) -> OpenQuestion:
    """Return an open question with the edited arguments or content, so that the rules about who may
    answer are evaluated for the edit.
    """
    if question.kind == "run":
        return replace(question, arguments=value, digest=arguments_sha256(value))
    request = question.request
    if not isinstance(request, Approval) or not isinstance(value, str):
        return question
    digest = result_sha256(value, is_error=bool(request.is_error), images=())
    return replace(question, request=replace(request, content=value, images=()), digest=digest)
