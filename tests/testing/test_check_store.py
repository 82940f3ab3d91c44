"""`check_store` passes what every store does, and names what one does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.stores.locked import HeldConversation
from midturn.stores.memory_conversations import MemoryConversations
from midturn.stores.metadata import Metadata
from midturn.stores.port import HeldBy, MayGo, Which
from midturn.stores.queued_answer import HandedOver
from midturn.stores.store import ConversationStore
from midturn.testing import check_store, check_store_sync


def test_files_are_a_store(tmp_path: Path) -> None:
    check_store_sync(lambda: mt.open_store(tmp_path / "conversations"))


def test_memory_is_a_store() -> None:
    store = mt.MemoryStore()
    asyncio.run(check_store(lambda: store))


class _Backwards(MemoryConversations):
    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        return [*reversed(await super().ids(after=after, limit=limit, which=which))]


class _Forgetful(MemoryConversations):
    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        return bool(await super().hand_over(held, answer)) or True


class _Short(MemoryConversations):
    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        return await super().add([*lines][:-1], metadata, id)


class _Keeping(MemoryConversations):
    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        (await super().open(id)).close()
        return may_go is None


class _Late(MemoryConversations):
    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        return [] if which == "ready" else await super().ids(after=after, limit=limit, which=which)


class _Generous(ConversationStore):
    async def claim(self, limit: int = 1) -> Sequence[HeldConversation]:
        return [journal for journal in await super().claim(limit) for _ in range(2)]


def _of(port: type[MemoryConversations], store: Callable[[Any], ConversationStore] = ConversationStore) -> ConversationStore:
    return store(port())


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (_of(_Backwards), "ids are listed by age"),
        (_of(_Forgetful), "the first answer that is handed over counts"),
        (_of(_Short), "a fork has the same lines"),
        (_of(_Keeping), "what is removed is gone"),
        (_of(_Late), "a turn whose question was answered is ready"),
        (_of(MemoryConversations, _Generous), "what is due is claimed once"),
    ],
)
def test_what_does_not_hold_is_named(store: ConversationStore, said: str) -> None:
    with pytest.raises(AssertionError) as failed:
        check_store_sync(lambda: store)
    assert str(failed.value).startswith(f"The store does not hold to this: {said}. Expected ")


def test_a_place_that_every_opening_sees_anew_is_no_store() -> None:
    with pytest.raises(AssertionError, match="an open question is listed wherever the place is opened"):
        check_store_sync(mt.MemoryStore)
