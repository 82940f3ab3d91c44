"""A question as a task: a call that a client leaves to run on, and asks about now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from midturn.core.events import Event
from midturn.foreign.errand import Errand
from midturn.ports import Clock

TASKS: Final = "io.modelcontextprotocol/tasks"
"""What a client says that can leave a call to run on."""
_SOON = 60.0  # seconds for which somebody may answer at once
_OFTEN, _RARELY = 1_000, 5_000  # milliseconds between two looks


def described(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what every state of a task says. It never expires: the clock is no answer."""
    waited = (clock.now() - turn[0].at).total_seconds()
    return {
        "taskId": errand.conversation,
        "createdAt": turn[0].timestamp,
        "lastUpdatedAt": turn[-1].timestamp,
        "ttlMs": None,
        "pollIntervalMs": _OFTEN if waited < _SOON else _RARELY,
    }


def created(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what a call comes back with that runs on."""
    return {"resultType": "task", "status": "working", "statusMessage": "Waiting for the user.", **described(errand, turn, clock)}
