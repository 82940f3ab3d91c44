"""Channels in a program: what is public, and two lines that run them."""

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
from midturn.channels.kinds import channel_of
from midturn.config.settings import ChannelTable
from midturn.extras import install_command
from midturn.stores.store import ConversationStore
from support.channels.asked import answered, ask
from support.channels.phones import on

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own
GO = mt.Question.boolean("go", "Deploy to production?")


@pytest.mark.parametrize("name", mt.channels.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(mt.channels, name).__module__.startswith("midturn.channels.")


def test_a_name_that_is_none_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Pigeon'"):
        _ = mt.channels.Pigeon  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownVariableType,reportUnknownMemberType]


def test_naming_a_channel_loads_the_library_of_no_other() -> None:
    loaded = "print({'telegram', 'discord', 'slack_sdk', 'nio'} & sys.modules.keys())"
    said = f"import sys, midturn as mt; mt.channels.run; {loaded}; mt.channels.Telegram; {loaded}"
    printed = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True).stdout
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
def test_a_channel_without_its_library_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, said = LIBRARIES[name]
    monkeypatch.delitem(sys.modules, f"midturn.channels.{name.lower()}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(mt.ConfigError, match=re.escape(said)):
        getattr(mt.channels, name)
    with pytest.raises(mt.ConfigError, match=re.escape(said)):
        channel_of(ChannelTable(name="ours", kind=name.lower()), {})


def test_a_person_pairs_and_answers_where_a_program_runs_a_channel(store: ConversationStore) -> None:
    async def scene() -> None:
        async with asyncio.timeout(60), on("telegram") as phone:
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


def test_two_channels_have_two_names(store: ConversationStore) -> None:
    channels = [mt.channels.Telegram("1:a"), mt.channels.Telegram("2:b")]
    with pytest.raises(mt.ConfigError, match="Two channels are named 'telegram'"):
        asyncio.run(mt.channels.run(store, channels))
