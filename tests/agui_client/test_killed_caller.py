"""A process that calls a remote agent, killed after each of its writes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from support.agui_remote import FINISHED, STARTED, Event, interrupted, said, scripted_agent

_ASKING = Path(__file__).with_name("asking_process.py")
_STRIDE = 1 if os.environ.get("DEEP") else 5
_AT_ONCE = 4
WHERE = {"id": "i1", "reason": "x", "message": "Where to?"}


def respond(run: Event) -> Iterable[Event]:
    if run.get("resume"):
        return [STARTED, *said("Done.", "a2"), FINISHED]
    return [STARTED, *said("Let me ask."), interrupted(WHERE)]


async def _process(url: str, store: Path, last: int) -> tuple[int, str] | None:
    """Run the process. Return the number of its writes and the status, or None if it was killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(_ASKING), url, str(store), str(last), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    if process.returncode:
        return None
    writes, status = printed.split()
    return int(writes), status.decode()


async def _answered(store: mt.ConversationStore) -> bool:
    """Answer the open question, as another process does. Return whether there was one."""
    pending = await store.pending()
    for question in pending:
        await store.answer(question, "prod", user="ada", via="inbox")
    return bool(pending)


async def _to_the_end(url: str, store: mt.ConversationStore, place: Path, kills: list[int]) -> None:
    """Run the process until the turn is over. `kills` are the writes after which it is killed."""
    for _ in range(10):
        ended = await _process(url, place, kills.pop(0) if kills else 0)
        if ended and ended[1] == "completed":
            return
        if ended:
            assert ended[1] == "suspended"
            assert await _answered(store)
    raise AssertionError("the turn does not end")


async def _check(remote: Any, store: mt.ConversationStore) -> None:
    (conversation,) = await store.ids()
    log = [each.to_json() for each in (await store.read(conversation)).events]
    text = json.dumps(log)
    assert text.count('"answered_by"') == 1
    assert text.count('"type": "inquiry_request"') == 1
    (result,) = [each for each in log if each["type"] == "tool_call_response"]
    assert result["content"] == "Done."
    assert len({run["threadId"] for run in remote.runs}) == 1
    by_id: dict[str, list[Event]] = {}
    for run in remote.runs:
        by_id.setdefault(run["runId"], []).append(run)
    assert len(by_id) == 2  # one run with the message, and one with the answer
    assert all(run == same[0] for same in by_id.values() for run in same)
    (resumed,) = [same[0] for same in by_id.values() if same[0].get("resume")]
    entry = {"interruptId": "i1", "status": "resolved", "payload": "prod"}
    assert resumed["resume"] == [entry]


async def _scene(tmp_path: Path, kills: list[int]) -> None:
    store = mt.open_store(tmp_path / "store")
    async with scripted_agent(respond) as (url, remote):
        await _to_the_end(url, store, tmp_path / "store", kills)
        await _check(remote, store)


@pytest.mark.long
def test_caller_that_is_killed_after_any_write_asks_and_answers_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with scripted_agent(respond) as (url, _):
            first = await _process(url, tmp_path / "count", 0)
            assert first is not None
            store = mt.open_store(tmp_path / "count")
            assert await _answered(store)
            second = await _process(url, tmp_path / "count", 0)
            assert second is not None
        assert min(first[0], second[0]) > 5
        kills = [[last] for last in range(1, first[0] + 1, _STRIDE)]
        kills += [[0, last] for last in range(1, second[0] + 1, _STRIDE)]
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(place: int) -> None:
            async with limit:
                await _scene(tmp_path / str(place), kills[place])

        await asyncio.gather(*map(one, range(len(kills))))

    asyncio.run(scene())


@pytest.mark.long
def test_answer_of_a_killed_caller_is_sent_once_if_the_run_was_recorded(tmp_path: Path) -> None:
    """The process dies between the question and the answer. Both runs arrive exactly once."""

    async def scene() -> None:
        store = mt.open_store(tmp_path / "store")
        async with scripted_agent(respond) as (url, remote):
            await _to_the_end(url, store, tmp_path / "store", [])
            await _check(remote, store)
            assert len(remote.runs) == 2

    asyncio.run(scene())
