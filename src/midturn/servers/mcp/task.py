"""A question as a task: a call that a client leaves to run on, and asks about now and then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from midturn.core.events import Event
from midturn.foreign.errand import Errand
from midturn.ports import Clock

TASKS: Final = "io.modelcontextprotocol/tasks"
"""What a client says that can leave a call to run on."""
PROOF: Final = "~"
"""What stands before the part of an id that only its client is told."""
_ID = re.compile(r"(?P<handle>.+?)(?:\.(?P<round>[1-9][0-9]{0,8}))?(?:~[0-9a-f]{1,64})?")
_SOON = 60.0  # seconds for which somebody may answer at once
_OFTEN, _RARELY = 1_000, 5_000  # milliseconds between two looks


def id_of(errand: Errand) -> str:
    """Return the id of its newest task. A call that was cancelled and is made again is another task about the same question."""
    return f"{errand.handle}.{errand.asker.round}" if errand.asker.round else errand.handle


def named(id: str) -> tuple[str, int]:
    """Return the question's handle, and which of its tasks an id means."""
    found = _ID.fullmatch(id)
    return (found["handle"], int(found["round"] or 0)) if found else ("", 0)


def described(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what every state of a task says. It never expires: the clock is no answer."""
    waited = (clock.now() - turn[0].at).total_seconds()
    return {
        "taskId": id_of(errand),
        "createdAt": turn[0].timestamp,
        "lastUpdatedAt": turn[-1].timestamp,
        "ttlMs": None,
        "pollIntervalMs": _OFTEN if waited < _SOON else _RARELY,
    }


def is_cancelled(errand: Errand, round: int) -> bool:
    """Say whether a task was cancelled. It stays so, whatever becomes of its question."""
    return round < errand.asker.round or errand.asker.cancelled


def created(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what a call comes back with that runs on."""
    return {"resultType": "task", "status": "working", "statusMessage": "Waiting for the user.", **described(errand, turn, clock)}
