"""`midturn hook install`: an agent asks through midturn from its next session on."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from midturn.cli.headless import complain, headless_place, prompt_of, say_prose, to_its_end, with_signals
from midturn.cli.hook.options import (
    command_line,
    installation_of,
    kept_settings,
    policy_of,
    with_agent,
    with_optional_agent,
    writable_installation_of,
)
from midturn.cli.hook.run import WAIT, with_policy
from midturn.cli.loading import rules_in
from midturn.cli.options import with_store
from midturn.cli.output import ExitStatus, block, note, say, tell
from midturn.cli.place import StoreAddress, environment, place_in
from midturn.clock import SYSTEM
from midturn.errors import ConfigError
from midturn.foreign.clients import OURS, known_agents, support_of
from midturn.foreign.codex_server import COMMAND, COMPLETED, CodexServer
from midturn.foreign.errands import Errands
from midturn.foreign.installing import HookFound, install, installed, switched_off, to_add, uninstall, wanted
from midturn.foreign.opencode import NAME, Bridge, OpencodeServer, password_of
from midturn.foreign.registering import faults
from midturn.foreign.room import Room
from midturn.record.asker import Asker
from midturn.sandbox.doors import for_people_only
from midturn.store.lock import mark


@click.command
@with_agent
@with_policy
@click.option("--print", "prints", is_flag=True, help="Print what would be written, and where, and change nothing.")
def install_command(*, agent: str, project: bool, policy: str, prints: bool) -> None:
    """Write hooks into the settings of AGENT. What is there stays; `midturn hook uninstall` undoes it."""
    if policy != WAIT and support_of(agent).deferring is None:
        able = ", ".join(key for key, support in OURS.items() if support.deferring)
        raise click.UsageError(f"{_name(agent)} cannot end in the middle of a call: `--policy {policy}` is for {able}.")
    hook = command_line(agent, policy, project=project)
    if prints:
        installation = installation_of(agent, policy, project=project)
        note("midturn: this belongs into {}:", installation.file)
        say(block(to_add(installation, hook)))
        return
    for_people_only("change what agents ask through")
    installation = writable_installation_of(agent, policy, project=project)
    changed = install(installation, hook, agent, kept_settings())
    if changed:
        tell("{} asks through midturn now: {} was changed.", _name(agent), installation.file)
    else:
        tell("{} asks through midturn already: {} stays as it is.", _name(agent), installation.file)
    tell(block(installation.advice))
    tell(block(installation.killed))
    if project and not shutil.which("midturn"):
        note("midturn: `midturn` is not on your PATH, and the hooks of a project name nothing else: have it there, or no one is asked.")
    tell("Questions wait in `midturn inbox`, and on the page of `midturn serve`; `midturn answer ID` answers one.")


# ----------------------------------------------------------------------------------------------------------------------
# `midturn hook uninstall`: an agent asks by itself again


@click.command
@with_agent
def uninstall_command(*, agent: str, project: bool) -> None:
    """Take our hooks out of the settings of AGENT; nothing else is changed."""
    for_people_only("change what agents ask through")
    installation = writable_installation_of(agent, project=project)
    if uninstall(installation, agent, kept_settings()):
        tell("{} asks by itself again: our hooks are gone from {}.", _name(agent), installation.file)
    else:
        tell("There are no hooks of ours in {}.", installation.file)


# ----------------------------------------------------------------------------------------------------------------------
# `midturn hook status`: which agents ask through midturn, and whether their hooks are those that this midturn would install


@click.command
@with_optional_agent
def status_command(*, agent: str | None, project: bool) -> ExitStatus:
    """Say for AGENT, or for each of them, whether its hooks are there and up to date, and what happens where one is killed.

    Your own settings are looked at, and those of the project in the working directory; with `--project`, only these. The status is 1 if
    hooks are outdated or turned off, and 2 if settings cannot be read.
    """
    worst = ExitStatus.DONE
    for key in [agent] if agent else known_agents():
        if agent is None and (broken := _broken(key)):
            note("midturn: {}", broken)
            worst = max(worst, ExitStatus.ERROR)
            continue
        found = [_looked_at(key, project=one) for one in _places(key, project=project)]
        is_installed = any(status is not None for status in found)
        if not is_installed:
            say("{}: asks by itself; `{}` changes that.", _name(key), _installing(key, WAIT, project=project))
        worst = max(worst, *(status or ExitStatus.DONE for status in found))
        if is_installed or agent:
            tell(block(f"  {installation_of(key, project=project).killed}"))
    return worst


def _broken(key: str) -> str:
    """Say why the package of an agent tells nothing about it; an empty text where it does."""
    try:
        installation_of(key, project=False)
    except ConfigError as error:
        return str(error)
    return ""


def _name(key: str) -> str:
    return support_of(key).hooks.name


def _places(key: str, *, project: bool) -> Sequence[bool]:
    """Return whether to look into the project's settings, into the user's own, or into both; in one's home they may be the same."""
    is_same = installation_of(key, project=True).file == installation_of(key, project=False).file
    return [True] if project else [False] if is_same else [False, True]


def _looked_at(key: str, *, project: bool) -> ExitStatus | None:
    """Say what is installed in one place; None where nothing is."""
    installation = installation_of(key, project=project)
    try:
        found, off = installed(installation, key), switched_off(installation)
    except ConfigError as error:
        note("midturn: {}: {}", _name(key), error)
        return ExitStatus.USAGE
    if not found:
        return None
    if off:
        say("{}: runs no hooks: `{}` turns all of them off in {}. Take that out there.", _name(key), off, installation.file)
        return ExitStatus.ERROR
    policy = policy_of(found)
    wrong = faults(found, wanted(installation_of(key, policy, project=project), command_line(key, policy, project=project)))
    if wrong:
        again = _installing(key, policy, project=project)
        say("{}: its hooks are outdated: {} ({}). `{}` replaces them.", _name(key), "; ".join(wrong), installation.file, again)
        return ExitStatus.ERROR
    say("{}: asks through midturn ({}), by {}.", _name(key), _events(found), installation.file)
    return ExitStatus.DONE


def _events(found: Sequence[HookFound]) -> str:
    return ", ".join(hook.entry.event for hook in found)


def _installing(key: str, policy: str, *, project: bool) -> str:
    """Return the command that installs."""
    options = [*(["--project"] if project else []), *([] if policy == WAIT else ["--policy", policy])]
    return " ".join(["midturn hook install", key, *options])


# ----------------------------------------------------------------------------------------------------------------------
# `midturn hook codex-server`: Codex, without a terminal; what it asks waits in the inbox, for as long as it takes


@click.command("codex-server")
@click.argument("server", nargs=-1, metavar="[-- SERVER [ARGUMENT]...]")
@click.option("-p", "--prompt", metavar="TEXT", help="What Codex is to do; without it, what is piped into stdin.")
@click.option("--session", default="", metavar="ID", help="Go on with this session of Codex.")
@with_store
def codex_server_command(*, server: tuple[str, ...], prompt: str | None, session: str, store: StoreAddress | None) -> ExitStatus:
    """Run Codex with one prompt, as a client of its app server. What it says goes to stdout.

    What it asks waits in `midturn inbox`, for as long as it takes: silence is never an answer. SERVER is what is run in place of
    `codex app-server`, such as `codex -c approval_policy=untrusted app-server`.
    """
    return asyncio.run(_run(server or COMMAND, prompt_of(prompt), session, store))


async def _run(server: tuple[str, ...], prompt: str, session: str, store: StoreAddress | None) -> ExitStatus:
    place = headless_place(store)
    run = CodexServer(
        command=server,
        cwd=place.cwd,
        store=place.store,
        clock=SYSTEM,
        say=say_prose,
        complain=complain,
        rules=rules_in(place),
        thread=session,
    )
    ended = await to_its_end(run.go(prompt))
    say_prose("\n")
    if ended == COMPLETED:
        return ExitStatus.DONE
    note("midturn: Codex was stopped. Its unanswered questions stay on record.")
    return ExitStatus.ENDED_BY_USER


# ----------------------------------------------------------------------------------------------------------------------
# `midturn hook opencode`: what an opencode server asks waits in the inbox, too, as long as this runs


@click.command("opencode")
@click.option("--url", default="http://127.0.0.1:4096", show_default=True, metavar="URL", help="Where opencode's server is.")
@with_store
def opencode_command(*, url: str, store: StoreAddress | None) -> ExitStatus:
    """Carry what opencode asks to the inbox, until Ctrl-C. Its own dialog stays open; the first answer counts."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.UsageError(f"`--url {url}` is not the address of a server, such as http://127.0.0.1:4096.")
    place = place_in(Path.cwd(), store)
    room, rules = Room(), rules_in(place)

    def errands(session: str) -> Errands:
        here = mark(os.getpid())
        asker = Asker(name=NAME, agent=NAME, session=session, via="hook", cwd=str(Path.cwd()), process=here, serves=None)
        return Errands(place.store, asker, SYSTEM, room, rules)

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
