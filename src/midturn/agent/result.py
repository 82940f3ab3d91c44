"""What a run of a turn comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

from msgspec import UNSET, Struct

from midturn.core.events import ChatResponse, Event
from midturn.core.exchange import Usage
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion, pending, refused
from midturn.core.turn.inputs import TurnRequested
from midturn.errors import ModelError
from midturn.ports import Journal
from midturn.runtime.driver import Ending
from midturn.runtime.session import Session, TurnStillOpen

Status: TypeAlias = Literal["completed", "suspended", "ended_by_user", "failed"]


class RunResult(Struct, frozen=True, kw_only=True):
    """How a turn ended, or what it waits for.

    `text` is what the assistant said in this turn, `structured` its answer where a schema was given; `pending` are the open questions
    of a suspended turn; `refused` names the tools whose calls failed because no human was there; `error` says why a turn `failed`.
    """

    conversation: str
    status: Status
    text: str = ""
    structured: Json = None
    pending: tuple[OpenQuestion, ...] = ()
    refused: tuple[str, ...] = ()
    usage: Usage = Usage()
    error: str | None = None


def result_of(conversation: str, turn: Sequence[Event], ending: Ending) -> RunResult:
    """Read a result from the events of a turn."""
    said = [event for event in turn if isinstance(event, ChatResponse)]
    structured = [event.structured for event in said if event.structured is not UNSET]
    return RunResult(
        conversation=conversation,
        status=cast("Status", ending.status),
        text="\n\n".join(event.message for event in said if event.message),
        structured=structured[-1] if structured else None,
        pending=tuple(pending(turn, conversation)) if ending.status == "suspended" else (),
        refused=tuple(refused(turn)),
        usage=ending.usage,
        error=ending.error,
    )


async def finish(journal: Journal, session: Session, requested: TurnRequested | None) -> RunResult:
    """Run or resume a turn, and read what it came to.

    Raises:
        StoreError: The last turn is still open, or the disk refused.
        NotOpen: There is nothing to resume.
        ModelError: The model stayed down; the turn is open.
    """
    conversation = journal.conversation
    try:
        ending = await (session.run(requested) if requested else session.resume())
    except TurnStillOpen:
        advice = f"Go on with it: `await agent.resume({conversation!r})`. Or end it: answer one of its questions with `cancel=True`."
        raise TurnStillOpen(conversation, advice) from None
    if ending.status == "open":
        raise _model_is_down(conversation, ending.error or "", ending.failure)
    return result_of(conversation, session.window, ending)


def _model_is_down(conversation: str, message: str, failure: ModelError | None) -> ModelError:
    said = (
        f"{message.rstrip('.')}. The turn of conversation {conversation} is open: `await agent.resume({conversation!r})` goes on with it."
    )
    if failure is None:
        error = ModelError(said)
    else:
        error = ModelError(said, status=failure.status, retry_after=failure.retry_after, transient=failure.transient)
    error.conversation = conversation
    error.__cause__ = failure
    return error
