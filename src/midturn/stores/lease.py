"""Leases in the store. A lease ensures that only one server at a time does a task, such as running
a channel.

If a server dies, it no longer renews its lease. After the lease expires, another server can acquire
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from midturn.question.people import after
from midturn.stores.port import StorePort

LEASE_SECONDS: Final = 30.0
"""Duration of a lease. A server that does not renew its lease within this time loses it."""


class Lease(Struct, frozen=True):
    """A stored lease: the server that holds it, and the time at which it expires."""

    holder: str
    until: str


async def acquire_lease(port: StorePort, name: str, holder: str, now: Callable[[], str]) -> bool:
    """Acquire or renew a lease. Return False if another server holds it.

    Args:
        port: The store.
        name: Name of the stored lease.
        holder: Random name that identifies the server.
        now: Returns the time in RFC 3339.

    Raises:
        StoreError: The store cannot be read or written.
    """
    async with port.alone(name):
        found = await _stored(port, name)
        if found and found.holder != holder and found.until > now():
            return False
        lease = Lease(holder, after(now(), LEASE_SECONDS))
        await port.beside.keep(name, msgspec.json.encode(lease))
    return True


async def release_lease(port: StorePort, name: str, holder: str) -> None:
    """Release a lease if `holder` holds it.

    Raises:
        StoreError: The store cannot be read or written.
    """
    async with port.alone(name):
        found = await _stored(port, name)
        if found and found.holder == holder:
            await port.beside.keep(name, None)


async def _stored(port: StorePort, name: str) -> Lease | None:
    content = (await port.beside.kept(name)).get(name)
    try:
        return None if content is None else msgspec.json.decode(content, type=Lease)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # of another version or program
        return None
