"""The background event loop of database connections shuts down in order, with its store or with
the process.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from midturn.stores.postgres import own_loop
from midturn.stores.postgres.own_loop import OwnLoop, end_tasks
from support.loops import in_a_loop

FORGETFUL = """
import gc, sys, threading
from midturn.stores.postgres.conversations import PostgresStore

for _ in range(3):
    store = PostgresStore(sys.argv[1])
    print(store.pending_sync(), store.run_sync("create", store.create("Ship it")).conversation.isdigit())
    del store
    gc.collect()
for thread in threading.enumerate():
    if thread.name.startswith("midturn: "):
        thread.join(120)
print(threading.active_count())
"""


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def _waits(swallows: int) -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if not swallows:
                raise
            swallows -= 1


@in_a_loop
async def test_task_that_swallows_cancellation_is_stopped() -> None:
    tasks = [asyncio.create_task(_waits(swallows)) for swallows in (0, 1, 3)]
    await asyncio.sleep(0)
    await end_tasks(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, True]


def test_unreferenced_loop_stops_with_its_tasks() -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append(threading.current_thread().name)

    loop = OwnLoop("a loop of its own", close)
    loop.begin(_waits(1))
    assert any(thread.name == "a loop of its own" for thread in threading.enumerate())
    del loop
    gc.collect()
    _until(lambda: all(thread.name != "a loop of its own" for thread in threading.enumerate()))
    assert closed == ["a loop of its own"]


def test_loop_closed_twice_shuts_down_in_order() -> None:
    """This happens if the process ends while an unused store is closing."""
    steps: list[str] = []
    closing, told = threading.Event(), threading.Event()

    async def close() -> None:
        closing.set()
        await asyncio.to_thread(told.wait)
        await asyncio.sleep(0.05)
        steps.append("closed")

    loop = OwnLoop("a loop that ends", close)
    loop.begin(_waits(0))
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "a loop that ends"]
    end = partial(own_loop._end, *own_loop._RUNNING[thread])
    end()
    assert closing.wait(30)
    end()
    told.set()
    thread.join(120)
    assert (steps, thread.is_alive()) == (["closed"], False)


@pytest.mark.real("PostgreSQL")
def test_dropped_stores_leave_no_thread_and_no_warning(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", FORGETFUL, url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[] True\n" * 3 + "1\n", "")


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?options=-c%20search_path%3Dx", "?options=-c%20search_path%3Dx"),
        (
            "?midturn_schema=s&options=-c+x&midturn_direct=postgresql%3A%2F%2Fh%2Fd%2Be",
            "?options=-c+x",
        ),
        ("?a=%26&midturn_schema=s&b", "?a=%26&b"),
        ("?midturn_schema=s", ""),
        ("", ""),
    ],
)
def test_unknown_address_options_reach_the_driver(query: str, left: str) -> None:
    address = own_loop.parse_database_address(f"postgresql://h/db{query}")
    assert address.url == f"postgresql://h/db{left}"
    assert address.direct == ("postgresql://h/d+e" if "midturn_direct" in query else address.url)
    assert address.schema == ("s" if "midturn_schema" in query else "midturn")
