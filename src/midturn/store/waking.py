"""Telling whatever runs jobs in a program that a turn can go on."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

OnWake: TypeAlias = Callable[[str], Awaitable[None] | None]
"""Takes the id of a conversation whose turn can go on; sync or async."""

_LOG = logging.getLogger("midturn.store")


async def wake(on_wake: OnWake, conversation: str) -> None:
    """Call the program's own function. That it fails takes nothing back: the answer is recorded, and `store.ready()` names its turn."""
    try:
        told = on_wake(conversation)
        if inspect.isawaitable(told):
            await told
    except Exception:  # noqa: BLE001  it is the program's own, and the answer is safe
        _LOG.exception("on_wake failed; the turn of conversation %s is ready all the same", conversation)
