"""`midturn hook opencode`: what an opencode server asks waits in the inbox, too, as long as this runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from urllib.parse import urlsplit

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_store
from midturn.cli.output import note
from midturn.cli.place import StoreAddress, environment, place_in
from midturn.cli.signals import with_signals
from midturn.clock import SYSTEM
from midturn.core.asker import Asker
from midturn.foreign.errands import Errands
from midturn.foreign.opencode import NAME, Bridge, OpencodeServer, password_of
from midturn.foreign.room import Room
from midturn.store.processes import mark


@click.command("opencode")
@click.option("--url", default="http://127.0.0.1:4096", show_default=True, metavar="URL", help="Where opencode's server is.")
@with_store
def command(*, url: str, store: StoreAddress | None) -> ExitStatus:
    """Carry what opencode asks to the inbox, until Ctrl-C. Its own dialog stays open; the first answer counts."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.UsageError(f"`--url {url}` is not the address of a server, such as http://127.0.0.1:4096.")
    place = place_in(Path.cwd(), store)
    room = Room()

    def errands(session: str) -> Errands:
        here = mark(os.getpid())
        asker = Asker(name=NAME, agent=NAME, session=session, via="hook", cwd=str(Path.cwd()), process=here, serves=None)
        return Errands(place.store, asker, SYSTEM, room)

    bridge = Bridge(OpencodeServer(url, password_of(environment())), errands, SYSTEM, lambda words: note("midturn: {}", words))
    note("midturn: what opencode asks at {} waits in `midturn inbox`, too. Ctrl-C ends this.", url)
    asyncio.run(_carry(bridge))
    return ExitStatus.DONE


def _stop(carrying: asyncio.Future[None]) -> None:
    carrying.cancel()


async def _carry(bridge: Bridge) -> None:
    carrying = asyncio.ensure_future(bridge.run())

    async def work() -> None:
        await asyncio.wait({carrying})
        if not carrying.cancelled():
            carrying.result()

    try:
        await with_signals(work, lambda: _stop(carrying))
    finally:
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
