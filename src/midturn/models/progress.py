"""Where in its script a conversation is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from midturn.core.events import Event
from midturn.core.exchange import ModelRequest
from midturn.core.json_value import Json


def position(next: int, inquiry: int | None = None) -> dict[str, Json]:
    """Return the `metadata` that records which entry comes next: of the replies, or of the answers of entry `inquiry`."""
    return {"scripted": {"next": next} if inquiry is None else {"next": next, "inquiry": inquiry}}


def recorded_position(events: Sequence[Event], inquiry: int | None = None) -> int:
    """Return the index of the entry that comes next, as far as `events` tell."""
    found = [place["next"] for place in map(_scripted, events) if place.get("inquiry") == inquiry and isinstance(place.get("next"), int)]
    places = [place for place in found if isinstance(place, int)]
    if inquiry is None:
        return places[-1] if places else 0
    return max(places, default=0)  # questions are answered side by side, and recorded in the order in which they end


def _scripted(event: Event) -> Mapping[str, Json]:
    scripted = (event.metadata or {}).get("scripted")
    return scripted if isinstance(scripted, Mapping) else {}


class Progress:
    """Which entries are used. The record says so; what no record can hold stands here: errors, and answers that are under way.

    It forgets a conversation whose record has become shorter: that is another conversation, or one that lost its end.
    """

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int | None], set[int]] = {}
        self._length: dict[tuple[str, int | None], int] = {}
        self._delivered: dict[str, int] = {}

    def take(self, request: ModelRequest, inquiry: int | None = None) -> int:
        """Reserve the first free entry and return its index, which may lie past the end of the script."""
        key = (request.conversation, inquiry)
        if len(request.recorded) < self._length.get(key, 0):
            self._taken.pop(key, None)
        self._length[key] = len(request.recorded)
        start = recorded_position(request.recorded, inquiry)
        lost = None if inquiry is not None else self._delivered.pop(request.conversation, None)
        taken = {index for index in self._taken.get(key, ()) if index >= start and index != lost}
        index = next(place for place in range(start, start + len(taken) + 1) if place not in taken)
        self._taken[key] = taken | {index}
        return index

    def delivered(self, request: ModelRequest, index: int) -> None:
        """Note that a reply is complete. If it is not on record when the next one is asked for, the turn was cancelled with it in hand.

        Where nothing is recorded at all, somebody asks for one reply after the other.
        """
        if request.recorded:
            self._delivered[request.conversation] = index

    def give_back(self, request: ModelRequest, index: int, inquiry: int | None = None) -> None:
        """Free an entry that was not delivered: the request was cancelled."""
        self._taken.get((request.conversation, inquiry), set()).discard(index)
