"""Accounts on channels: whose they are, however they and their owners are spelled."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.channels.state import Ledger
from midturn.clock import now


@pytest.mark.parametrize("account", ["ana@example.org", "Ana@Example.ORG", "ana@example.org\u00a0", "a\u200bna@example.org"])
def test_an_account_is_its_persons_however_it_is_spelled(account: str) -> None:
    async def scene() -> None:
        ledger = Ledger(mt.MemoryStore().port, now)
        await ledger.paired("email", "ana@example.org", await ledger.code_for("ana", "email"))
        assert await ledger.person("email", account) == "ana"
        assert await ledger.person("telegram", account) == ""

    asyncio.run(scene())


@pytest.mark.parametrize("account", ["", "\u200b", "ana@example.org\n", "ana\x00@example.org", "other@example.org"])
def test_another_account_or_one_that_is_no_name_is_nobodys(account: str) -> None:
    async def scene() -> None:
        ledger = Ledger(mt.MemoryStore().port, now)
        await ledger.paired("email", "ana@example.org", await ledger.code_for("ana", "email"))
        assert await ledger.person("email", account) == ""

    asyncio.run(scene())


def test_pairing_another_spelling_replaces_the_pairing() -> None:
    async def scene() -> None:
        ledger = Ledger(mt.MemoryStore().port, now)
        await ledger.paired("email", "ana@example.org", await ledger.code_for("ana", "email"))
        await ledger.paired("email", "ANA@example.org", await ledger.code_for("bo", "email"))
        assert [(each.account, each.person) for each in await ledger.pairings()] == [("ANA@example.org", "bo")]
        assert len(await ledger.part("BO")) == 1
        assert await ledger.pairings() == []

    asyncio.run(scene())
