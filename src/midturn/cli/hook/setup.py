"""`midturn hook install`, `uninstall`, `status`, `opencode` and `codex-server`."""

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
from midturn.cli.headless import (
    complain,
    headless_place,
    prompt_of,
    run_to_end,
    say_prose,
    with_signals,
)
from midturn.cli.hook.run import WAIT, with_policy
from midturn.cli.hook_run import DEFER
from midturn.cli.loading import rules_in
from midturn.cli.options import with_store
from midturn.cli.output import ExitStatus, block, note, say, tell
from midturn.clock import SYSTEM
from midturn.errors import ConfigError, MidturnError
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks.claude_deferring import POLICY
from midturn.integrations.hooks.clients import BUILT_IN, known_agents, support_of
from midturn.integrations.hooks.codex_server import COMMAND, COMPLETED, CodexServer
from midturn.integrations.hooks.external_call import Quota
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.hook_agent import Installation
from midturn.integrations.hooks.installing import (
    InstalledHook,
    disabling_setting,
    install,
    installed,
    manual_text,
    uninstall,
    wanted,
)
from midturn.integrations.hooks.opencode import (
    NAME,
    NAME as OPENCODE,
    Bridge,
    OpencodeServer,
    password_of,
)
from midturn.integrations.hooks.registering import faults
from midturn.security.authorization import require_human
from midturn.security.private_files import user_state
from midturn.stores.lock import mark

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# --------------------------------------------------------------------------------------------------
# The command that starts midturn


def own_program() -> Sequence[str]:
    """Return the command that starts this midturn from any directory.

    It is the script on the PATH if the script belongs to this Python. Otherwise it is the
    interpreter with `-P`. Agents work in directories with untrusted code, from which a `click.py`
    must not be imported.
    """
    found = shutil.which("midturn")
    return (
        [found]
        if found and Path(found).parent == Path(sys.executable).parent
        else [sys.executable, "-P", "-m", "midturn"]
    )


# --------------------------------------------------------------------------------------------------
# Settings files of agents, and their hook commands


_LOG = logging.getLogger(__name__)
_DEFER = shlex.join(DEFER)
STOPS = frozenset(("Stop", "AfterAgent", "agentStop"))
"""Names of the hook that agents run at the end of a turn. This hook can wake the agent."""


def installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return the place where hooks are installed for an agent: the user's settings, or the settings
    of the project in the working directory.
    """
    given = environment()
    support = support_of(key)
    support = support if policy == WAIT else support.deferring or support
    try:
        return support.installation(
            Path(given.get("HOME") or Path.home()), Path.cwd() if project else None, given
        )
    except MidturnError:
        raise
    except Exception as error:  # a plug-in's code failed; other agents must still work
        raise ConfigError(
            f"The plug-in for `{key}` failed to locate its settings ({type(error).__name__}:"
            f" {error})."
        ) from error


def writable_installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return the result of `installation_of`, after checking that the settings can be written
    safely.

    Raises:
        ConfigError: The path of a project's settings contains a symbolic link, which could point to
            the user's own files.
    """
    installation = installation_of(key, policy, project=project)
    root = Path.cwd()
    parts = [installation.file, *installation.file.parents]
    link = next(
        (
            part
            for part in parts
            if project and part.is_relative_to(root) and part != root and part.is_symlink()
        ),
        None,
    )
    if link:
        raise ConfigError(
            f"{link} is a symbolic link. Hooks of a project must be in the project itself. Nothing"
            " was changed."
        )
    return installation


def command_line(key: str, policy: str = WAIT, *, project: bool = False) -> str:
    """Return the command that an agent's hooks run. It works in any directory.

    Project settings are shared, so they contain the name of the command and not its path on this
    machine.
    """
    program = ["midturn"] if project else own_program()
    return shlex.join([*program, "hook", key, *([] if policy == WAIT else DEFER)])


def kept_settings() -> Path:
    """Return the directory with copies of agents' settings, made before hooks were installed."""
    return user_state() / "hooks"


def policy_of(found: Sequence[InstalledHook]) -> str:
    """Return the policy with which the hooks were installed."""
    return POLICY if any(_DEFER in hook.command for hook in found) else WAIT


def woken_agents() -> frozenset[str]:
    """Return the agents whose installed hooks wake their sessions when an answer arrives.

    Settings that cannot be read count as not installed.
    """
    return frozenset(
        key
        for key in known_agents()
        if any(
            hook.entry.event in STOPS and _DEFER not in hook.command
            for hook in _installed_hooks(key)
        )
    )


def _installed_hooks(key: str) -> Sequence[InstalledHook]:
    try:
        return installed(installation_of(key, project=False), key)
    except ConfigError as error:
        _LOG.warning("%s", error)
        return ()


_F = TypeVar("_F", bound=Callable[..., Any])


class _Agents(click.Choice[str]):
    """The agents that support hooks."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == OPENCODE:
            self.fail(
                "opencode has no hooks to install. Run `midturn hook opencode` next to it instead.",
                param,
                ctx,
            )
        return (
            super().convert(value, param, ctx)
            if value in BUILT_IN
            else click.Choice(known_agents()).convert(value, param, ctx)
        )

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return click.Choice(known_agents()).shell_complete(ctx, param, incomplete)


_AGENT = _Agents(list(BUILT_IN))


def with_agent(command: _F) -> _F:
    """Add the argument AGENT and `--project`."""
    return _with_project(click.argument("agent", type=_AGENT, metavar="AGENT")(command))


def with_optional_agent(command: _F) -> _F:
    """Add the optional argument AGENT and `--project`."""
    return _with_project(
        click.argument("agent", type=_AGENT, required=False, metavar="[AGENT]")(command)
    )


def _with_project(command: _F) -> _F:
    help = "Use the settings of this project"  # noqa: A001  click's name
    return click.option("--project", is_flag=True, help=help)(command)


@click.command
@with_agent
@with_policy
@click.option("--print", "prints", is_flag=True, help="Print the changes without writing them")
def install_command(*, agent: str, project: bool, policy: str, prints: bool) -> None:
    """Add midturn's hooks to the settings of AGENT

    Existing settings are kept. To remove the hooks, use `midturn hook uninstall`.
    """
    if policy != WAIT and support_of(agent).deferring is None:
        supported = ", ".join(key for key, support in BUILT_IN.items() if support.deferring)
        raise click.UsageError(
            f"{_name(agent)} cannot end at a question. `--policy {policy}` is supported for"
            f" {supported}."
        )
    hook = command_line(agent, policy, project=project)
    if prints:
        installation = installation_of(agent, policy, project=project)
        note("midturn: changes to {}:", installation.file)
        say(block(manual_text(installation, hook)))
        return
    require_human("change the hooks of agents")
    installation = writable_installation_of(agent, policy, project=project)
    changed = install(installation, hook, agent, kept_settings())
    if changed:
        tell("{} is now connected to midturn: {} was changed.", _name(agent), installation.file)
    else:
        tell(
            "{} is already connected to midturn: {} was not changed.",
            _name(agent),
            installation.file,
        )
    tell(block(installation.advice))
    tell(block(installation.killed))
    if project and not shutil.which("midturn"):
        note(
            "midturn: `midturn` is not on your PATH. Hooks of a project call it by name, so they ask"
            " no questions until it is on your PATH."
        )
    tell(
        "Questions appear in `midturn inbox` and on the page of `midturn serve`. To answer one:"
        " `midturn answer ID`"
    )


# --------------------------------------------------------------------------------------------------
# `midturn hook uninstall`


@click.command
@with_agent
def uninstall_command(*, agent: str, project: bool) -> None:
    """Remove midturn's hooks from the settings of AGENT"""
    require_human("change the hooks of agents")
    installation = writable_installation_of(agent, project=project)
    if uninstall(installation, agent, kept_settings()):
        tell(
            "{} is no longer connected to midturn: the hooks were removed from {}.",
            _name(agent),
            installation.file,
        )
    else:
        tell("{} contains no midturn hooks.", installation.file)


# --------------------------------------------------------------------------------------------------
# `midturn hook status`


@click.command
@with_optional_agent
def status_command(*, agent: str | None, project: bool) -> ExitStatus:
    """Show whether hooks are installed and up to date

    Checks your settings and those of the project in the working directory. Exits with status 1 if
    hooks are outdated or disabled, and 2 if settings cannot be read.
    """
    worst = ExitStatus.DONE
    for key in [agent] if agent else known_agents():
        if agent is None and (broken := _plugin_error(key)):
            note("midturn: {}", broken)
            worst = max(worst, ExitStatus.ERROR)
            continue
        found = [
            _report_status(key, project=in_project) for in_project in _places(key, project=project)
        ]
        is_installed = any(status is not None for status in found)
        if not is_installed:
            say(
                "{}: not connected. To connect it: `{}`",
                _name(key),
                _install_command(key, WAIT, project=project),
            )
        worst = max(worst, *(status or ExitStatus.DONE for status in found))
        if is_installed or agent:
            tell(block(f"  {installation_of(key, project=project).killed}"))
    return worst


def _plugin_error(key: str) -> str:
    """Return the error of an agent's plug-in, or an empty string if the plug-in works."""
    try:
        installation_of(key, project=False)
    except ConfigError as error:
        return str(error)
    return ""


def _name(key: str) -> str:
    return support_of(key).hooks.name


def _places(key: str, *, project: bool) -> Sequence[bool]:
    """Return the settings to check: True for the project's settings, False for the user's settings.

    In the home directory, both may be the same file.
    """
    is_same = installation_of(key, project=True).file == installation_of(key, project=False).file
    return [True] if project else [False] if is_same else [False, True]


def _report_status(key: str, *, project: bool) -> ExitStatus | None:
    """Print the status of the hooks in one settings file. Return None if it contains no hooks."""
    installation = installation_of(key, project=project)
    try:
        found, off = installed(installation, key), disabling_setting(installation)
    except ConfigError as error:
        note("midturn: {}: {}", _name(key), error)
        return ExitStatus.USAGE
    if not found:
        return None
    if off:
        say(
            "{}: all hooks are disabled by `{}` in {}. Remove that setting.",
            _name(key),
            off,
            installation.file,
        )
        return ExitStatus.ERROR
    policy = policy_of(found)
    wrong = faults(
        found,
        wanted(
            installation_of(key, policy, project=project),
            command_line(key, policy, project=project),
        ),
    )
    if wrong:
        again = _install_command(key, policy, project=project)
        say(
            "{}: the hooks are outdated: {} ({}). To replace them: `{}`",
            _name(key),
            "; ".join(wrong),
            installation.file,
            again,
        )
        return ExitStatus.ERROR
    say("{}: connected ({}) in {}.", _name(key), _events(found), installation.file)
    return ExitStatus.DONE


def _events(found: Sequence[InstalledHook]) -> str:
    return ", ".join(hook.entry.event for hook in found)


def _install_command(key: str, policy: str, *, project: bool) -> str:
    options = [
        *(["--project"] if project else []),
        *([] if policy == WAIT else ["--policy", policy]),
    ]
    return " ".join(["midturn hook install", key, *options])


# --------------------------------------------------------------------------------------------------
# `midturn hook codex-server`


@click.command("codex-server")
@click.argument("server", nargs=-1, metavar="[-- SERVER [ARGUMENT]...]")
@click.option("-p", "--prompt", metavar="TEXT", help="Prompt (default: stdin)")
@click.option("--session", default="", metavar="ID", help="Codex session to continue")
@with_store
def codex_server_command(
    *, server: tuple[str, ...], prompt: str | None, session: str, store: StoreAddress | None
) -> ExitStatus:
    """Run Codex with one prompt and route its questions to the inbox

    Prints the response on stdout and waits for answers without a time limit. SERVER replaces
    `codex app-server`.

    Example: midturn hook codex-server -p "Fix the tests" -- codex -c approval_policy=untrusted
    app-server
    """
    return asyncio.run(_run(server or COMMAND, prompt_of(prompt), session, store))


async def _run(
    server: tuple[str, ...], prompt: str, session: str, store: StoreAddress | None
) -> ExitStatus:
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
    ended = await run_to_end(run.go(prompt), place)
    say_prose("\n")
    if ended == COMPLETED:
        return ExitStatus.DONE
    note("midturn: Codex was stopped. Its unanswered questions stay recorded.")
    return ExitStatus.ENDED_BY_USER


# --------------------------------------------------------------------------------------------------
# `midturn hook opencode`


@click.command("opencode")
@click.option(
    "--url",
    default="http://127.0.0.1:4096",
    show_default=True,
    metavar="URL",
    help="URL of the opencode server",
)
@with_store
def opencode_command(*, url: str, store: StoreAddress | None) -> ExitStatus:
    """Connect opencode to the inbox until stopped

    Its own dialog stays open; the first answer wins.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.UsageError(
            f"Invalid `--url {url}`. Expected an HTTP URL, for example http://127.0.0.1:4096."
        )
    place = place_in(Path.cwd(), store)
    quota, rules = Quota(), rules_in(place)

    def calls_of(session: str) -> ExternalCallService:
        process = mark(os.getpid())
        asker = AskingAgent(
            name=NAME,
            agent=NAME,
            session=session,
            via="hook",
            cwd=str(Path.cwd()),
            process=process,
            serves=None,
        )
        return ExternalCallService(place.store, asker, SYSTEM, quota, rules)

    bridge = Bridge(
        OpencodeServer(url, password_of(environment())),
        calls_of,
        SYSTEM,
        lambda words: note("midturn: {}", words),
    )
    note(
        "midturn: questions from opencode at {} also appear in `midturn inbox{}`. Press Ctrl-C to"
        " stop.",
        url,
        place.option,
    )
    asyncio.run(_run_bridge(bridge))
    return ExitStatus.DONE


def _stop(running: asyncio.Future[None]) -> None:
    running.cancel()


async def _run_bridge(bridge: Bridge) -> None:
    running = asyncio.ensure_future(bridge.run())

    async def work() -> None:
        await asyncio.wait({running})
        if not running.cancelled():
            running.result()

    try:
        await with_signals(work, lambda: _stop(running))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
