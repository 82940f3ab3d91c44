"""Load the configuration for a command, and print warnings about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.command_context import CommandContext, environment
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

_HOW_TO_TRUST = "To review and approve it: `midturn trust`"
_MODEL_KEY = "assistant.model.id"
_PRINTED: set[str] = set()
"""Warnings that this process already printed. A chat loads the configuration for each turn, but
prints each warning only once.
"""


class Flags(Struct, frozen=True, kw_only=True):
    """Values from a command's flags: `--cfg`, `-t`, `-T`, and flags that set a key.

    With `defer`, every question is left in the inbox. With `resumed`, questions are left in the
    inbox if no person is attached and the original flags of the turn set no policy for them.
    """

    cfg: Sequence[str] = ()
    toggles: Sequence[Toggle] = ()
    assignments: Sequence[Assignment] = ()
    defer: bool = False
    resumed: bool = False


_DECISIONS = ("run", "deliver", "tool")
_DEFER_ALL: Json = {"run": "defer", "deliver": "defer", "tool": "defer"}


def load_for(place: CommandContext, flags: Flags, events: Sequence[Event] = ()) -> Loaded:
    """Load the configuration.

    It includes the flags that earlier turns of the conversation recorded in `events`.

    Raises:
        ConfigError: The configuration is invalid, or the flags of the open turn cannot be read.
    """
    window = open_turn(events)
    if window and unreadable(config_deltas(window.events)):
        raise ConfigError(
            "The flags of the open turn cannot be read, because an earlier version encrypted them"
            " or another program wrote them. The turn cannot continue with other flags. To end it:"
            f" `midturn resume --discard{place.option}`"
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
    deferred = [
        Assignment(f"conversation.tools.{name}.detached", _DEFER_ALL, "--defer") for name in names
    ]
    return load(replace(request, flags=[*flags.assignments, *deferred]))


def _deferred_on_resuming(loaded: Loaded) -> Iterator[Assignment]:
    """Yield settings that defer the decisions for which the turn's flags set no policy."""
    recorded = [
        branch(layer.tree, "conversation", "tools")
        for layer in loaded.layers
        if layer.name.startswith(RECORDED)
    ]
    for name in {"*", *loaded.settings.tools}:
        for kind in _DECISIONS:
            if not any(
                entry(tools, tool, "detached", kind) for tools in recorded for tool in ("*", name)
            ):
                yield Assignment(
                    dotted(("conversation", "tools", name, "detached", kind)), "defer", "resumed"
                )


def load_here() -> Loaded:
    """Load the configuration of the working directory."""
    cwd = Path.cwd()
    workspace = Workspace.find(cwd)
    return load(
        LoadRequest(cwd=cwd, root=workspace.root if workspace else None, environment=environment())
    )


def rules_in(place: CommandContext) -> Callable[[str, str, JsonObject], Ruling]:
    """Return a function that applies the configured rules to another agent's call.

    If the configuration is invalid, the result is `ask` for every call.
    """

    def rule(agent: str, tool: str, arguments: JsonObject) -> Ruling:
        root = place.workspace.root if place.workspace else None
        try:
            return load(
                LoadRequest(cwd=place.cwd, root=root, environment=environment())
            ).settings.ruling(agent, tool, arguments)
        except ConfigError as error:
            _LOG.warning("invalid configuration; no rules apply: %s", error)
            return Ruling("ask")

    return rule


def fixed_rules_in(place: CommandContext) -> Callable[[str, str], bool]:
    """Return a function that checks whether the rules for an agent's tool ignore the arguments.

    If the configuration is invalid, the function returns False.
    """

    def are_fixed(agent: str, tool: str) -> bool:
        root = place.workspace.root if place.workspace else None
        try:
            settings = load(
                LoadRequest(cwd=place.cwd, root=root, environment=environment())
            ).settings
        except ConfigError:
            return False
        return not any(
            rule.when for origin in settings.agent_rules(agent, tool) for rule in origin.rules
        )

    return are_fixed


def loaded_if_right() -> Loaded | None:
    """Load the configuration of the working directory, or return None if it is invalid.

    Commands that need the configuration report the error.
    """
    try:
        return load_here()
    except ConfigError:
        return None


def settings_if_right() -> Settings | None:
    """Return the settings of the working directory, or None if the configuration is invalid."""
    loaded = loaded_if_right()
    return loaded.settings if loaded else None


def report_ignored(loaded: Loaded, *, attached: bool) -> None:
    """Print warnings about settings that have no effect until they are trusted.

    Each warning is printed once.

    Raises:
        ConfigError: There are such settings and no person is attached (exit status 2).
    """
    warnings = ignored_warnings(loaded)
    if warnings and not attached:
        raise ConfigError("\n".join(warnings))
    for sentence in (*warnings, *_unconfined(loaded)):
        if sentence not in _PRINTED:
            _PRINTED.add(sentence)
            note(line("midturn: {}", block(sentence)))


def model_to_be_trusted(loaded: Loaded) -> str | None:
    """Return a message if a model is configured, but only in a file that is not trusted.

    Otherwise return None.
    """
    if loaded.settings.assistant.model.id is not None:
        return None
    files = (
        file
        for file in loaded.files
        if not file.approved and any(setting.key == _MODEL_KEY for setting in file.enables)
    )
    return next(
        (
            f"{file.name} configures a model, but is not trusted. To review and approve it:"
            " `midturn trust`"
            for file in files
        ),
        None,
    )


def ignored_warnings(loaded: Loaded) -> list[str]:
    """Return the warnings about settings that have no effect.

    A warning about a file that can be trusted also says how to trust it.
    """
    files = {file.notice for file in loaded.files}
    return [_with_advice(warning) if warning in files else warning for warning in loaded.ignored]


def _with_advice(warning: str) -> str:
    separator = "\n" if "\n" in warning else " "
    return f"{warning}{separator}{_HOW_TO_TRUST}"


def _unconfined(loaded: Loaded) -> Iterator[str]:
    """Yield the restrictions that the tool sandbox cannot enforce on this machine."""
    if any(
        tool.source == "local" and tool.enable.state and tool.sandbox.enable
        for tool in loaded.settings.tools.values()
    ):
        from midturn.security.confine import sandbox_backend

        found = sandbox_backend()
        if not found.is_whole:
            yield from found.lacks
