"""`midturn doctor`: what works here: terminal, editor, git, configuration, models, log."""

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
from midturn.cli.channels import reached
from midturn.cli.command_context import environment, find_place
from midturn.cli.config import where
from midturn.cli.loading import load_here, said_of_ignored, settings_if_right
from midturn.cli.locked import SWITCHES, is_attached
from midturn.cli.log import log_file
from midturn.cli.main import COMMANDS
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, Shown, line, say, say_json, table
from midturn.config.places import shown, user_config_file
from midturn.config.settings import Settings
from midturn.config.standing import own_rules
from midturn.errors import ConfigError, MidturnError, StoreError
from midturn.integrations.hooks.clients import AGENTS_ADDED
from midturn.models.available import providers_at_hand
from midturn.models.registry import Lookup
from midturn.routing.rules import in_words
from midturn.security.confine import offer
from midturn.security.process_ancestry import State
from midturn.stores.opening import STORES
from midturn.stores.store import ConversationStore
from midturn.stores.workspace import Workspace
from midturn.terminal.capabilities import choose_mode
from midturn.terminal.editor import NoEdit, editor_command
from midturn.tools.command import is_question, taken_as_data
from midturn.turn.view import calls


class Finding(Struct, frozen=True):
    """One thing that works, or does not; `said` says how, or what to do."""

    what: str
    works: bool
    said: str


@click.command
@with_json
def command(*, as_json: bool) -> ExitStatus:
    """Find out what works here. The status is 1 if something that every turn needs does not."""
    looks = (_midturn, _workspace, _terminal, _editor, _git, _sandbox, _commands, _plugins, _process, _models, _servers, _channels, _log)
    findings = [finding for look in looks for finding in _found(look)]
    if as_json:
        say_json([{"what": one.what, "works": one.works, "said": one.said} for one in findings])
    else:
        for row in table([_row(finding) for finding in findings]):
            say(row)
    broken = any(not one.works and one.what in _NEEDED for one in findings)
    return ExitStatus.ERROR if broken else ExitStatus.DONE


def _found(look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what a look finds; what stops it is a finding, too, and stops no other."""
    try:
        yield from look()
    except MidturnError as error:
        yield Finding(look.__name__.strip("_"), works=False, said=str(error))


_NEEDED = ("configuration", "model")
_NEWEST = 5  # conversations that are looked at


def _row(finding: Finding) -> tuple[Shown, Shown, Shown]:
    return line("{}", "ok" if finding.works else "--"), line("{}", finding.what), line("{}", finding.said)


def _midturn() -> Iterator[Finding]:
    yield Finding("midturn", works=True, said=f"{__version__}, Python {sys.version.split()[0]}")


def _workspace() -> Iterator[Finding]:
    workspace = Workspace.find(Path.cwd())
    found = str(workspace.root) if workspace else "none here; `midturn init` makes one"
    yield Finding("workspace", works=workspace is not None, said=found)
    try:
        yield _conversations(workspace)
        if find_place().is_on_disk:  # elsewhere the store keeps its own
            yield _inbox()
    except MidturnError as error:  # such as a folder that is a link, or that everybody may write: no other line depends on it
        yield Finding("conversations", works=False, said=str(error))
    try:
        loaded = load_here()
    except ConfigError as error:
        yield Finding("configuration", works=False, said=str(error))
        return
    user = shown(user_config_file())
    yield Finding("configuration", works=True, said=f"readable; your own file would be {user}")
    for sentence in said_of_ignored(loaded):
        yield Finding("trust", works=False, said=_in_a_sentence(sentence))
    yield from _standing(loaded.settings)


def _standing(settings: Settings) -> Iterator[Finding]:
    """List the user's own rules that let calls run here, and those for directories that are gone."""
    here = project_here()
    for rule in own_rules():
        stale = rule.stale(settings, here)
        if not rule.lets_run or not (rule.applies(here) or stale):
            continue
        covers = in_words(rule.read, rule.about) if rule.read else rule.about
        said = f"{covers} runs without asking, {where(rule.scope, rule.project)} ({rule.place})"
        advice = f"does not apply, {stale}: {said}. `midturn tools rules --remove` removes it"
        yield Finding("permission", works=not stale, said=advice if stale else said)


def _conversations(workspace: Workspace | None) -> Finding:
    """Look at where what is said here is kept, whether it can be, and what an older version or a colleague has left in the workspace."""
    place = find_place()
    folder = place.folder
    if folder is None:
        return Finding("conversations", works=True, said=f"at {place.address.shown if place.address else 'no address'}")
    there = next(place for place in (folder, *folder.parents) if place.exists())
    writable = os.access(there, os.W_OK | os.X_OK)
    mode = f"mode {stat.S_IMODE(folder.stat().st_mode):04o}" if there == folder else "made with the first one"
    said = f"{shown(folder)} ({mode}{'' if writable else ', not writable: `conversation.store` names another place'})"
    if workspace and workspace.brought:
        said += f"; {shown(workspace.brought)} is not used: `midturn conversation import` takes in what lies there"
    return Finding("conversations", works=writable, said=said)


def _in_a_sentence(said: str) -> str:
    """Leave the list out that stands between what has no effect and what to do."""
    what, *listed = said.split("\n")
    return f"{what.removesuffix(':')}. {listed[-1]}" if listed else said


def _inbox() -> Finding:
    """Look at every conversation: what another program has put there is in the inbox from now on."""
    found = find_place().files.turns.reindex()
    waiting = f"{len(found)} open turns were not in the inbox; they are now: {', '.join(found)}"
    return Finding("inbox", works=True, said=waiting if found else "inbox index is up to date")


def _terminal() -> Iterator[Finding]:
    settings = settings_if_right()
    switch = next((name for name in SWITCHES if os.environ.get(name)), None)
    if is_attached(environment(), non_interactive=False):
        mode = choose_mode(settings.prompt.mode if settings else "auto", environment())
        yield Finding("terminal", works=True, said=f"questions are asked here, mode {mode}")
    else:
        yield Finding("terminal", works=False, said=f"no one can be asked{f': {switch} is set' if switch else ''}")


def _editor() -> Iterator[Finding]:
    try:
        command_line = editor_command(environment())
    except NoEdit as error:
        yield Finding("editor", works=False, said=str(error))
        return
    found = shutil.which(command_line[0])
    yield Finding(
        "editor", works=found is not None, said=found or f"{command_line[0]} is not found; set EDITOR to the command of your editor"
    )


def _git() -> Iterator[Finding]:
    found = shutil.which("git")
    yield Finding("git", works=found is not None, said=found or "not found: file tools cannot tell what is committed, and ask more often")


def _sandbox() -> Iterator[Finding]:
    found = offer()
    names = {"landlock": "Landlock", "bubblewrap": "bubblewrap", "sandbox-exec": "macOS's sandbox-exec", "none": ""}
    means = f"tools run under {names[found.means]}. " if names[found.means] else ""
    yield Finding("sandbox", works=found.means != "none", said=(means + " ".join(found.lacks)).strip())


def _commands() -> Iterator[Finding]:
    """Look in the newest conversations for questions of commands that are not declared to ask."""
    settings = settings_if_right()
    if settings is None:
        return
    place = find_place()
    for tool in dict.fromkeys(_asked_as_data(place.store, reversed(place.run(place.port.newest(_NEWEST))))):
        found = settings.tools.get(tool)
        if found is not None and found.source == "local" and found.protocol == "text":
            yield Finding(tool, works=False, said=taken_as_data(tool))


def _asked_as_data(store: ConversationStore, ids: Iterable[str]) -> Iterator[str]:
    """Yield the names of the tools whose result was a question."""
    for id in ids:  # noqa: A001  the store's word
        with suppress(StoreError):  # one that cannot be read is what other commands tell of
            for call, response in calls(store.read_sync(id).events):
                if response is not None and not response.is_error and is_question(response.content):
                    yield call.name


def _plugins() -> Iterator[Finding]:
    """Load what packages add, and say whether it works."""
    for registry in (STORES, AGENTS_ADDED, COMMANDS, TOOLS, CHANNELS):
        for plugin in registry.declared:
            problem = registry.problem(plugin)
            yield Finding(f"{registry.kind} {plugin.name}".strip(), works=not problem, said=problem or f"of {plugin.package}")


def _process() -> Iterator[Finding]:
    state = State()
    shows = "other processes of yours can read its memory" if state.dumpable in {None, True} else "memory is protected"
    leaves = "core dumps are on" if state.leaves_core else "core dumps are off"
    yield Finding("process", works=state.dumpable is False and not state.leaves_core, said=f"{shows}; {leaves}")


def _models() -> Iterator[Finding]:
    settings = settings_if_right()
    if settings is None:
        return
    chosen = settings.assistant.model.id
    problem = _problem_of(settings, [chosen, *side_models(settings)]) if chosen else "none is set; `midturn init` says how to set one"
    yield Finding("model", works=not problem, said=problem or chosen or "")
    for provider in providers_at_hand(Lookup(providers=providers_json(settings.llm), environment=environment())):
        said = provider.missing or f"{len(provider.models)} models"
        yield Finding(provider.provider, works=provider.missing is None, said=said)


def _problem_of(settings: Settings, models: Iterable[str]) -> str:
    """Return why a model that is named could not be used by any turn; empty where all of them could."""
    try:
        for model in models:
            refuse_unusable(model, settings.llm)
    except ConfigError as error:
        return str(error)
    return ""


def _servers() -> Iterator[Finding]:
    """Start every MCP server, and ask it for its tools."""
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
            said = problem or f"{len(connected.by_server.get(name, ()))} tools; `midturn tools ls` lists them"
            yield Finding(f"MCP {name}", works=problem is None, said=said)
    finally:
        connected.close()


def _channels() -> Iterator[Finding]:
    """Connect to the platform of every channel, and count the accounts that it can ask."""
    settings = settings_if_right()
    if settings is None or not settings.channels:
        return
    for each, problem, paired in reached(settings.channels, find_place()):
        pair = f"no account is paired: `midturn people pair NAME {each.kind}`"
        accounts = f"{paired} account{'' if paired == 1 else 's'} paired"
        said = problem or (f"it is reached; {accounts}" if paired else pair)
        yield Finding(f"channel {each.name}", works=not problem and bool(paired), said=said)


def _log() -> Iterator[Finding]:
    yield Finding("log", works=True, said=f"{shown(log_file())}; MIDTURN_LOG=debug writes requests and responses there")
