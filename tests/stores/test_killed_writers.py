"""Writers that are killed repeatedly: acknowledged events are stored, and no batch is stored
partly.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from midturn.events.types import ChatRequest
from midturn.stores.opening import open_store
from support.processes import KillableProgram
from support.stored import create, release, reopen

IMPORTS = """
import asyncio, sys
from midturn.events.types import ChatRequest, ChatResponse, TurnEnd, TurnStart
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
"""
WRITER = """
async def write(journal, mark):
    for number in range(100_000):
        turn = [TurnStart(), ChatRequest(content=f"{mark}.{number}"), ChatResponse(message="x" * 3_000), TurnEnd(status="completed")]
        await journal.append(turn)
        print(f"{mark}.{number}", flush=True)

asyncio.run(write(drive(open_store(sys.argv[1]).open(sys.argv[2])), sys.argv[3]))
"""
ROUNDS = 6


def test_killed_writer_loses_no_acknowledged_event(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    journal = create(store, "kill me")
    release(journal)
    acknowledged: list[str] = []

    writer = KillableProgram(IMPORTS, WRITER)
    for attempt in range(ROUNDS):
        assert writer.begin(tmp_path, journal.conversation, attempt) == f"{attempt}.0"
        time.sleep(random.uniform(0, 0.1))
        acknowledged += [f"{attempt}.0", *writer.kill()]
    writer.end()

    conversation = store.read_sync(journal.conversation)
    asked = [event.content for event in conversation.events if isinstance(event, ChatRequest)]
    assert set(acknowledged) <= set(asked)
    # one unacknowledged batch of each may have been durable
    assert len(asked) - len(acknowledged) <= ROUNDS
    assert len(conversation.events) == 4 * len(asked)
    assert conversation.events[-1].more == 0  # no batch is stored partly
    release(reopen(store, journal.conversation))  # no lock is left behind
