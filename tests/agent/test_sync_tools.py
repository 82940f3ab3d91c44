"""Synchronous tools ask from their own thread, under `run_sync` and in a running event loop."""

from __future__ import annotations

import asyncio
import threading

import midturn as mt
from midturn.stores.store import ConversationStore
from support.agents import CONFIRM, calling, tool_results
from support.people import Chat
from support.waiting import until


@mt.tool
def plain(ctx: mt.ToolContext[list[str]]) -> str:
    """Ask twice, from a thread."""
    ctx.deps.append(threading.current_thread().name)
    first = ctx.ask_sync(CONFIRM)
    return f"{first} {ctx.ask_sync(mt.Question.text('why', 'Why?'))}"


def test_sync_tool_asks_under_run_sync(store: ConversationStore) -> None:
    threads: list[str] = []
    person = mt.ScriptedPrompter({"plain.confirm": True, "plain.why": "because"})
    result = mt.Agent(calling("plain"), tools=[plain], store=store).run_sync(
        "Go", prompter=person, deps=threads
    )
    assert tool_results(store, result.conversation) == ["True because"]
    assert threads
    assert threads[0] != threading.current_thread().name


def test_sync_tool_does_not_block_the_event_loop(store: ConversationStore) -> None:
    async def scene() -> None:
        chat = Chat()
        run = asyncio.create_task(
            mt.Agent(calling("plain"), tools=[plain], store=store).run("Go", prompter=chat, deps=[])
        )
        for question, value in (("confirm", True), ("why", "because")):
            await until(lambda question=question: question in chat.waiting)
            chat.says(question, mt.Answered(value))
        assert tool_results(store, (await run).conversation) == ["True because"]

    asyncio.run(scene())


def test_sync_tool_is_suspended_and_answered_later(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = mt.Agent(calling("plain"), tools=[plain], store=store)
        result = await agent.run("Go", deps=[])
        for value in (True, "because"):
            assert result.status == "suspended"
            await agent.store.answer(result.pending[0].id, value)
            result = await agent.resume(result.conversation, deps=[])
        assert tool_results(store, result.conversation) == ["True because"]
        await until(
            lambda: (
                not [thread for thread in threading.enumerate() if thread.name == "midturn-tool"]
            )
        )

    asyncio.run(scene())


def test_sync_tool_is_told_about_cancellation(store: ConversationStore) -> None:
    heard = threading.Event()
    working = threading.Event()

    @mt.tool
    def works(ctx: mt.ToolContext) -> str:
        """Work until cancelled."""
        working.set()
        while not ctx.cancelled:
            heard.wait(0.005)
        heard.set()
        return "never"

    async def scene() -> None:
        run = asyncio.create_task(mt.Agent(calling("works"), tools=[works], store=store).run("Go"))
        await until(working.is_set)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await until(heard.is_set)

    asyncio.run(scene())
    assert store.read_sync(store.ids_sync()[0]).turns[-1].open
