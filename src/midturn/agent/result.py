"""What a run of a turn comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

from msgspec import UNSET, Struct

from midturn.core.events import ChatResponse, Event
from midturn.core.exchange import Usage
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion, pending, refused
from midturn.runtime.driver import Ending

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
    pending: Sequence[OpenQuestion] = ()
    refused: Sequence[str] = ()
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
        pending=pending(turn, conversation) if ending.status == "suspended" else (),
        refused=refused(turn),
        usage=ending.usage,
        error=ending.error,
    )
