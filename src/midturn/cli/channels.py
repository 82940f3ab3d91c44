"""`midturn channels` and `midturn people`: run channels, and manage the chat accounts of people."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from midturn.channels.kinds import make_channel
from midturn.channels.port import Card, ChannelSettings, Choice
from midturn.channels.state import ChannelState
from midturn.cli.command_context import CommandContext, StoreAddress, find_place
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.loading import load_here
from midturn.cli.options import with_json, with_log_format, with_store
from midturn.cli.output import ExitStatus, line, note, say, say_json, table
from midturn.clock import now
from midturn.config.settings import ChannelTable, Settings
from midturn.errors import ConfigError, MidturnError
from midturn.question.people import is_among
from midturn.question.text import is_same_name
from midturn.security.authorization import require_human

if TYPE_CHECKING:
    from midturn.channels.port import Channel, ChannelSettings
    from midturn.channels.state import ChannelState

channels = lazy_group(
    "channels",
    "Send questions to chat and e-mail, and receive answers (Telegram, Slack, Discord, Matrix,"
    " ntfy, e-mail)",
    {
        "run": CommandEntry("midturn.cli.channels:run_command", "Run a channel, or all of them"),
        "test": CommandEntry(
            "midturn.cli.channels:test_command", "Send a test question to your account"
        ),
        "ls": CommandEntry("midturn.cli.channels:ls_command", "List the configured channels"),
    },
    {"list": "ls"},
)
people = lazy_group(
    "people",
    "Manage the chat accounts of people",
    {
        "pair": CommandEntry(
            "midturn.cli.channels:pair_command", "Print a code to pair an account with a person"
        ),
        "ls": CommandEntry("midturn.cli.channels:paired_command", "List paired accounts"),
        "remove": CommandEntry(
            "midturn.cli.channels:remove_command", "Remove the paired accounts of a person"
        ),
    },
    {"list": "ls", "rm": "remove"},
)


# --------------------------------------------------------------------------------------------------
# `midturn channels`


@click.command
@click.argument("name", required=False)
@with_log_format
@with_store
def run_command(*, name: str | None, store: StoreAddress | None) -> ExitStatus:
    """Run the channel NAME, or all configured channels, until stopped

    `midturn serve` also does this. If several processes run, each channel is served by one of them.
    """
    require_human("accept answers")
    place, settings = find_place(store), load_here().settings
    wanted = [table for table in settings.channels if name in (None, table.name)]
    if not wanted:
        which = (
            f"No channel is named {name!r} in the configuration."
            if name
            else "No channel is configured."
        )
        raise ConfigError(f"{which} See docs/channels/index.md.")
    made = made_channels(wanted, place)
    note(
        "midturn: sending questions to {}. Press Ctrl-C to stop.",
        ", ".join(table.name for table in wanted),
    )
    from midturn.channels.running import run

    with suppress(KeyboardInterrupt):
        asyncio.run(run(place.store, made))
    return ExitStatus.DONE


def made_channels(
    tables: Sequence[ChannelTable], place: CommandContext
) -> list[tuple[Channel, ChannelSettings]]:
    """Create the configured channels.

    Raises:
        ConfigError: A channel cannot be created.
    """
    where = os.path.basename(place.directory) if place.directory else ""  # noqa: PTH119  faster than pathlib
    return [
        (
            make_channel(table, os.environ),
            ChannelSettings(
                name=table.name,
                asks=table.asks,
                people=table.people,
                rooms=table.rooms,
                where=where,
            ),
        )
        for table in tables
    ]


@click.command
@click.argument("name")
@click.option("--person", metavar="NAME", help="Person to ask (default: the only paired one)")
@with_store
def test_command(*, name: str, person: str | None, store: StoreAddress | None) -> ExitStatus:
    """Send a test question to your account on channel NAME and wait for the answer. Nothing is
    recorded.
    """
    require_human("accept answers")
    place, settings = find_place(store), load_here().settings
    (made,) = made_channels([_table(settings, name)], place)
    try:
        answer = asyncio.run(_ask_test_question(place, *made, person))
    except KeyboardInterrupt:
        return ExitStatus.ERROR
    note("midturn: received the answer: {}.", answer)
    return ExitStatus.DONE


async def _ask_test_question(
    place: CommandContext, channel: Channel, settings: ChannelSettings, person: str | None
) -> str:
    state = _state(place)
    paired = [
        pairing
        for pairing in await state.pairings()
        if pairing.kind == channel.kind and (person is None or is_same_name(person, pairing.person))
    ]
    if len(paired) != 1:
        owner = f"{person!r} has" if person else "There are"
        raise ConfigError(
            f"{owner} {len(paired)} paired accounts on {channel.kind}, expected one. To pair one:"
            f" `midturn people pair NAME {channel.kind}`"
        )
    token = secrets.token_urlsafe(16)
    choices = (Choice("It works", token),) if channel.fits.buttons else ()
    card = Card(
        to=paired[0].account,
        heading="midturn",
        text="Does this reach you?",
        choices=choices,
        hint="Or reply with a word.",
    )
    await channel.open(await state.memory(f"{settings.name}.test"))
    try:
        handle = await channel.send(card)
        note("midturn: sent to {}. Waiting for the answer; press Ctrl-C to stop.", paired[0].person)
        async for reply in channel.replies():
            if reply.account == paired[0].account and (reply.token == token or reply.text):
                over = Card(
                    to=card.to, heading="", text=card.text, notice="It works.", is_over=True
                )
                await channel.update(handle, over)
                return "It works" if reply.token else reply.text
    finally:
        await channel.close()
    raise ConfigError("The channel was closed.")


_TIMEOUT = 20.0  # seconds within which a platform must respond


def check_channels(
    tables: Sequence[ChannelTable], place: CommandContext
) -> list[tuple[ChannelTable, str, int]]:
    """Return each channel with its problem and its number of accounts that can be asked.

    The problem is empty if the channel works. The accounts are the paired accounts, or else the
    configured rooms.
    """
    return asyncio.run(_check_channels(tables, place))


async def _check_channels(
    tables: Sequence[ChannelTable], place: CommandContext
) -> list[tuple[ChannelTable, str, int]]:
    paired = await _state(place).pairings()
    found: list[tuple[ChannelTable, str, int]] = []
    for channel in tables:
        accounts = [
            pairing
            for pairing in paired
            if pairing.kind == channel.kind
            and is_among(pairing.person, channel.people or (pairing.person,))
        ]
        found.append((channel, await _problem(channel, place), len(accounts) or len(channel.rooms)))
    return found


async def _problem(table: ChannelTable, place: CommandContext) -> str:
    try:
        ((channel, settings),) = made_channels([table], place)
        try:
            async with asyncio.timeout(_TIMEOUT):
                await channel.open(await _state(place).memory(f"{settings.name}.test"))
        finally:
            await channel.close()
    except MidturnError as error:
        return str(error)
    except TimeoutError:
        return f"no response within {_TIMEOUT:.0f} seconds"
    return ""


@click.command
@with_json
def ls_command(*, as_json: bool) -> ExitStatus:
    """List the configured channels"""
    found = load_here().settings.channels
    if as_json:
        say_json(
            [
                {key: getattr(channel, key) for key in ("name", "kind", "asks", "people", "rooms")}
                for channel in found
            ]
        )
        return ExitStatus.DONE
    for row in table(
        [
            (line("{}", channel.name), line("{}", channel.kind), line("{}", _recipients(channel)))
            for channel in found
        ]
    ):
        say(row)
    if not found:
        say("No channel is configured.")
    return ExitStatus.DONE


def _recipients(channel: ChannelTable) -> str:
    return ", ".join(channel.people or channel.rooms) or "all paired people"


def _table(settings: Settings, name: str) -> ChannelTable:
    found = next((channel for channel in settings.channels if channel.name == name), None)
    if found is None:
        raise ConfigError(
            f"No channel is named {name!r} in the configuration. Run `midturn channels ls` to list"
            " channels."
        )
    return found


# --------------------------------------------------------------------------------------------------
# `midturn people`


@click.command
@click.argument("name")
@click.argument("kind")
@with_store
def pair_command(*, name: str, kind: str, store: StoreAddress | None) -> ExitStatus:
    """Print a pairing code for NAME

    Send it from the account to pair. The code works once, for five minutes. KIND is a channel type,
    such as slack.
    """
    require_human("manage chat accounts")
    directory = load_here().settings.directory
    if directory.people and not directory.has_person(name):
        raise ConfigError(
            f"No person is named {name!r} in the configuration. To add one: `[people.{name}]`"
        )
    name = directory.person(name)
    place = find_place(store)
    say("{}", place.run(_state(place).create_code(name, kind)))
    note(
        "midturn: send this code to the bot from the account of {} within five minutes. It works"
        " once.",
        name,
    )
    return ExitStatus.DONE


@click.command
@with_json
@with_store
def paired_command(*, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """List paired accounts"""
    place = find_place(store)
    found = place.run(_state(place).pairings())
    if as_json:
        say_json(
            [
                {
                    "person": pairing.person,
                    "kind": pairing.kind,
                    "account": pairing.account,
                    "at": pairing.at,
                }
                for pairing in found
            ]
        )
        return ExitStatus.DONE
    for row in table(
        [
            (line("{}", pairing.person), line("{}", pairing.kind), line("{}", pairing.account))
            for pairing in found
        ]
    ):
        say(row)
    if not found:
        say("There are no paired accounts.")
    return ExitStatus.DONE


@click.command
@click.argument("name")
@click.argument("kind", required=False, default="")
@with_store
def remove_command(*, name: str, kind: str, store: StoreAddress | None) -> ExitStatus:
    """Remove the paired accounts of NAME

    KIND is a channel type. Without it, the accounts on all channels are removed.
    """
    require_human("manage chat accounts")
    place = find_place(store)
    removed = place.run(_state(place).unpair(name, kind))
    if not removed:
        raise ConfigError(
            f"No account of {name!r} is paired. Run `midturn people ls` to list paired accounts."
        )
    note(
        "midturn: removed {} of {}.",
        "1 account" if len(removed) == 1 else f"{len(removed)} accounts",
        name,
    )
    return ExitStatus.DONE


def _state(place: CommandContext) -> ChannelState:
    return ChannelState(place.port, now)
