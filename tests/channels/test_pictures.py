"""The pictures of cards in the documents show cards as our servers received them.
`UPDATE_DOCUMENTS=1` draws them again.
"""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("discord")
pytest.importorskip("slack_sdk")
pytest.importorskip("telegram")

import midturn as mt
from midturn.stores.memory_conversations import MemoryStore
from support.channels.invalid_replies import card
from support.channels.phones import Shown, act, kinds, missing, on
from support.channels.pictures import draw_cards
from support.channels.questions import pair, running
from support.documents import ROOT, is_updating
from support.pages import agent_with
from support.waiting import until

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]  # warnings of the libraries
NAMES = {
    "telegram": "Telegram",
    "slack": "Slack",
    "discord": "Discord",
    "ntfy": "ntfy",
    "email": "e-mail",
    "matrix": "Matrix",
}


@mt.tool(run="ask")
def deploy(version: str, target: str) -> str:
    """Deploy."""
    return f"{version} is on {target}"


async def _cards(kind: str) -> list[Shown]:
    """Return an open card and the same card after the answer."""
    store = MemoryStore()
    async with on(kind) as phone, asyncio.timeout(120):
        await pair(store, kind, "ana", phone.account)
        await agent_with(store, deploy, arguments={"version": "2.4", "target": "production"}).run(
            "Ship it."
        )
        async with running(store, phone.channel()):
            await phone.listening()
            asks = await card(phone)
            await act(phone, asks, "Allow" if asks.buttons else "yes")
            await until(lambda: not any(one.is_open for one in phone.cards()))
            return [asks, *phone.cards()]


@pytest.mark.parametrize("kind", kinds())
def test_picture_shows_the_card(kind: str) -> None:
    if reason := missing(kind):
        pytest.skip(reason)
    picture = ROOT / "docs" / "images" / f"card-{kind}.svg"
    now = draw_cards(
        asyncio.run(_cards(kind)), f"A card by {NAMES[kind]}: before it is answered, and after"
    )
    if is_updating():
        picture.write_text(now, encoding="utf-8")
    assert picture.read_text(encoding="utf-8") == now
