"""Ask questions in a store on which a real channel runs, and read the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import midturn as mt
from midturn.channels.port import Channel, ChannelSettings
from midturn.channels.running import run
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.events.types import InquiryAnswered
from midturn.stores.store import ConversationStore
from support.pages import agent_with, asking, asking_form

Answer = tuple[object, str | None, str | None, str | None]


async def ask(store: ConversationStore, question: mt.Question[Any] | mt.Form) -> mt.OpenQuestion:
    """Ask `question` from a tool; return the open question."""
    tool = asking_form(question) if isinstance(question, mt.Form) else asking(question)
    return (await agent_with(store, tool).run("Ship it.")).pending[0]


async def pair(store: ConversationStore, kind: str, person: str, account: str) -> None:
    """Pair an account of a person."""
    ledger = ChannelState(store.port, now)
    assert await ledger.redeem_code(kind, account, await ledger.create_code(person, kind))


async def answers(store: ConversationStore, question: mt.OpenQuestion) -> list[Answer]:
    """Return each recorded answer: value, reason, responder, interface."""
    events = (await store.read(question.conversation)).events
    said = [event for event in events if isinstance(event, InquiryAnswered)]
    return [
        (
            one.answer,
            one.reason,
            one.answered_by and one.answered_by.user,
            one.answered_by and one.answered_by.via,
        )
        for one in said
    ]


async def answered(store: ConversationStore, question: mt.OpenQuestion) -> Answer:
    """Wait for an answer."""
    while not (found := await answers(store, question)):  # noqa: ASYNC110  a store of another process has no event
        await asyncio.sleep(0.005)
    return found[-1]


@asynccontextmanager
async def running(
    store: ConversationStore, channel: Channel, **settings: Any
) -> AsyncGenerator[None]:
    """Run a channel on `store`."""
    task = asyncio.create_task(
        run(store, [(channel, ChannelSettings(name="real", where="shop", **settings))])
    )
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
