"""Work that is done by one process at a time, wherever conversations are kept."""

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
    """Return the same store twice: memory is that of one process."""
    return (MemoryConversations(),) * 2


PLACES: dict[str, Callable[[Path], Sequence[StorePort]]] = {
    "files": lambda folder: [FileConversations(folder / "store") for _ in range(2)],
    "memory": in_memory,
}


async def keep_to_one(ports: Sequence[StorePort]) -> None:
    """Enter under the same name and under others, from two sides at once: no two are ever in under the same name."""
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


async def give_back(ports: Sequence[StorePort]) -> None:
    """Leave in any way: the next may enter; who is refused has not entered."""
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
    with pytest.raises(Busy, match="Another process has been at the same"):
        async with other.alone("a call"):
            raise AssertionError("it is not free")
    staying.cancel()
    await asyncio.gather(staying, return_exceptions=True)
    async with other.alone("a call"):
        pass


@pytest.mark.parametrize("place", PLACES)
def test_no_two_are_at_the_same_at_the_same_time(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PATIENCE", 60)
    asyncio.run(keep_to_one(PLACES[place](tmp_path)))


@pytest.mark.parametrize("place", PLACES)
def test_whoever_leaves_leaves_it_to_the_next(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PATIENCE", 0.2)
    asyncio.run(give_back(PLACES[place](tmp_path)))


@pytest.mark.real("PostgreSQL")
def test_processes_with_a_database_do_the_same_one_after_the_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = [PostgresConversations(parse_database_address(url)) for _ in range(2)]
    monkeypatch.setattr(claims, "PATIENCE", 60)
    asyncio.run(keep_to_one(processes))
    monkeypatch.setattr(claims, "PATIENCE", 0.5)
    asyncio.run(give_back(processes))


def test_where_there_are_no_locks_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(95, "Operation not supported", fd, operation)

    monkeypatch.setattr(claims.fcntl, "flock", refuse)

    async def enter() -> None:
        async with FileConversations(tmp_path).alone("a call"):
            raise AssertionError("there are no locks")

    with pytest.raises(StoreError, match="This file system has no locks"):
        asyncio.run(enter())
