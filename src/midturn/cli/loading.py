"""The configuration of a command, and what the user must be told about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.command_context import Place, environment
from midturn.cli.output import block, line, note
from midturn.config.assign import Assignment, unreadable
from midturn.config.load import RECORDED, Loaded, LoadRequest, load
from midturn.config.settings import Settings, Toggle
from midturn.config.tree import branch, dotted, entry
from midturn.errors import ConfigError
from midturn.events.types import Event
from midturn.events.window import config_deltas, open_turn
from midturn.question.json_value import Json, JsonObject
from midturn.routing.rules import Ruling
from midturn.stores.workspace import Workspace

_LOG = logging.getLogger(__name__)

_HOW_TO_TRUST = "`midturn trust` shows what it enables and asks you."
_MODEL = "assistant.model.id"
_SAID: set[str] = set()
"""Warnings that this process has given already: a chat reads its configuration for every turn."""


class Flags(Struct, frozen=True, kw_only=True):
    """Values set by a command's flags: `--cfg`, `-t` and `-T`, every flag that stands for a key.

    `defer` makes every question wait. So does `resumed` where no one is attached, but for what the flags that began the turn decide.
    """

    cfg: Sequence[str] = ()
    toggles: Sequence[Toggle] = ()
    assignments: Sequence[Assignment] = ()
    defer: bool = False
    resumed: bool = False


_KINDS = ("run", "deliver", "tool")
_EVERYTHING: Json = {"run": "defer", "deliver": "defer", "tool": "defer"}


def load_for(place: Place, flags: Flags, events: Sequence[Event] = ()) -> Loaded:
    """Read the configuration, under what the flags of earlier turns set for the conversation, whose `events` these are.

    Raises:
        ConfigError: It is wrong; or the open turn was begun under flags that cannot be read.
    """
    window = open_turn(events)
    if window and unreadable(config_deltas(window.events)):
        raise ConfigError(
            "The flags under which the open turn was begun cannot be read: an earlier version closed them with a key, or another program "
            f"wrote them. It does not go on under others. `midturn resume --discard{place.option}` ends it."
        )
    request = LoadRequest(
        cwd=place.cwd,
        root=place.workspace.root if place.workspace else None,
        environment=environment(),
        cfg=flags.cfg,
        flags=flags.assignments,
        toggles=flags.toggles,
        recorded=config_deltas(events),
    )
    loaded = load(request)
    if flags.resumed:
        return load(replace(request, resumed=list(_deferred_on_resuming(loaded))))
    if not flags.defer:
        return loaded
    names = ["'*'", *(name for name in loaded.settings.tools if name != "*")]
    deferred = [Assignment(f"conversation.tools.{name}.detached", _EVERYTHING, "--defer") for name in names]
    return load(replace(request, flags=[*flags.assignments, *deferred]))


def _deferred_on_resuming(loaded: Loaded) -> Iterator[Assignment]:
    """Yield what makes everything wait for a person that the flags of the turn do not decide for those who are absent."""
    recorded = [branch(layer.tree, "conversation", "tools") for layer in loaded.layers if layer.name.startswith(RECORDED)]
    for name in {"*", *loaded.settings.tools}:
        for kind in _KINDS:
            if not any(entry(tools, tool, "detached", kind) for tools in recorded for tool in ("*", name)):
                yield Assignment(dotted(("conversation", "tools", name, "detached", kind)), "defer", "resumed")


def load_here() -> Loaded:
    """Read the configuration as it is in this directory, in a workspace or not."""
    cwd = Path.cwd()
    workspace = Workspace.find(cwd)
    return load(LoadRequest(cwd=cwd, root=workspace.root if workspace else None, environment=environment()))


def rules_in(place: Place) -> Callable[[str, str, JsonObject], Ruling]:
    """Return what configuration says about a call of another agent. It is read when it is asked; a wrong one lets nothing run."""

    def rule(agent: str, tool: str, arguments: JsonObject) -> Ruling:
        root = place.workspace.root if place.workspace else None
        try:
            return load(LoadRequest(cwd=place.cwd, root=root, environment=environment())).settings.ruling(agent, tool, arguments)
        except ConfigError as error:
            _LOG.warning("the configuration is wrong, so that no rule holds: %s", error)
            return Ruling("ask")

    return rule


def fixed_rules_in(place: Place) -> Callable[[str, str], bool]:
    """Return whether the rules for a tool of another agent depend on no arguments; a wrong configuration says nothing of that."""

    def are_fixed(agent: str, tool: str) -> bool:
        root = place.workspace.root if place.workspace else None
        try:
            settings = load(LoadRequest(cwd=place.cwd, root=root, environment=environment())).settings
        except ConfigError:
            return False
        return not any(rule.when for origin in settings.agent_rules(agent, tool) for rule in origin.rules)

    return are_fixed


def loaded_if_right() -> Loaded | None:
    """Read the configuration as it is in this directory; None where it is wrong, which the commands say that need it."""
    try:
        return load_here()
    except ConfigError:
        return None


def settings_if_right() -> Settings | None:
    """Return what is configured in this directory; None where it is wrong, as for `loaded_if_right`."""
    loaded = loaded_if_right()
    return loaded.settings if loaded else None


def report_ignored(loaded: Loaded, *, attached: bool) -> None:
    """Say once what has no effect until it is trusted.

    Raises:
        ConfigError: No one is there to read it (exit status 2).
    """
    said = said_of_ignored(loaded)
    if said and not attached:
        raise ConfigError("\n".join(said))
    for sentence in (*said, *_unconfined(loaded)):
        if sentence not in _SAID:
            _SAID.add(sentence)
            note(line("midturn: {}", block(sentence)))


def model_to_be_trusted(loaded: Loaded) -> str | None:
    """Say what to do where no model is set, but by a file that waits to be trusted; None everywhere else."""
    if loaded.settings.assistant.model.id is not None:
        return None
    files = (file for file in loaded.files if not file.approved and any(one.key == _MODEL for one in file.enables))
    return next((f"The model that {file.name} names answers once you have approved the file: `midturn trust`." for file in files), None)


def said_of_ignored(loaded: Loaded) -> list[str]:
    """Return what has no effect, a sentence or a list for each file, and for each that waits to be trusted what shows it."""
    files = {file.notice for file in loaded.files}
    return [_with_way_out(said) if said in files else said for said in loaded.ignored]


def _with_way_out(said: str) -> str:
    between = "\n" if "\n" in said else " "
    return f"{said}{between}{_HOW_TO_TRUST}"


def _unconfined(loaded: Loaded) -> Iterator[str]:
    """Say what the sandbox of the tools does not do here, where it is less than it should be."""
    if any(tool.source == "local" and tool.enable.state and tool.sandbox.enable for tool in loaded.settings.tools.values()):
        from midturn.security.confine import offer

        found = offer()
        if not found.is_whole:
            yield from found.lacks
