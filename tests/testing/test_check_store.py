"""`check_store` passes for a correct store and names each violated requirement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.stores.locked import LockedConversation
from midturn.stores.memory_conversations import MemoryConversations
from midturn.stores.metadata import Metadata
from midturn.stores.port import LockedBy, MayGo, Which
from midturn.stores.queued_answer import QueuedAnswer
from midturn.stores.store import ConversationStore
from midturn.testing import check_store, check_store_sync


def test_the_file_store_passes(tmp_path: Path) -> None:
    check_store_sync(lambda: mt.open_store(tmp_path / "conversations"))


def test_the_memory_store_passes() -> None:
    store = mt.MemoryStore()
    asyncio.run(check_store(lambda: store))


class _ReversedIds(MemoryConversations):
    async def ids(
        self, *, after: str | None = None, limit: int | None = None, which: Which = "all"
    ) -> list[str]:
        return [*reversed(await super().ids(after=after, limit=limit, which=which))]


class _AcceptsSecondAnswer(MemoryConversations):
    async def queue_answer(self, held: LockedBy, answer: QueuedAnswer) -> bool:
        return bool(await super().queue_answer(held, answer)) or True


class _DropsLastLine(MemoryConversations):
    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        return await super().add([*lines][:-1], metadata, id)


class _KeepsRemoved(MemoryConversations):
    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        (await super().open(id)).close()
        return may_go is None


class _NothingReady(MemoryConversations):
    async def ids(
        self, *, after: str | None = None, limit: int | None = None, which: Which = "all"
    ) -> list[str]:
        return [] if which == "ready" else await super().ids(after=after, limit=limit, which=which)


class _ClaimsTwice(ConversationStore):
    async def claim(self, limit: int = 1) -> Sequence[LockedConversation]:
        return [journal for journal in await super().claim(limit) for _ in range(2)]


def _store_of(
    port: type[MemoryConversations], store: Callable[[Any], ConversationStore] = ConversationStore
) -> ConversationStore:
    return store(port())


@pytest.mark.parametrize(
    ("store", "requirement"),
    [
        (_store_of(_ReversedIds), "ids are sorted by age"),
        (_store_of(_AcceptsSecondAnswer), "a second queued answer is rejected"),
        (_store_of(_DropsLastLine), "a fork has the same log lines"),
        (_store_of(_KeepsRemoved), "a removed conversation cannot be read"),
        (_store_of(_NothingReady), "a turn is ready after its question was answered"),
        (_store_of(MemoryConversations, _ClaimsTwice), "a ready turn is claimed only once"),
    ],
)
def test_violated_requirements_are_named(store: ConversationStore, requirement: str) -> None:
    with pytest.raises(AssertionError) as failed:
        check_store_sync(lambda: store)
    assert str(failed.value).startswith(
        f"The store does not meet this requirement: {requirement}. Expected "
    )


def test_a_store_with_a_separate_state_per_connection_fails() -> None:
    with pytest.raises(AssertionError, match="an open question is visible to other connections"):
        check_store_sync(mt.MemoryStore)
