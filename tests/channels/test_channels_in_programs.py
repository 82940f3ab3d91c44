"""Channels in a program: the public names, and the two lines that run them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from contextlib import suppress

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("telegram")

import midturn as mt
from midturn.channels.kinds import make_channel
from midturn.config.settings import ChannelTable
from midturn.extras import install_command
from midturn.stores.store import ConversationStore
from support.channels.phones import on
from support.channels.questions import answered, ask

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of the libraries
GO = mt.Question.boolean("go", "Deploy to production?")


@pytest.mark.parametrize("name", mt.channels.__all__)
def test_public_names_are_exported(name: str) -> None:
    assert getattr(mt.channels, name).__module__.startswith("midturn.channels.")


def test_unknown_names_are_reported() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Pigeon'"):
        _ = mt.channels.Pigeon


def test_channel_loads_only_its_own_library() -> None:
    loaded = "print({'telegram', 'discord', 'slack_sdk', 'nio'} & sys.modules.keys())"
    said = f"import sys, midturn as mt; mt.channels.run; {loaded}; mt.channels.Telegram; {loaded}"
    printed = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == ["set()", "{'telegram'}"]


LIBRARIES = {
    "Discord": ("discord", f"Discord needs the extra `discord`: {install_command('discord')}"),
    "Email": ("imapclient", f"E-mail needs the extra `email`: {install_command('email')}"),
    "Matrix": ("nio", f"Matrix needs the extra `matrix`: {install_command('matrix')}"),
    "Ntfy": ("aiohttp", f"ntfy needs the extra `ntfy`: {install_command('ntfy')}"),
    "Slack": ("slack_sdk.errors", f"Slack needs the extra `slack`: {install_command('slack')}"),
    "Telegram": ("telegram", f"Telegram needs the extra `telegram`: {install_command('telegram')}"),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_channel_without_its_library_names_the_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, said = LIBRARIES[name]
    monkeypatch.delitem(sys.modules, f"midturn.channels.{name.lower()}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(mt.ConfigError, match=re.escape(said)):
        getattr(mt.channels, name)
    with pytest.raises(mt.ConfigError, match=re.escape(said)):
        make_channel(ChannelTable(name="ours", kind=name.lower()), {})


def test_person_pairs_and_answers_with_a_channel_in_a_program(store: ConversationStore) -> None:
    async def scene() -> None:
        async with asyncio.timeout(120), on("telegram") as phone:
            question = await ask(store, GO)
            running = asyncio.create_task(mt.channels.run(store, [phone.channel()]))
            await phone.write(await mt.channels.pairing_code(store, "ana", "telegram"))
            while not phone.cards():  # noqa: ASYNC110  a server has no event for it
                await asyncio.sleep(0.005)
            await phone.press(phone.cards()[0].ref, "Yes")
            assert await answered(store, question) == (True, None, "ana", "telegram")
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(scene())


def test_channels_have_unique_names(store: ConversationStore) -> None:
    channels = [mt.channels.Telegram("1:a"), mt.channels.Telegram("2:b")]
    with pytest.raises(mt.ConfigError, match="Two channels are named 'telegram'"):
        asyncio.run(mt.channels.run(store, channels))
