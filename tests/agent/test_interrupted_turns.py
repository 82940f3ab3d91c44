"""Turns whose run was interrupted are listed on request, so that a loop over `store.ready` can
continue them.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import midturn as mt
from midturn.stores.store import ConversationStore

PROGRAM = """
import os, signal, sys
import midturn as mt

@mt.tool
def count() -> str:
    "Count."
    if "tool" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return "three"

def reply(request):
    if isinstance(request.events[-1], mt.events.ToolCallResponse):
        return "Done."
    if "model" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"calls": [{"name": "count"}]}

agent = mt.Agent(mt.FunctionModel(reply), tools=[count], store=mt.open_store("conversations"))

if __name__ == "__main__":
    agent.run_sync("Go.")
"""
LOOP = """
from killed import agent
for conversation in agent.store.ready_sync(interrupted=True):
    print(agent.resume_sync(conversation).text)
"""


@pytest.mark.parametrize("killed_in", ["model", "tool"])
def test_turn_of_a_killed_process_is_listed_and_continues(tmp_path: Path, killed_in: str) -> None:
    (tmp_path / "killed.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "loop.py").write_text(LOOP, encoding="utf-8")
    killed = subprocess.run([sys.executable, "killed.py", killed_in], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    store = mt.open_store(tmp_path / "conversations")
    assert store.ready_sync() == []
    assert store.ready_sync(interrupted=True) == store.ids_sync()

    done = subprocess.run(
        [sys.executable, "loop.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "Done.\n"
    assert store.ready_sync(interrupted=True) == []


def asking(store: ConversationStore) -> mt.Agent:
    @mt.tool
    async def asks(ctx: mt.ToolContext) -> str:
        """Ask."""
        return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))

    return mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "asks"}]}, {"text": "Done."}]),
        tools=[asks],
        store=store,
    )


def test_turn_that_waits_for_a_person_is_listed_when_it_is_answered(
    store: ConversationStore,
) -> None:
    waiting = asking(store).run_sync("Ask.")
    assert store.ready_sync(interrupted=True) == []

    store.answer_sync(waiting.pending[0], True)

    assert store.ready_sync(interrupted=True) == store.ready_sync() == [waiting.conversation]


def test_stopped_turn_is_listed_after_its_run_ends(store: ConversationStore) -> None:
    async def scene() -> None:
        begun = asyncio.Event()

        @mt.tool
        async def wait() -> str:
            """Wait."""
            begun.set()
            await asyncio.Event().wait()
            return "never"

        agent = mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": "wait"}]}]), tools=[wait], store=store
        )
        running = asyncio.create_task(agent.run("Wait."))
        await begun.wait()
        assert await store.ready(interrupted=True) == []

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert await store.ready() == []
        assert await store.ready(interrupted=True) == await store.ids()

    asyncio.run(scene())


def test_turn_whose_model_was_down_is_listed(store: ConversationStore) -> None:
    def down(_: mt.ModelRequest) -> str:
        raise mt.ModelError("It is down.")

    with pytest.raises(mt.ModelError):
        mt.Agent(mt.FunctionModel(down), store=store).run_sync("Go.")

    assert store.ready_sync() == []
    (conversation,) = store.ready_sync(interrupted=True)
    assert (
        mt.Agent(mt.FunctionModel(lambda _: "Hello."), store=store).resume_sync(conversation).text
        == "Hello."
    )


def test_interrupted_inner_turn_is_listed_as_its_outer_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        begun = asyncio.Event()

        @mt.tool
        async def wait() -> str:
            """Wait."""
            begun.set()
            await asyncio.Event().wait()
            return "never"

        inner = mt.Agent(mt.ScriptedModel([{"calls": [{"name": "wait"}]}]), tools=[wait])

        @mt.tool
        async def delegate() -> str:
            """Delegate."""
            return (await inner.run("Wait.")).text

        outer = mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": "delegate"}]}]), tools=[delegate], store=store
        )
        async with outer.stream("Go.") as events:
            watching = asyncio.create_task(anext(aiter(events)))
            await begun.wait()
            watching.cancel()
        assert await store.ready(interrupted=True) == [events.conversation]

    asyncio.run(scene())
