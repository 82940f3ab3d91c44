"""`team://NAME`: a store in the directory that the team shares, so that no one has to know its path."""

import os
from pathlib import Path

import midturn as mt
from midturn.stores.opening import store_at


def open_team_store(address: str, limits: mt.Limits) -> mt.ConversationStore:
    """Return the store of a team, by its address."""
    name = address.removeprefix("team://")
    if not name.isidentifier():
        raise mt.ConfigError(f"`{address}` names no team. Write `team://NAME`, with letters and digits.")
    shared = Path(os.environ.get("TEAM_STORES", "/srv/midturn"))
    return store_at(shared / name, limits)
