"""`midturn hook codex-server`: Codex, without a terminal; what it asks waits in the inbox, for as long as it takes."""

from __future__ import annotations

import asyncio

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.headless import headless_place, prompt_of, say, to_its_end
from midturn.cli.options import with_store
from midturn.cli.output import note
from midturn.cli.place import StoreAddress
from midturn.clock import SYSTEM
from midturn.foreign.codex_server import COMMAND, COMPLETED, CodexServer


@click.command("codex-server")
@click.argument("server", nargs=-1, metavar="[-- SERVER [ARGUMENT]...]")
@click.option("-p", "--prompt", metavar="TEXT", help="What Codex is to do; without it, what is piped into stdin.")
@click.option("--session", default="", metavar="ID", help="Go on with this session of Codex.")
@with_store
def command(*, server: tuple[str, ...], prompt: str | None, session: str, store: StoreAddress | None) -> ExitStatus:
    """Run Codex with one prompt, as a client of its app server. What it says goes to stdout.

    What it asks waits in `midturn inbox`, for as long as it takes: silence is never an answer. SERVER is what is run in place of
    `codex app-server`, such as `codex -c approval_policy=untrusted app-server`.
    """
    return asyncio.run(_run(server or COMMAND, prompt_of(prompt), session, store))


async def _run(server: tuple[str, ...], prompt: str, session: str, store: StoreAddress | None) -> ExitStatus:
    place = headless_place(store)
    run = CodexServer(command=server, cwd=place.cwd, store=place.store, clock=SYSTEM, say=say, thread=session)
    ended = await to_its_end(run.go(prompt))
    say("\n")
    if ended == COMPLETED:
        return ExitStatus.DONE
    note("midturn: Codex was stopped. What it asked and nobody answered stays on record.")
    return ExitStatus.ENDED_BY_USER
