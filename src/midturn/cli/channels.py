"""`midturn channels` and `midturn people`: questions answered where people are, and whose account is whose."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from midturn.channels.kinds import channel_of
from midturn.channels.port import Card, ChannelSettings, Choice
from midturn.channels.state import Ledger
from midturn.cli.command_context import Place, StoreAddress, find_place
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.loading import load_here
from midturn.cli.options import with_json, with_store
from midturn.cli.output import ExitStatus, line, note, say, say_json, table
from midturn.clock import now
from midturn.config.settings import ChannelTable, Settings
from midturn.errors import ConfigError, MidturnError
from midturn.question.people import is_among
from midturn.question.text import is_same_name
from midturn.security.authorization import for_people_only

if TYPE_CHECKING:
    from midturn.channels.port import Channel, ChannelSettings
    from midturn.channels.state import Ledger

channels = lazy_group(
    "channels",
    "Answer questions where you are: over connections that go out from here, without a port or an address of ours.",
    {
        "run": CommandEntry("midturn.cli.channels:run_command", "Carry questions there and answers back, until told to stop."),
        "test": CommandEntry("midturn.cli.channels:test_command", "Ask yourself one question there, and wait for the answer."),
        "ls": CommandEntry("midturn.cli.channels:ls_command", "List the channels that are configured."),
    },
    {"list": "ls"},
)
people = lazy_group(
    "people",
    "Say which accounts on channels are whose.",
    {
        "pair": CommandEntry("midturn.cli.channels:pair_command", "Print a code with which a person pairs an account, once."),
        "ls": CommandEntry("midturn.cli.channels:paired_command", "List the accounts that are paired."),
        "remove": CommandEntry("midturn.cli.channels:remove_command", "Forget the accounts of a person."),
    },
    {"list": "ls", "rm": "remove"},
)


# ----------------------------------------------------------------------------------------------------------------------
# `midturn channels`


@click.command
@click.argument("name", required=False)
@with_store
def run_command(*, name: str | None, store: StoreAddress | None) -> ExitStatus:
    """Carry questions to the channel NAME (without one: to all that are configured) and answers back, until told to stop.

    `midturn serve` does it, too. Several processes may run: one of them carries each channel.
    """
    for_people_only("take answers for one")
    place, settings = find_place(store), load_here().settings
    wanted = [table for table in settings.channels if name in (None, table.name)]
    if not wanted:
        which = f"There is no channel {name!r} in the configuration." if name else "No channel is configured."
        raise ConfigError(f"{which} docs/guides/channels.md says how one is.")
    made = made_channels(wanted, place)
    note("midturn: questions go to {} from now on.", ", ".join(table.name for table in wanted))
    from midturn.channels.running import run

    with suppress(KeyboardInterrupt):
        asyncio.run(run(place.store, made))
    return ExitStatus.DONE


def made_channels(tables: Sequence[ChannelTable], place: Place) -> list[tuple[Channel, ChannelSettings]]:
    """Make the channels that are configured.

    Raises:
        ConfigError: One of them cannot be made.
    """
    where = os.path.basename(place.directory) if place.directory else ""  # noqa: PTH119  a text
    return [
        (
            channel_of(each, os.environ),
            ChannelSettings(name=each.name, asks=each.asks, people=each.people, rooms=each.rooms, where=where),
        )
        for each in tables
    ]


@click.command
@click.argument("name")
@click.option("--person", metavar="NAME", help="Whose account is asked; without it, the only one that is paired there.")
@with_store
def test_command(*, name: str, person: str | None, store: StoreAddress | None) -> ExitStatus:
    """Send one question to your account on the channel NAME, and wait for its answer. Nothing is recorded."""
    for_people_only("take answers for one")
    place, settings = find_place(store), load_here().settings
    (made,) = made_channels([_table(settings, name)], place)
    try:
        answer = asyncio.run(_tried(place, *made, person))
    except KeyboardInterrupt:
        return ExitStatus.ERROR
    note("midturn: the answer came back: {}.", answer)
    return ExitStatus.DONE


async def _tried(place: Place, channel: Channel, settings: ChannelSettings, person: str | None) -> str:
    ledger = _ledger(place)
    paired = [
        pairing
        for pairing in await ledger.pairings()
        if pairing.kind == channel.kind and (person is None or is_same_name(person, pairing.person))
    ]
    if len(paired) != 1:
        who = f"`{person}` has" if person else "It has"
        raise ConfigError(f"{who} {len(paired)} paired accounts on {channel.kind}. `midturn people pair NAME {channel.kind}` adds one.")
    token = secrets.token_urlsafe(16)
    choices = (Choice("It works", token),) if channel.fits.buttons else ()
    card = Card(to=paired[0].account, heading="midturn", text="Does this reach you?", choices=choices, hint="Or reply with a word.")
    await channel.open(await ledger.memory(f"{settings.name}.test"))
    try:
        handle = await channel.send(card)
        note("midturn: sent to {}; waiting for an answer. Ctrl-C leaves.", paired[0].person)
        async for reply in channel.replies():
            if reply.account == paired[0].account and (reply.token == token or reply.text):
                over = Card(to=card.to, heading="", text=card.text, notice="It works.", is_over=True)
                await channel.update(handle, over)
                return "It works" if reply.token else reply.text
    finally:
        await channel.close()
    raise ConfigError("The channel has ended.")


_PATIENCE = 20.0  # seconds for a platform to answer


def reached(tables: Sequence[ChannelTable], place: Place) -> list[tuple[ChannelTable, str, int]]:
    """Return for each channel why it cannot be used now (empty where it can), and how many accounts it can ask."""
    return asyncio.run(_reached(tables, place))


async def _reached(tables: Sequence[ChannelTable], place: Place) -> list[tuple[ChannelTable, str, int]]:
    paired = await _ledger(place).pairings()
    found: list[tuple[ChannelTable, str, int]] = []
    for each in tables:
        accounts = [
            pairing for pairing in paired if pairing.kind == each.kind and is_among(pairing.person, each.people or (pairing.person,))
        ]
        found.append((each, await _problem(each, place), len(accounts) or len(each.rooms)))
    return found


async def _problem(table: ChannelTable, place: Place) -> str:
    try:
        ((channel, settings),) = made_channels([table], place)
        try:
            async with asyncio.timeout(_PATIENCE):
                await channel.open(await _ledger(place).memory(f"{settings.name}.test"))
        finally:
            await channel.close()
    except MidturnError as error:
        return str(error)
    except TimeoutError:
        return f"it did not answer within {_PATIENCE:.0f} seconds"
    return ""


@click.command
@with_json
def ls_command(*, as_json: bool) -> ExitStatus:
    """List the channels that are configured, with what they carry."""
    found = load_here().settings.channels
    if as_json:
        say_json([{key: getattr(each, key) for key in ("name", "kind", "asks", "people", "rooms")} for each in found])
        return ExitStatus.DONE
    for row in table([(line("{}", each.name), line("{}", each.kind), line("{}", _for_whom(each))) for each in found]):
        say(row)
    if not found:
        say("No channel is configured.")
    return ExitStatus.DONE


def _for_whom(channel: ChannelTable) -> str:
    return ", ".join(channel.people or channel.rooms) or "everyone who is paired"


def _table(settings: Settings, name: str) -> ChannelTable:
    found = next((each for each in settings.channels if each.name == name), None)
    if found is None:
        raise ConfigError(f"There is no channel {name!r} in the configuration. `midturn channels ls` lists them.")
    return found


# ----------------------------------------------------------------------------------------------------------------------
# `midturn people`


@click.command
@click.argument("name")
@click.argument("kind")
@with_store
def pair_command(*, name: str, kind: str, store: StoreAddress | None) -> ExitStatus:
    """Print a code for NAME, good once, for five minutes.

    The account that sends it to the channel of this KIND is NAME's from then on.
    """
    for_people_only("answer for others")
    directory = load_here().settings.directory
    if directory.people and not directory.has_person(name):
        raise ConfigError(f"There is no person {name!r} in the configuration: `[people.{name}]`.")
    name = directory.person(name)
    place = find_place(store)
    say("{}", place.run(_ledger(place).code_for(name, kind)))
    note("midturn: send this to the bot from the account that is to be {}, within five minutes; it is good once.", name)
    return ExitStatus.DONE


@click.command
@with_json
@with_store
def paired_command(*, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """List the accounts that are paired, and whose they are."""
    place = find_place(store)
    found = place.run(_ledger(place).pairings())
    if as_json:
        say_json([{"person": each.person, "kind": each.kind, "account": each.account, "at": each.at} for each in found])
        return ExitStatus.DONE
    for row in table([(line("{}", each.person), line("{}", each.kind), line("{}", each.account)) for each in found]):
        say(row)
    if not found:
        say("No account is paired.")
    return ExitStatus.DONE


@click.command
@click.argument("name")
@click.argument("kind", required=False, default="")
@with_store
def remove_command(*, name: str, kind: str, store: StoreAddress | None) -> ExitStatus:
    """Forget the accounts of NAME, on channels of one KIND or of all: they are strangers from now on."""
    for_people_only("answer for others")
    place = find_place(store)
    gone = place.run(_ledger(place).part(name, kind))
    if not gone:
        raise ConfigError(f"No account of {name!r} is paired. `midturn people ls` lists those that are.")
    note("midturn: {} of {} forgotten.", "1 account" if len(gone) == 1 else f"{len(gone)} accounts", name)
    return ExitStatus.DONE


def _ledger(place: Place) -> Ledger:
    return Ledger(place.port, now)
