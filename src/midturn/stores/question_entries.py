"""Entries of the key-value part of a store that belong to a question of a conversation: they are removed with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from midturn.stores.port import StorePort

BY_QUESTION: Final = ("draft/", "notice/", "reported-end/")
"""Beginnings of names in which a conversation, or the address of a question in it, `<conversation>-<event id>`, is one of the parts."""


async def remove_entries(port: StorePort, conversations: Collection[str]) -> None:
    """Remove what is kept of questions of conversations that are gone: forms half filled in, deliveries of notices.

    Raises:
        StoreError: The store cannot be read or written.
    """
    gone = set(conversations)
    for beginning in BY_QUESTION if gone else ():
        for name in await port.beside.kept(beginning):
            if gone.intersection(part.partition("-")[0] for part in name.split("/")):
                await port.beside.keep(name, None)
