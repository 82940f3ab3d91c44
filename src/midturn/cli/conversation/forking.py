"""A copy of a conversation, under a title that tells it from the original."""

from __future__ import annotations

import re

from midturn.cli.place import Place

_FORK = re.compile(r" \(fork(?: (?P<number>[0-9]{1,4}))?\)\Z")


def fork(place: Place, source: str, turns: int | None = None) -> str:
    """Copy the finished turns of a conversation (the first `turns`), make the copy the current one, and return its id."""
    made = place.store.fork_sync(source, turns)
    place.run(place.store.port.describe(made, title=fork_title(place.store.read_sync(source).title)))
    place.set_current(made)
    return made


def fork_title(title: str) -> str:
    """Return the title of a fork: `Plan` becomes `Plan (fork)`, and that one `Plan (fork 2)`."""
    found = _FORK.search(title)
    if found is None:
        return f"{title} (fork)".strip()
    return f"{title[: found.start()]} (fork {int(found['number'] or 1) + 1})"
