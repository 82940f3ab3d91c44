"""The context of a permission: the call that would run, its edits, earlier refusals of the same
call, and the reason for asking a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from midturn.events.open_question import CallSubject, Refusal, fenced
from midturn.events.types import AnsweredBy
from midturn.question.json_value import Json, json_equal
from midturn.turn.call_record import CallRecord
from midturn.turn.edits import Edits
from midturn.turn.view import describe
from midturn.turn.votes import Poll


def call_subject(call: CallRecord, arguments: Json, edits: Edits, poll: Poll | None) -> CallSubject:
    """Return a call with the arguments to approve. If a person edited the arguments, the result
    also contains the original arguments and the editor.
    """
    subject = CallSubject(replace(call.call, arguments=arguments))
    if json_equal(arguments, call.arguments):
        return subject
    editor = edits.proposal.answered_by if edits.proposal else None
    return replace(
        subject, original=call.arguments, proposed_by=(poll.editor if poll else None) or editor
    )


def call_context(
    subject: CallSubject, edits: Edits, refusals: Sequence[Refusal], why: str | None
) -> str:
    """Return the context of a call that waits for permission, in Markdown. It can be empty.

    Args:
        subject: The call that would run.
        edits: The edits of the call.
        refusals: Refusals of identical calls earlier in the turn.
        why: The reason for asking a person, or the context of the question that the tool would
            ask.
    """
    return "\n\n".join(_parts(subject, edits, refusals, why))


def _parts(
    subject: CallSubject, edits: Edits, refusals: Sequence[Refusal], why: str | None
) -> Iterator[str]:
    if why:
        yield why
    if refusals:
        yield "\n".join(map(_refused, refusals))
    if subject.original is not UNSET:
        yield _changed(
            subject.proposed_by,
            "proposed different arguments than the model",
            subject.original,
            subject.call.arguments,
        )
    if edits.unchecked is not None:
        said = "edited the call. The edit is checked against the rules when the turn continues"
        yield _changed(
            edits.unchecked.answered_by, said, subject.call.arguments, edits.unchecked.arguments
        )
    if edits.refused is not None:
        yield (
            f"An edit by {_name(edits.refused.answered_by)} was refused."
            f" {edits.refused.reason or ''}".strip()
        )


def _refused(refusal: Refusal) -> str:
    why = f': "{refusal.reason}"' if refusal.reason else "."
    return f"The same call was refused earlier in this turn by {_name(refusal.by)}{why}"


def _changed(who: AnsweredBy | None, what: str, before: Json, after: Json) -> str:
    return f"{_name(who)} {what}:\n\n{fenced(difference(before, after), 'diff')}"


def _name(who: AnsweredBy | None) -> str:
    return describe(who) or "a person"


def difference(before: Json, after: Json) -> str:
    """Return a unified diff of two JSON values, each formatted with indentation."""
    from difflib import unified_diff  # imported here because it is needed only if a call was edited

    old, new = (
        msgspec.json.format(msgspec.json.encode(value), indent=2).decode().split("\n")
        for value in (before, after)
    )
    lines = [*unified_diff(old, new, n=3, lineterm="")][2:]
    return "\n".join(lines)
