"""Why an answer was not recorded although its question is open: the same words and statuses on the page and in the API."""

from __future__ import annotations

from msgspec import Struct

from midturn.errors import Busy, NotAllowed, PersonNeeded, StoreError, StoreLocked


class Unrecorded(Struct, frozen=True):
    """`status` is that of the response, `error` a word for programs, `message` a sentence for people."""

    status: int
    error: str
    message: str


def unrecorded(error: StoreError | PersonNeeded | NotAllowed) -> Unrecorded:
    """Return what is said of an error for which an answer was not recorded."""
    match error:
        case StoreLocked():
            return Unrecorded(409, "locked", str(error))
        case Busy():
            return Unrecorded(503, "busy", str(error))
        case PersonNeeded():
            return Unrecorded(403, "person_needed", str(error))
        case NotAllowed():
            return Unrecorded(403, "may_not_answer", str(error))
        case _:
            return Unrecorded(503, "not_recorded", str(error))
