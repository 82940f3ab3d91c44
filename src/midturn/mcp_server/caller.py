"""Who calls: what a client says of itself on this request, and what is known of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

from midturn.foreign.clients import Client, call_id_of, client_of, is_alone, session_of
from midturn.foreign.errand import Errand
from midturn.ports import Clock
from midturn.record.events import Approval, Event, InquiryRequest
from midturn.values.json_value import JsonObject, members

# ----------------------------------------------------------------------------------------------------------------------
# A question as a task: a call that a client leaves to run on, and asks about now and then


TASKS: Final = "io.modelcontextprotocol/tasks"
"""What a client says that can leave a call to run on."""
PROOF: Final = "~"
"""What stands before the part of an id that only its client is told."""
_ID = re.compile(r"(?P<handle>.+?)(?:\.(?P<round>[1-9][0-9]{0,8}))?(?:~[0-9a-f]{1,64})?")
_SOON = 60.0  # seconds for which a person may answer at once
_OFTEN, _RARELY = 1_000, 5_000  # milliseconds between two looks


def id_of(errand: Errand) -> str:
    """Return the id of its newest task. A call that was cancelled and is made again is another task about the same question."""
    return f"{errand.handle}.{errand.asker.round}" if errand.asker.round else errand.handle


def named(id: str) -> tuple[str, int]:
    """Return the question's handle, and which of its tasks an id means."""
    found = _ID.fullmatch(id)
    return (found["handle"], int(found["round"] or 0)) if found else ("", 0)


def described(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what every state of a task says. It expires with its question only: the clock is no answer."""
    waited = (clock.now() - turn[0].at).total_seconds()
    return {
        "taskId": id_of(errand),
        "createdAt": turn[0].timestamp,
        "lastUpdatedAt": turn[-1].timestamp,
        "ttlMs": _lasts(turn),
        "pollIntervalMs": _OFTEN if waited < _SOON else _RARELY,
    }


def _lasts(turn: Sequence[Event]) -> int | None:
    """Return for how many milliseconds a question can be answered; None where that has no end."""
    ends = [datetime.fromisoformat(event.deadline) for event in turn if isinstance(event, InquiryRequest | Approval) and event.deadline]
    return max(0, int((min(ends) - turn[0].at).total_seconds() * 1000)) if ends else None


def is_cancelled(errand: Errand, round: int) -> bool:
    """Say whether a task was cancelled. It stays so, whatever becomes of its question."""
    return round < errand.asker.round or errand.asker.cancelled


def created(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what a call comes back with that runs on."""
    return {"resultType": "task", "status": "working", "statusMessage": "Waiting for the user.", **described(errand, turn, clock)}


class Caller(Struct, frozen=True, kw_only=True):
    """A client, on one request.

    Args:
        client: What is known of it.
        alone: Nobody sits at its terminal.
        session: Its own name for its session.
        call_id: Its own id for this call.
        shows_forms: It says that it can show a form.
        pushes: A form is sent to it while its call waits; otherwise the call returns the form, and comes again.
        has_tasks: It says that it can leave a call to run on.
    """

    client: Client
    alone: bool
    session: str
    call_id: str
    shows_forms: bool
    pushes: bool
    has_tasks: bool

    @property
    def keeps_dialog(self) -> bool:
        """Whether it may have a dialog open that only a person there closes: one that a call has returned, and that cannot be withdrawn."""
        return self.shows_forms and not self.pushes and not self.alone and bool(self.client.kinds)

    @classmethod
    def of(cls, context: ServerRequestContext[Any], environment: Mapping[str, str]) -> Caller:
        """Read who calls."""
        session = context.session
        info = session.client_params.client_info if session.client_params else None
        capabilities = session.client_capabilities
        elicitation = capabilities.elicitation if capabilities else None
        client = client_of(info.name if info else "")
        meta: JsonObject = members(context.meta)
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return cls(
            client=client,
            alone=is_alone(client, environment, meta),
            session=session_of(client, environment, meta),
            call_id=call_id_of(meta),
            shows_forms=elicitation is not None and (elicitation.form is not None or elicitation.url is None),
            pushes=not modern,
            has_tasks=modern and TASKS in (capabilities.extensions or {} if capabilities else {}),
        )
