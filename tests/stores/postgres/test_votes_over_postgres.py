"""Votes and notes over PostgreSQL, recorded directly and through the answer queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import midturn as mt
from midturn.errors import NotAllowed
from midturn.events.types import InquiryAnswered, Reassigned, Reminded, Vote
from midturn.stores.opening import open_store
from midturn.stores.store import ConversationStore, record_notice
from support.ntfy import Ntfy, check_two_notifying_servers

pytestmark = pytest.mark.real("PostgreSQL")
OPS = mt.People(
    ask=["ops"], only=True, approvals=2, remind_after=60, members={"ops": ["ana", "bo", "carl"]}
)


@mt.tool
async def ship(ctx: mt.ToolContext) -> str:
    """Ship it."""
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?", people=OPS)))


@pytest.fixture
def asked(url: str) -> tuple[ConversationStore, str, str]:
    """Return a store with an open question for certain people, the conversation ID and the
    question ID.
    """
    store = open_store(url)
    model = mt.ScriptedModel([{"calls": [{"name": "ship"}]}, {"text": "Done."}])
    result = mt.Agent(model=model, tools=[ship], store=store).run_sync("Ship it")
    return store, result.conversation, result.pending[0].id


def test_votes_complete_the_answer(asked: tuple[ConversationStore, str, str]) -> None:
    store, conversation, id = asked
    assert store.answer_sync(id, True, user="ana").votes == "1 of 2"
    with pytest.raises(NotAllowed):
        store.answer_sync(id, True, user="ana")
    assert store.ready_sync() == []
    store.answer_sync(id, True, user="bo")
    assert store.ready_sync() == [conversation]


def test_queued_votes_are_recorded_once_each(asked: tuple[ConversationStore, str, str]) -> None:
    store, conversation, id = asked

    async def told() -> None:
        async with await store.open(conversation) as held:
            await asyncio.gather(
                store.answer(id, True, user="ana"), store.reassign(id, ["bo"], user="carl")
            )
            await record_notice(store, id, Reminded(id="", number=1, to=("ops",)))
            with pytest.raises(NotAllowed):
                await record_notice(store, id, Reminded(id="", number=1, to=("ops",)))
            assert len(await held.answers.collect()) == 3
        assert not (await store.port.look(conversation)).turn.handed
        await store.answer(id, True, user="bo")

    asyncio.run(told())
    kinds = [type(event) for event in store.read_sync(conversation).events]
    assert [kinds.count(kind) for kind in (Vote, Reassigned, Reminded, InquiryAnswered)] == [
        2,
        1,
        1,
        1,
    ]


def test_two_servers_send_each_notice_once(url: str, tmp_path: Path) -> None:
    ntfy = Ntfy()
    try:
        check_two_notifying_servers(open_store(url), url, tmp_path, ntfy)
    finally:
        ntfy.close()
