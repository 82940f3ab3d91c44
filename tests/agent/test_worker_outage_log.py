"""Log messages of a worker about a store that is unavailable for a while: one when the outage
begins, one when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import midturn as mt
from midturn.agent import worker
from midturn.errors import StoreAway, StoreError
from midturn.stores.locked import LockedConversation


class Failing(mt.MemoryStore):
    """A store whose third to ninth claims fail."""

    def __init__(self, error: StoreError) -> None:
        super().__init__()
        self.error = error
        self.claims = 0

    async def claim(self, limit: int = 1) -> Sequence[LockedConversation]:
        self.claims += 1
        if 3 <= self.claims < 10:
            raise self.error
        return await super().claim(limit)


def worked(store: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_RETRY_DELAY", 0.0)

    async def scene() -> None:
        working = asyncio.create_task(mt.Agent(mt.ScriptedModel([]), store=store).work())
        while store.claims < 12:  # noqa: ASYNC110  the worker is another task
            await asyncio.sleep(0.001)
        working.cancel()

    asyncio.run(scene())


def test_store_outage_is_two_log_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worked(Failing(StoreError("The disk cannot be read.")), monkeypatch)

    began, over = (record.getMessage() for record in caplog.records)
    assert began == "conversations cannot be claimed: The disk cannot be read."
    assert over.startswith("turns can be claimed again, after ")


def test_outage_logged_by_the_store_is_not_logged_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worked(Failing(StoreAway("The database cannot be reached.")), monkeypatch)

    assert caplog.records == []
