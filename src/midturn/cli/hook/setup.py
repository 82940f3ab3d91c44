"""`midturn hook install`: an agent asks through midturn from its next session on."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from midturn.cli.command_context import StoreAddress, environment, place_in
from midturn.cli.headless import complain, headless_place, prompt_of, say_prose, to_its_end, with_signals
from midturn.cli.hook.run import WAIT, with_policy
from midturn.cli.hook_run import DEFER
from midturn.cli.loading import rules_in
from midturn.cli.options import with_store
from midturn.cli.output import ExitStatus, block, note, say, tell
from midturn.clock import SYSTEM
from midturn.errors import ConfigError, MidturnError
from midturn.events.open_question import Asker
from midturn.integrations.hooks.claude_deferring import POLICY
from midturn.integrations.hooks.clients import OURS, known_agents, support_of
from midturn.integrations.hooks.codex_server import COMMAND, COMPLETED, CodexServer
from midturn.integrations.hooks.external_call import Room
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.hook_agent import Installation
from midturn.integrations.hooks.installing import HookFound, install, installed, switched_off, to_add, uninstall, wanted
from midturn.integrations.hooks.opencode import NAME, NAME as OPENCODE, Bridge, OpencodeServer, password_of
from midturn.integrations.hooks.registering import faults
from midturn.security.authorization import for_people_only
from midturn.security.private_files import user_state
from midturn.stores.lock import mark

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# ----------------------------------------------------------------------------------------------------------------------
# Command line by which another program starts this one


def own_program() -> Sequence[str]:
    """Return the words that start midturn wherever they are run: our own script, where the one on the path is that of this Python.

    Else the interpreter is named, with `-P`: an agent works in directories of anybody's, where a `click.py` must not be imported for ours.
    """
    found = shutil.which("midturn")
    return [found] if found and Path(found).parent == Path(sys.executable).parent else [sys.executable, "-P", "-m", "midturn"]


# ----------------------------------------------------------------------------------------------------------------------
# Settings files of agents, and the command of their hooks


_LOG = logging.getLogger(__name__)
_DEFER = shlex.join(DEFER)
STOPS = frozenset(("Stop", "AfterAgent", "agentStop"))
"""Agents' names for the end of a turn: a hook there wakes them."""


def installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return what installing means for an agent: for its user, or for the project in the working directory."""
    given = environment()
    support = support_of(key)
    support = support if policy == WAIT else support.deferring or support
    try:
        return support.installation(Path(given.get("HOME") or Path.home()), Path.cwd() if project else None, given)
    except MidturnError:
        raise
    except Exception as error:  # a package's own code; other agents are looked at all the same
        raise ConfigError(f"The agent `{key}` cannot say where its settings are ({type(error).__name__}: {error}).") from error


def writable_installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return `installation_of`, to be written.

    Raises:
        ConfigError: A project's settings are a link, or lie behind one: a clone may lead to a user's own files.
    """
    installation = installation_of(key, policy, project=project)
    root = Path.cwd()
    parts = [installation.file, *installation.file.parents]
    link = next((part for part in parts if project and part.is_relative_to(root) and part != root and part.is_symlink()), None)
    if link:
        raise ConfigError(f"{link}: a symbolic link; hooks of a project are written in the project itself. Nothing was changed.")
    return installation


def command_line(key: str, policy: str = WAIT, *, project: bool = False) -> str:
    """Return the command of an agent's hooks; it works wherever the agent runs it.

    A project's settings are shared: the command is named there, and not where it is on this machine.
    """
    program = ["midturn"] if project else own_program()
    return shlex.join([*program, "hook", key, *([] if policy == WAIT else DEFER)])


def kept_settings() -> Path:
    """Return where it is kept what agents' settings were before our hooks."""
    return user_state() / "hooks"


def policy_of(found: Sequence[HookFound]) -> str:
    """Return the policy with which hooks were installed."""
    return POLICY if any(_DEFER in hook.command for hook in found) else WAIT


def woken_agents() -> frozenset[str]:
    """Return the agents of this user whose sessions our hooks wake: those that wait for an answer.

    Settings that cannot be read have none.
    """
    return frozenset(key for key in known_agents() if any(hook.entry.event in STOPS and _DEFER not in hook.command for hook in _there(key)))


def _there(key: str) -> Sequence[HookFound]:
    try:
        return installed(installation_of(key, project=False), key)
    except ConfigError as error:
        _LOG.warning("%s", error)
        return ()


_F = TypeVar("_F", bound=Callable[..., Any])


class _Agents(click.Choice[str]):
    """The agents that have hooks."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == OPENCODE:
            self.fail("opencode has no hooks to install. Run `midturn hook opencode` beside it: that carries what it asks.", param, ctx)
        return super().convert(value, param, ctx) if value in OURS else click.Choice(known_agents()).convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return click.Choice(known_agents()).shell_complete(ctx, param, incomplete)


_AGENT = _Agents(list(OURS))


def with_agent(command: _F) -> _F:
    """Add the argument AGENT, and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, metavar="AGENT")(command))


def with_optional_agent(command: _F) -> _F:
    """Add the argument [AGENT], and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, required=False, metavar="[AGENT]")(command))


def _with_project(command: _F) -> _F:
    help = "This project's settings, rather than yours."  # noqa: A001  click's word
    return click.option("--project", is_flag=True, help=help)(command)


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
    ended = await to_its_end(run.go(prompt), place)
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
    note("midturn: what opencode asks at {} waits in `midturn inbox{}`, too. Ctrl-C ends this.", url, place.option)
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
