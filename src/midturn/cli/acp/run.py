"""`midturn acp run`: an agent of somebody else's, without a terminal; its permissions and questions wait in the inbox."""

from __future__ import annotations

import asyncio

import click

from midturn.cli.acp.command import check_installed
from midturn.cli.exit_status import ExitStatus
from midturn.cli.headless import headless_place, prompt_of, say, to_its_end
from midturn.cli.options import with_store
from midturn.cli.output import note
from midturn.cli.place import Place, StoreAddress
from midturn.clock import SYSTEM


@click.command("run")
@click.argument("agent", nargs=-1, required=True, metavar="-- AGENT [ARGUMENT]...")
@click.option("-p", "--prompt", metavar="TEXT", help="What the agent is to do; without it, what is piped into stdin.")
@click.option("--mode", metavar="MODE", help="One of the agent's own modes, such as one in which it asks before it edits.")
@with_store
def command(*, agent: tuple[str, ...], prompt: str | None, mode: str | None, store: StoreAddress | None) -> ExitStatus:
    """Run AGENT, such as `gemini --acp`, with one prompt. What it says goes to stdout.

    What it asks waits in `midturn inbox`, for as long as it takes: silence is never an answer.
    """
    check_installed()
    return asyncio.run(_run(headless_place(store), agent, prompt_of(prompt), mode))


async def _run(place: Place, agent: tuple[str, ...], prompt: str, mode: str | None) -> ExitStatus:
    from midturn.acp.running import AcpRun

    run = AcpRun(command=agent, cwd=place.cwd, store=place.store, clock=SYSTEM, say=say, mode=mode)
    ended = await to_its_end(run.go(prompt))
    say("\n")
    if ended is None or ended == "cancelled":
        note("midturn: the agent was stopped. What it asked and nobody answered stays on record.")
        return ExitStatus.ENDED_BY_USER
    if ended != "end_turn":
        note("midturn: the agent stopped: {}.", ended)
        return ExitStatus.ERROR
    return ExitStatus.DONE
