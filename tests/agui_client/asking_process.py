"""A process that calls a remote agent, and that kills itself: `asking_process.py URL STORE NUMBER`.

It is killed right after its NUMBERth write to the disk; 0 stands for never. It prints the number of
its writes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import midturn as mt
from midturn.integrations import agui

_WRITING = ("write", "fdatasync", "fsync", "rename", "replace", "link")


def watch_writes(last: int) -> Callable[[], int]:
    """Kill this process after a number of writes. Return a function that counts them."""
    number = count(1)
    done = [0]

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            done[0] = next(number)
            if done[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    for name in _WRITING:
        setattr(os, name, watched(getattr(os, name)))
    return lambda: done[0]


def caller(url: str, store: mt.ConversationStore) -> mt.Agent:
    """Return an agent that calls the remote agent once."""
    remote = agui.tool(url, name="remote", description="Deploys.")
    script = [
        {"calls": [{"name": "remote", "arguments": {"message": "Deploy it."}}]},
        {"text": "Done."},
    ]
    return mt.Agent(mt.ScriptedModel(script), tools=[remote], store=store)


async def main(url: str, place: str, last: str) -> None:
    """Run the turn, or resume it."""
    store = mt.open_store(place)
    agent = caller(url, store)
    known = await store.ids()
    written = watch_writes(int(last))
    if known and (await store.read(known[0])).events:
        ended = await agent.resume(known[0])
    else:
        ended = await agent.run("Go.", conversation=known[0] if known else None)
    print(written(), ended.status, flush=True)  # noqa: T201  read by the test


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
