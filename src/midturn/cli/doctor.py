"""`midturn doctor`: check the installation and the configuration."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click
from msgspec import Struct

from midturn import __version__
from midturn.agent.assembly.command_line import TOOLS, side_models
from midturn.agent.assembly.mcp import Connected
from midturn.agent.assembly.models import providers_json, refuse_unusable
from midturn.channels.kinds import CHANNELS
from midturn.cli.asking import project_here
from midturn.cli.channels import check_channels
from midturn.cli.command_context import environment, find_place
from midturn.cli.config import where
from midturn.cli.loading import ignored_warnings, load_here, settings_if_right
from midturn.cli.locked import SWITCHES, is_attached
from midturn.cli.log import log_file
from midturn.cli.main import COMMANDS
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, Shown, line, say, say_json, table
from midturn.config.places import shown, user_config_file
from midturn.config.settings import Settings
from midturn.config.standing_permissions import own_rules
from midturn.errors import ConfigError, MidturnError, StoreError
from midturn.integrations.hooks.clients import AGENTS_ADDED
from midturn.models.available import available_providers
from midturn.models.registry import Lookup
from midturn.routing.rules import describe_rule
from midturn.security.confine import sandbox_backend
from midturn.security.process_ancestry import State
from midturn.stores.opening import STORES
from midturn.stores.store import ConversationStore
from midturn.stores.workspace import Workspace
from midturn.terminal.capabilities import choose_mode
from midturn.terminal.editor import NoEdit, editor_command
from midturn.tools.command import is_question, taken_as_data
from midturn.turn.view import calls


class Finding(Struct, frozen=True):
    """The result of a check. `said` describes what was found, or the problem and its solution."""

    what: str
    works: bool
    said: str


@click.command
@with_json
def command(*, as_json: bool) -> ExitStatus:
    """Check the installation and configuration

    Exits with status 1 if a required part does not work.
    """
    checks = (
        _midturn,
        _workspace,
        _terminal,
        _editor,
        _git,
        _sandbox,
        _commands,
        _plugins,
        _process,
        _models,
        _servers,
        _channels,
        _log,
    )
    findings = [finding for check in checks for finding in _run_check(check)]
    if as_json:
        say_json(
            [{"what": found.what, "works": found.works, "said": found.said} for found in findings]
        )
    else:
        for row in table([_row(finding) for finding in findings]):
            say(row)
    broken = any(not found.works and found.what in _REQUIRED for found in findings)
    return ExitStatus.ERROR if broken else ExitStatus.DONE


def _run_check(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a check. An error ends only this check and is reported as a finding."""
    try:
        yield from check()
    except MidturnError as error:
        yield Finding(check.__name__.strip("_"), works=False, said=str(error))


_REQUIRED = ("configuration", "model")
_MAX_CONVERSATIONS = 5  # maximum number of conversations to inspect, starting with the newest


def _row(finding: Finding) -> tuple[Shown, Shown, Shown]:
    return (
        line("{}", "ok" if finding.works else "--"),
        line("{}", finding.what),
        line("{}", finding.said),
    )


def _midturn() -> Iterator[Finding]:
    yield Finding("midturn", works=True, said=f"{__version__}, Python {sys.version.split()[0]}")


def _workspace() -> Iterator[Finding]:
    workspace = Workspace.find(Path.cwd())
    found = str(workspace.root) if workspace else "none here; to create one: `midturn init`"
    yield Finding("workspace", works=workspace is not None, said=found)
    try:
        yield _conversations(workspace)
        if find_place().is_on_disk:  # a database has its own index
            yield _inbox()
    except (
        MidturnError
    ) as error:  # for example an unsafe folder; the other checks do not depend on it
        yield Finding("conversations", works=False, said=str(error))
    try:
        loaded = load_here()
    except ConfigError as error:
        yield Finding("configuration", works=False, said=str(error))
        return
    user = shown(user_config_file())
    yield Finding("configuration", works=True, said=f"valid; your user configuration: {user}")
    for sentence in ignored_warnings(loaded):
        yield Finding("trust", works=False, said=_in_a_sentence(sentence))
    yield from _standing(loaded.settings)


def _standing(settings: Settings) -> Iterator[Finding]:
    """Yield the user's own rules that let calls run here, and the rules for directories that no
    longer exist.
    """
    project = project_here()
    for rule in own_rules():
        stale = rule.stale(settings, project)
        if not rule.lets_run or not (rule.applies(project) or stale):
            continue
        covers = describe_rule(rule.read, rule.about) if rule.read else rule.about
        said = f"{covers} runs without asking, {where(rule.scope, rule.project)} ({rule.place})"
        advice = f"does not apply, {stale}: {said}. To remove it: `midturn tools rules --remove`"
        yield Finding("permission", works=not stale, said=advice if stale else said)


def _conversations(workspace: Workspace | None) -> Finding:
    """Check the directory of the conversations.

    Also report unused conversations inside the workspace.
    """
    place = find_place()
    folder = place.folder
    if folder is None:
        return Finding(
            "conversations",
            works=True,
            said=f"at {place.address.shown if place.address else 'no address'}",
        )
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    writable = os.access(existing, os.W_OK | os.X_OK)
    mode = (
        f"mode {stat.S_IMODE(folder.stat().st_mode):04o}"
        if existing == folder
        else "created with the first conversation"
    )
    said = (
        f"{shown(folder)}"
        f" ({mode}{'' if writable else ', not writable; set `conversation.store` to another directory'})"
    )
    if workspace and workspace.brought:
        said += (
            f"; {shown(workspace.brought)} is not used; to import its conversations: `midturn"
            " conversation import`"
        )
    return Finding("conversations", works=writable, said=said)


def _in_a_sentence(notice: str) -> str:
    """Shorten a notice to its first and last line."""
    what, *listed = notice.split("\n")
    return f"{what.removesuffix(':')}. {listed[-1]}" if listed else notice


def _inbox() -> Finding:
    """Update the index of open turns. This also finds questions from other programs."""
    found = find_place().files.turns.reindex()
    waiting = (
        f"{len(found)} open turns were missing in the inbox and have been added: {', '.join(found)}"
    )
    return Finding("inbox", works=True, said=waiting if found else "inbox index is up to date")


def _terminal() -> Iterator[Finding]:
    settings = settings_if_right()
    switch = next((name for name in SWITCHES if os.environ.get(name)), None)
    if is_attached(environment(), non_interactive=False):
        mode = choose_mode(settings.prompt.mode if settings else "auto", environment())
        yield Finding("terminal", works=True, said=f"questions are asked here, mode {mode}")
    else:
        yield Finding(
            "terminal",
            works=False,
            said=f"no one can be asked{f': {switch} is set' if switch else ''}",
        )


def _editor() -> Iterator[Finding]:
    try:
        command_line = editor_command(environment())
    except NoEdit as error:
        yield Finding("editor", works=False, said=str(error))
        return
    found = shutil.which(command_line[0])
    yield Finding(
        "editor",
        works=found is not None,
        said=found or f"{command_line[0]} not found; set EDITOR to the command of your editor",
    )


def _git() -> Iterator[Finding]:
    found = shutil.which("git")
    yield Finding(
        "git",
        works=found is not None,
        said=found
        or "not found; file tools ask more often, because they cannot see what is committed",
    )


def _sandbox() -> Iterator[Finding]:
    found = sandbox_backend()
    names = {
        "landlock": "Landlock",
        "bubblewrap": "bubblewrap",
        "sandbox-exec": "macOS's sandbox-exec",
        "none": "",
    }
    means = f"tools run under {names[found.means]}. " if names[found.means] else ""
    yield Finding(
        "sandbox", works=found.means != "none", said=(means + " ".join(found.lacks)).strip()
    )


def _commands() -> Iterator[Finding]:
    """Find command tools that print questions which are not asked, in the newest conversations.

    If the `protocol` of a command tool is `text`, its output is a result, even if it looks like a
    question.
    """
    settings = settings_if_right()
    if settings is None:
        return
    place = find_place()
    for tool in dict.fromkeys(
        _tools_with_questions(
            place.store, reversed(place.run(place.port.newest(_MAX_CONVERSATIONS)))
        )
    ):
        found = settings.tools.get(tool)
        if found is not None and found.source == "local" and found.protocol == "text":
            yield Finding(tool, works=False, said=taken_as_data(tool))


def _tools_with_questions(store: ConversationStore, ids: Iterable[str]) -> Iterator[str]:
    """Yield the names of tools whose result looks like a question."""
    for id in ids:  # noqa: A001  named as in the store
        with suppress(StoreError):  # other commands report unreadable conversations
            for call, response in calls(store.read_sync(id).events):
                if response is not None and not response.is_error and is_question(response.content):
                    yield call.name


def _plugins() -> Iterator[Finding]:
    """Import all plug-ins and report their errors."""
    for registry in (STORES, AGENTS_ADDED, COMMANDS, TOOLS, CHANNELS):
        for plugin in registry.declared:
            problem = registry.problem(plugin)
            yield Finding(
                f"{registry.kind} {plugin.name}".strip(),
                works=not problem,
                said=problem or f"from {plugin.package}",
            )


def _process() -> Iterator[Finding]:
    state = State()
    shows = (
        "other processes of yours can read its memory"
        if state.dumpable in {None, True}
        else "memory is protected"
    )
    leaves = "core dumps are on" if state.leaves_core else "core dumps are off"
    yield Finding(
        "process",
        works=state.dumpable is False and not state.leaves_core,
        said=f"{shows}; {leaves}",
    )


def _models() -> Iterator[Finding]:
    settings = settings_if_right()
    if settings is None:
        return
    chosen = settings.assistant.model.id
    problem = (
        _problem_of(settings, [chosen, *side_models(settings)])
        if chosen
        else "not configured; to configure one: `midturn init`"
    )
    yield Finding("model", works=not problem, said=problem or chosen or "")
    for provider in available_providers(
        Lookup(providers=providers_json(settings.llm), environment=environment())
    ):
        said = provider.missing or f"{len(provider.models)} models"
        yield Finding(provider.provider, works=provider.missing is None, said=said)


def _problem_of(settings: Settings, models: Iterable[str]) -> str:
    """Return why one of these models can never be used, or an empty string if all can."""
    try:
        for model in models:
            refuse_unusable(model, settings.llm)
    except ConfigError as error:
        return str(error)
    return ""


def _servers() -> Iterator[Finding]:
    """Start every MCP server and list its tools."""
    settings = settings_if_right()
    if settings is None or not settings.mcp:
        return

    try:
        connected = Connected(settings, find_place().root, asks=False)
    except ConfigError as error:
        yield Finding("MCP", works=False, said=str(error))
        return
    try:
        for name in settings.mcp:
            problem = connected.problems.get(name)
            said = (
                problem
                or f"{len(connected.by_server.get(name, ()))} tools; to list them: `midturn tools ls`"
            )
            yield Finding(f"MCP {name}", works=problem is None, said=said)
    finally:
        connected.close()


def _channels() -> Iterator[Finding]:
    """Connect to every channel and count the paired accounts."""
    settings = settings_if_right()
    if settings is None or not settings.channels:
        return
    for channel, problem, paired in check_channels(settings.channels, find_place()):
        pair = f"no account is paired; to pair one: `midturn people pair NAME {channel.kind}`"
        accounts = f"{paired} account{'' if paired == 1 else 's'} paired"
        said = problem or (f"reachable; {accounts}" if paired else pair)
        yield Finding(f"channel {channel.name}", works=not problem and bool(paired), said=said)


def _log() -> Iterator[Finding]:
    yield Finding(
        "log",
        works=True,
        said=f"{shown(log_file())}; set MIDTURN_LOG=debug to log requests and responses",
    )
