"""A tail that ends inside a batch."""

from __future__ import annotations

import pytest

from midturn.core.events import ChatRequest, Event
from midturn.core.stream import complete_batches, torn_tail


def _events(*more: int) -> list[Event]:
    return [ChatRequest(content="x", event_id=str(place), more=left) for place, left in enumerate(more)]


@pytest.mark.parametrize(
    ("more", "torn"),
    [
        ((), 0),
        ((0,), 0),
        ((2, 1, 0), 0),
        ((2,), 1),
        ((2, 1), 2),
        ((0, 2, 1), 2),
        ((1, 0, 3, 2, 1), 3),
        ((0, 2, 1, 1), 3),  # nothing was committed after a batch that was torn before
        ((0, -1), 0),
    ],
)
def test_the_events_of_an_unfinished_batch_are_left_out(more: tuple[int, ...], torn: int) -> None:
    events = _events(*more)
    assert torn_tail(events) == torn
    assert complete_batches(events) == events[: len(events) - torn]
