"""A copy of a conversation: under a title that tells it from the original, and with the flags that its user gave there."""

from __future__ import annotations

import re

from midturn.cli.held import Held
from midturn.cli.place import Place
from midturn.clock import SYSTEM
from midturn.config.delta import Delta, read_delta
from midturn.config.places import state_directory
from midturn.core.events import ConfigDelta
from midturn.store.batch import stamped
from midturn.store.ids import event_id

_FORK = re.compile(r" \(fork(?: (?P<number>[0-9]{1,4}))?\)\Z")


def fork(place: Place, source: str, turns: int | None = None) -> str:
    """Copy the finished turns of a conversation (the first `turns`), make the copy the current one, and return its id."""
    made = place.store.fork_sync(source, turns)
    place.run(place.store.port.describe(made, title=fork_title(place.store.read_sync(source).title)))
    _keep_flags(place, source, made)
    place.set_current(made)
    return made


def fork_title(title: str) -> str:
    """Return the title of a fork: `Plan` becomes `Plan (fork)`, and that one `Plan (fork 2)`."""
    found = _FORK.search(title)
    if found is None:
        return f"{title} (fork)".strip()
    return f"{title[: found.start()]} (fork {int(found['number'] or 1) + 1})"


def _keep_flags(place: Place, source: str, made: str) -> None:
    """Record the flags once more, for the copy: what is sealed for one conversation says nothing in another, its user's copy or not."""
    state, was, now = state_directory(), place.sealed_for(source), place.sealed_for(made)
    events = place.store.read_sync(made).events
    found = [read_delta(event.delta) for event in events if isinstance(event, ConfigDelta)]
    own = [delta.opened(state, was) for delta in found if delta is not None and delta.is_sealed(state, was)]
    again = Delta(
        cfg=tuple(one for delta in own for one in delta.cfg),
        flags=tuple(one for delta in own for one in delta.flags),
        toggles=tuple(one for delta in own for one in delta.toggles),
    )
    record = again.to_record(state, now)
    if record is None:
        return
    with Held.existing(place, made) as held:
        place.run(held.journal.append(stamped([ConfigDelta(event_id=event_id(), delta=record)], SYSTEM)))
