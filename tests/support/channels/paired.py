"""Check at the end of a test that every answer recorded from a channel was given by a paired
person.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from midturn.channels.state import ChannelState, Pairing
from midturn.stores.store import ConversationStore
from support.channels.phones import OURS, REAL

_KINDS = {*OURS, *REAL, "fake"}
Paired = set[tuple[str, str]]
"""By kind of channel, the person of each account that was paired at some time."""


def unpaired(events: list[dict[str, Any]], paired: Paired) -> list[str]:
    """Return the answers from a channel whose responder was never paired there.

    ntfy has no user names. There, at least one person must have been paired.
    """
    return [str(event) for event in events if not _is_of_a_paired_person(event, paired)]


def _is_of_a_paired_person(event: dict[str, Any], paired: Paired) -> bool:
    by: dict[str, Any] = event.get("answered_by") or {}
    kind, user = by.get("via"), by.get("user")
    if kind not in _KINDS:
        return True
    return by.get("by") == "user" and (
        (kind, user) in paired if user else kind == "ntfy" and any(one == kind for one, _ in paired)
    )


@pytest.fixture(autouse=True)
def only_paired_people_have_answered(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Check the stores after the test, including pairings that were removed again."""
    paired: Paired = set()
    make = ChannelState.redeem_code

    async def noted(ledger: ChannelState, kind: str, account: str, typed: str) -> Pairing | None:
        pairing = await make(ledger, kind, account, typed)
        if pairing is not None:
            paired.add((pairing.kind, pairing.person))
        return pairing

    monkeypatch.setattr(ChannelState, "redeem_code", noted)
    given = request.getfixturevalue("store") if "store" in request.fixturenames else None
    yield
    paired |= {(str(one["kind"]), str(one["person"])) for one in _pairings(tmp_path)}
    events = [event for file in sorted(tmp_path.rglob("events.jsonl")) for event in _read(file)]
    if isinstance(given, ConversationStore):
        events += asyncio.run(_recorded(given))
    assert unpaired(events, paired) == []


def _pairings(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the pairings that other processes wrote."""
    for file in folder.rglob("beside/*"):
        if unquote(file.name).startswith("pairing/"):
            yield json.loads(file.read_bytes())


def _read(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


async def _recorded(store: ConversationStore) -> list[dict[str, Any]]:
    return [event.to_json() for id in await store.ids() for event in (await store.read(id)).events]
