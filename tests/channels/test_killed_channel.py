"""A channel killed at each step of sending and receiving: no answer is lost or invented, and a
card is sent at most twice.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("aiosmtplib")
pytest.importorskip("discord")
pytest.importorskip("imapclient")
pytest.importorskip("nio")
pytest.importorskip("slack_sdk")
pytest.importorskip("telegram")

import midturn as mt
from midturn.stores.store import ConversationStore
from support.channels.killed import KilledChannel
from support.channels.phones import REAL, Phone, act, kinds, missing, on
from support.channels.questions import answers, ask, pair

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of the libraries
EACH = os.environ.get("MIDTURN_KILL_EACH", "")
"""Test every n-th step; fewer on real servers, which are slower. `MIDTURN_KILL_EACH=1` tests
every step.
"""
MOST = 200
FORM = mt.Form(
    [
        mt.Question.boolean("go", "Deploy?"),
        mt.Question.boolean("sure", "Sure?"),
        mt.Question.select("where", "Where?", ["a", "b"]),
    ]
)
MEANT: dict[str, tuple[str, object]] = {
    "Deploy?": ("Yes", True),
    "Sure?": ("no", False),
    "Where?": ("b", "b"),
    "Again?": ("No", False),
}
"""Ana's action for each text, and the resulting answer. Actions in small letters are written,
others are buttons.
"""


@pytest.fixture(scope="module")
def process() -> Iterator[KilledChannel]:
    """The runner of the command."""
    killed = KilledChannel()
    yield killed
    killed.end()


class Ana:
    """Answers each text that she sees once, and again if the answer has no effect for some
    time.
    """

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.did: dict[tuple[str, str], float] = {}

    async def look(self, again_after: float) -> None:
        """React to new cards."""
        now = asyncio.get_running_loop().time()
        for card in self.phone.cards():
            text = next((text for text in MEANT if text in card.text), "")
            if (
                not text
                or not card.is_open
                or now - self.did.get((card.ref, text), -again_after) < again_after
            ):
                continue
            self.did[card.ref, text] = now
            await act(self.phone, card, MEANT[text][0])


async def played(phone: Phone, process: KilledChannel, directory: Path, step: int) -> bool:
    """Run a form and a question; kill the channel at `step` and restart it. Return whether the
    step was reached.
    """
    store = mt.open_store(directory / "store")
    await pair(store, phone.kind, "ana", phone.account)
    environment = _configured(phone, directory)
    waiting = [await ask(store, FORM), await ask(store, mt.Question.boolean("again", "Again?"))]
    words = ["channels", "run", "--store", str(directory / "store")]
    server: Any = getattr(phone, "server", None)
    process.begin(
        step, words, directory, environment, server.address if phone.kind == "discord" else ""
    )
    killed = asyncio.create_task(asyncio.to_thread(process.gone))
    ana = Ana(phone)
    was_killed = False
    while not await _over(store):
        await ana.look(again_after=1.0)
        if killed.done() and not was_killed:
            was_killed = True
            process.begin(
                0, words, directory, environment, server.address if phone.kind == "discord" else ""
            )
            killed = asyncio.create_task(asyncio.to_thread(process.gone))
        await asyncio.sleep(0.01)
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has just reached its step
        was_killed = True
    await killed
    _check(phone, [answer for one in waiting for answer in await answers(store, one)])
    return was_killed


async def _over(store: ConversationStore) -> bool:
    return not await store.pending()


def _check(phone: Phone, found: list[Any]) -> None:
    who = None if phone.kind == "ntfy" else "ana"
    assert found == [(answer, None, who, phone.kind) for _, answer in MEANT.values()]
    assert len(phone.cards()) <= 3  # two cards, one of them twice


def _configured(phone: Phone, directory: Path) -> dict[str, str]:
    config = directory / "config" / "midturn" / "config.toml"
    config.parent.mkdir(parents=True)
    options = phone.options()
    secret = {"token", "app_token", "password"} & options.keys()
    lines = [
        f'{key}_env = "PHONE_{key.upper()}"' if key in secret else f'{key} = "{value}"'
        for key, value in options.items()
    ]
    config.write_text("\n".join(["[channels.phone]", f'kind = "{phone.kind}"', *lines]) + "\n")
    names = {
        "HOME": "home",
        "XDG_CONFIG_HOME": "config",
        "XDG_STATE_HOME": "state",
        "XDG_DATA_HOME": "data",
    }
    return {
        **{name: str(directory / folder) for name, folder in names.items()},
        **{f"PHONE_{key.upper()}": options[key] for key in secret},
    }


@pytest.mark.together
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", kinds())
def test_kill_at_any_step_neither_loses_nor_invents_answers(
    kind: str, process: KilledChannel, tmp_path: Path
) -> None:
    if reason := missing(kind):
        pytest.skip(reason)

    async def scene() -> None:
        tried, each = 0, int(EACH or (20 if kind in REAL else 7))
        for step in range(1, MOST, each):
            async with on(kind) as phone, asyncio.timeout(120):
                directory = tmp_path / str(step)
                directory.mkdir()
                was_killed = await played(phone, process, directory, step)
            if not was_killed:
                break
            tried += 1
        assert tried > 40 // each

    asyncio.run(scene())
