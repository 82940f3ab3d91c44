"""What a worker says of a store that cannot be read for a while: that it begins, and that it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import midturn as mt
from midturn.agent import worker
from midturn.errors import StoreAway, StoreError
from midturn.stores.locked import HeldConversation


class Failing(mt.MemoryStore):
    """A store that fails for some claims."""

    def __init__(self, error: StoreError) -> None:
        super().__init__()
        self.error = error
        self.claims = 0

    async def claim(self, limit: int = 1) -> Sequence[HeldConversation]:
        """Fail from the third claim to the ninth."""
        self.claims += 1
        if 3 <= self.claims < 10:
            raise self.error
        return await super().claim(limit)


def worked(store: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 0.0)

    async def scene() -> None:
        working = asyncio.create_task(mt.Agent(mt.ScriptedModel([]), store=store).work())
        while store.claims < 12:  # noqa: ASYNC110  the worker is another task
            await asyncio.sleep(0.001)
        working.cancel()

    asyncio.run(scene())


def test_a_store_that_fails_for_a_while_is_two_lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    worked(Failing(StoreError("The disk cannot be read.")), monkeypatch)

    began, over = (record.getMessage() for record in caplog.records)
    assert began == "nothing can be claimed for now: The disk cannot be read."
    assert over.startswith("turns can be claimed again, after ")


def test_what_the_store_has_said_itself_is_not_said_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    worked(Failing(StoreAway("The database cannot be reached.")), monkeypatch)

    assert caplog.records == []
