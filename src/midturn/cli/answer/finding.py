"""Which question somebody means who types its id, or the beginning of it."""

from __future__ import annotations

from midturn.core.address import parse_address
from midturn.core.json_value import shown
from midturn.core.stream import OpenQuestion
from midturn.errors import NotOpen
from midturn.store.outside_answers import too_late
from midturn.store.store import ConversationStore

_LISTED = 5


def find_question(store: ConversationStore, typed: str) -> OpenQuestion:
    """Return the open question whose id is `typed`, or whose id, or the part of it after the conversation, alone begins so.

    Raises:
        AlreadyAnswered: The whole id was typed, and the question was answered; the error says by whom.
        NotOpen: There is none, or several fit.
    """
    at = parse_address(typed)
    open_now = store.pending_sync(at.conversation if at else None)
    fitting = [question for question in open_now if typed and (question.id.startswith(typed) or _event(question).startswith(typed))]
    exact = [question for question in fitting if typed in (question.id, _event(question))]
    found = exact if len(exact) == 1 else fitting
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join([*(question.id for question in found[:_LISTED]), *(["…"] if len(found) > _LISTED else [])])
        raise NotOpen(f"{shown(typed)} fits {len(found)} questions: {listed}. Give what follows the dash, or its beginning.")
    if at:
        raise store.run_sync("read", too_late(store.port, at))
    raise NotOpen(f"There is no open question {shown(typed)}. `midturn inbox` lists those that there are.")


def _event(question: OpenQuestion) -> str:
    return question.request.event_id
