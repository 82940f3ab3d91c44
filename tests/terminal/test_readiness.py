"""Waiting for input, also if the loop's selector rejects the descriptor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from midturn.terminal.device import readable_now
from midturn.terminal.lines import readable_within, until_readable


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Yield the two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture(params=["selector", "thread"])
def waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with the loop's own selector, and with one that rejects every descriptor."""

    def refuse(*_: object) -> None:
        raise PermissionError

    if request.param == "thread":
        monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", refuse)


@pytest.mark.usefixtures("waiting")
def test_input_wakes_the_waiter(pipe: tuple[int, int]) -> None:
    async def scene() -> bool:
        asyncio.get_running_loop().call_later(0.01, os.write, pipe[1], b"x")
        await until_readable(pipe[0])
        return readable_now(pipe[0])

    assert asyncio.run(scene())


@pytest.mark.usefixtures("waiting")
def test_cancelling_stops_the_wait_at_once(pipe: tuple[int, int]) -> None:
    async def scene() -> bool:
        return await readable_within(pipe[0], 0.01)

    assert not asyncio.run(scene())
    assert not readable_now(pipe[0])
