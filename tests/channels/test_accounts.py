"""The owner of an account on a channel, with different spellings of account and owner."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.channels.state import ChannelState
from midturn.clock import now


@pytest.mark.parametrize(
    "account",
    ["ana@example.org", "Ana@Example.ORG", "ana@example.org\u00a0", "a\u200bna@example.org"],
)
def test_account_spellings_belong_to_one_person(account: str) -> None:
    async def scene() -> None:
        ledger = ChannelState(mt.MemoryStore().port, now)
        await ledger.redeem_code(
            "email", "ana@example.org", await ledger.create_code("ana", "email")
        )
        assert await ledger.person_of("email", account) == "ana"
        assert await ledger.person_of("telegram", account) == ""

    asyncio.run(scene())


@pytest.mark.parametrize(
    "account", ["", "\u200b", "ana@example.org\n", "ana\x00@example.org", "other@example.org"]
)
def test_unknown_and_invalid_accounts_belong_to_nobody(account: str) -> None:
    async def scene() -> None:
        ledger = ChannelState(mt.MemoryStore().port, now)
        await ledger.redeem_code(
            "email", "ana@example.org", await ledger.create_code("ana", "email")
        )
        assert await ledger.person_of("email", account) == ""

    asyncio.run(scene())


def test_pairing_another_spelling_replaces_the_pairing() -> None:
    async def scene() -> None:
        ledger = ChannelState(mt.MemoryStore().port, now)
        await ledger.redeem_code(
            "email", "ana@example.org", await ledger.create_code("ana", "email")
        )
        await ledger.redeem_code(
            "email", "ANA@example.org", await ledger.create_code("bo", "email")
        )
        assert [(each.account, each.person) for each in await ledger.pairings()] == [
            ("ANA@example.org", "bo")
        ]
        assert len(await ledger.unpair("BO")) == 1
        assert await ledger.pairings() == []

    asyncio.run(scene())
