"""Tasks that only one process at a time may do, in every kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from midturn.errors import Busy, StoreError
from midturn.stores import claims
from midturn.stores.file_conversations import FileConversations
from midturn.stores.memory_conversations import MemoryConversations
from midturn.stores.port import StorePort
from midturn.stores.postgres.conversations import PostgresConversations
from midturn.stores.postgres.own_loop import parse_database_address


def in_memory(_: Path) -> Sequence[StorePort]:
    """Return the same store twice, because a memory store belongs to one process."""
    return (MemoryConversations(),) * 2


PLACES: dict[str, Callable[[Path], Sequence[StorePort]]] = {
    "files": lambda folder: [FileConversations(folder / "store") for _ in range(2)],
    "memory": in_memory,
}


async def check_exclusive(ports: Sequence[StorePort]) -> None:
    """Enter from two sides at once, under the same name and under others.

    Two holders never have the same name.
    """
    inside: list[str] = []
    most: dict[str, int] = {}

    async def enter(port: StorePort, name: str) -> None:
        async with port.alone(name):
            inside.append(name)
            most[name] = max(most.get(name, 0), inside.count(name))
            await port.ids()
            await asyncio.sleep(0.005)
            inside.remove(name)

    names = ["one", "two", "three \udc00", "x" * 100_000, *map(str, range(6))]
    await asyncio.gather(*(enter(port, name) for name in names for port in ports for _ in range(3)))
    assert set(most.values()) == {1}


async def check_released(ports: Sequence[StorePort]) -> None:
    """Leave by return or by exception, after which the next may enter.

    A refused caller has not entered.
    """
    one, other = ports
    with pytest.raises(ZeroDivisionError):
        async with one.alone("a call"):
            raise ZeroDivisionError
    entered = asyncio.Event()

    async def stay() -> None:
        async with one.alone("a call"):
            entered.set()
            await asyncio.Event().wait()

    staying = asyncio.ensure_future(stay())
    await entered.wait()
    with pytest.raises(Busy, match="another process has been doing it"):
        async with other.alone("a call"):
            raise AssertionError("it is not free")
    staying.cancel()
    await asyncio.gather(staying, return_exceptions=True)
    async with other.alone("a call"):
        pass


@pytest.mark.parametrize("place", PLACES)
def test_same_task_is_held_once_at_a_time(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "PATIENCE", 60)
    asyncio.run(check_exclusive(PLACES[place](tmp_path)))


@pytest.mark.parametrize("place", PLACES)
def test_released_task_can_be_taken_again(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "PATIENCE", 0.2)
    asyncio.run(check_released(PLACES[place](tmp_path)))


@pytest.mark.real("PostgreSQL")
def test_processes_with_a_database_do_the_same_one_after_the_other(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = [PostgresConversations(parse_database_address(url)) for _ in range(2)]
    monkeypatch.setattr(claims, "PATIENCE", 60)
    asyncio.run(check_exclusive(processes))
    monkeypatch.setattr(claims, "PATIENCE", 0.5)
    asyncio.run(check_released(processes))


def test_missing_lock_support_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(95, "Operation not supported", fd, operation)

    monkeypatch.setattr(claims.fcntl, "flock", refuse)

    async def enter() -> None:
        async with FileConversations(tmp_path).alone("a call"):
            raise AssertionError("there are no locks")

    with pytest.raises(StoreError, match="This file system has no locks"):
        asyncio.run(enter())
