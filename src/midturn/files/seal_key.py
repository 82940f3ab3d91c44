"""The key with which a user's decisions are sealed: made once, kept in the state directory, outside every workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from midturn.files.private import create_private, ensure_private, read_private
from midturn.files.user_directories import user_state

NAME: Final = "seal-key"


def seal_key(state: Path | None = None) -> bytes | None:
    """Return the key, made where there is none yet; None where it can neither be read nor made."""
    if state is None:
        state = user_state()
    found = known_seal_key(state)
    if found:
        return found
    import secrets  # only the first time

    try:
        ensure_private(state)
        create_private(state / NAME, secrets.token_hex(32).encode())
    except OSError:
        return None
    return known_seal_key(state)


def known_seal_key(state: Path) -> bytes | None:
    """Return the key that is there; one that others could have written does not count."""
    return read_private(state / NAME) or None
