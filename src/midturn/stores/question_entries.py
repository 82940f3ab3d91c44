"""Entries of the key-value store that belong to a question or its conversation, and are removed
with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from midturn.stores.port import StorePort

BY_QUESTION: Final = ("a2a-answered/", "a2a-push/", "draft/", "notice/", "reported-end/")
"""Prefixes of names that contain the ID of a conversation, or the address of one of its questions
(`<conversation>-<event id>`).
"""


async def remove_entries(port: StorePort, conversations: Collection[str]) -> None:
    """Remove the stored values of questions whose conversations were removed: partly filled forms,
    deliveries of notifications.

    Raises:
        StoreError: The store cannot be read or written.
    """
    gone = set(conversations)
    for beginning in BY_QUESTION if gone else ():
        for name in await port.beside.kept(beginning):
            if gone.intersection(part.partition("-")[0] for part in name.split("/")):
                await port.beside.keep(name, None)
