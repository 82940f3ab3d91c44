"""`team://NAME`: a store in the team's shared directory, so that users do not need its path."""

import os
from pathlib import Path

import midturn as mt
from midturn.stores.opening import store_at


def open_team_store(address: str, limits: mt.Limits) -> mt.ConversationStore:
    """Return the store with this address."""
    name = address.removeprefix("team://")
    if not name.isidentifier():
        raise mt.ConfigError(
            f"`{address}` names no team. Write `team://NAME`, with letters and digits."
        )
    shared = Path(os.environ.get("TEAM_STORES", "/srv/midturn"))
    return store_at(shared / name, limits)
