"""Notes on requests: they are kept and dropped together with their request and are never sent to
a provider.
"""

from __future__ import annotations

from midturn.events.provider_view import Repairs, sanitize
from midturn.events.types import Event, Notified, Reassigned, Reminded, Vote, visible
from support.tapes import Tape


def test_a_note_without_its_request_is_dropped_and_one_with_it_stays() -> None:
    tape = Tape()
    tape.start()
    tape.user("Ship it.")
    waiting = tape.wait(tape.call("call"))
    notes: list[Event] = [
        Vote(event_id="v1", id="gone"),
        Reassigned(event_id="v2", id="gone", to=("bo",)),
        Reminded(event_id="v3", id=waiting.id, number=1),
        Notified(event_id="v4", id=waiting.id, about="reminded"),
    ]
    whole, repairs = sanitize([*tape.events, *notes])
    assert repairs == Repairs(dropped=("v1", "v2"))
    assert whole == [*tape.events, *notes[2:]]
    assert not any(map(visible, notes))
    assert sanitize(whole) == (whole, Repairs())
