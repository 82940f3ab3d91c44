"""The one way from files, environment and flags to settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.config.approvals import Approvals
from midturn.config.assign import Assignment, Delta, environment_values, key_value, read_delta
from midturn.config.check import Checker
from midturn.config.layers import Layer, Layers
from midturn.config.places import state_directory, user_config_file
from midturn.config.resolve import Resolving, resolve
from midturn.config.settings import AssistantSettings, DisplaySettings, Settings, UserSettings, WebSettings
from midturn.config.tree import BUILT_IN, Tree
from midturn.config.trust import FileTrust
from midturn.errors import ConfigError
from midturn.prompts.settings import PromptSettings
from midturn.routing.policy import DetachedPolicies, Toggle
from midturn.values.json_value import Json
from midturn.values.limits import DEFAULT_LIMITS
from midturn.values.text import ASK_USER, BUILT_IN_TOOLS, DESCRIBE_TOOLS

# ----------------------------------------------------------------------------------------------------------------------
# The lowest layer: defaults, built-in tools included


_UNATTENDED = {"source": "builtin", "run": "unattended", "result": "unattended"}
_ASKED = {"source": "builtin", "run": "ask", "result": "unattended"}

BUILT_IN_SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(BUILT_IN_TOOLS, _UNATTENDED),
    **dict.fromkeys(("fs_create_file", "fs_delete_file", "fs_move_file"), _ASKED),
    ASK_USER: {
        **_UNATTENDED,
        "enable": {"state": True, "allow_toggle": "if_named"},
        "hidden": True,
        "questions": {"*": {"prompt_label": "Assistant"}},
    },
    DESCRIBE_TOOLS: {**_UNATTENDED, "enable": {"state": True, "allow_toggle": "never"}, "hidden": True},
}

_ANY_TOOL: dict[str, Any] = {
    "run": "ask",
    "result": "unattended",
    "detached": msgspec.to_builtins(DetachedPolicies()),
    "enable": {"state": True, "allow_toggle": "any"},
    "hidden": False,
    "style": "line",
}


@cache
def built_in_layer() -> Tree:
    """Return the defaults as a layer."""
    checker = Checker(BUILT_IN)
    tree = checker.read(
        {
            "assistant": _given(AssistantSettings()),
            "conversation": {"tools": {"*": _ANY_TOOL, **BUILT_IN_SETTINGS}},
            "limits": _given(DEFAULT_LIMITS),
            "prompt": _given(PromptSettings()),
            "display": _given(DisplaySettings()),
            "user": _given(UserSettings()),
            "web": _given(WebSettings()),
        }
    )
    if checker.problems:
        raise AssertionError(checker.problems)
    return tree


def _given(settings: msgspec.Struct) -> dict[str, Any]:
    return _without_none(msgspec.to_builtins(settings))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


class LoadRequest(Struct, frozen=True, kw_only=True):
    """What to read.

    `root` is the workspace (None: there is none), `cwd` where the command was given, `cfg` each `--cfg` in order, `flags` what other
    flags set, `toggles` each `-t` and `-T`, `recorded` the value of each `config_delta` of the conversation, oldest first. `resumed` is
    what holds where a turn is resumed with no one attached, unless `recorded` says otherwise.
    """

    cwd: Path
    root: Path | None = None
    environment: Mapping[str, str] = {}
    cfg: Sequence[str] = ()
    flags: Sequence[Assignment] = ()
    toggles: Sequence[Toggle] = ()
    recorded: Sequence[Json] = ()
    resumed: Sequence[Assignment] = ()
    user_file: Path = msgspec.field(default_factory=user_config_file)
    state: Path = msgspec.field(default_factory=state_directory)


class Loaded(Struct, frozen=True, kw_only=True):
    """The settings, and how they came about.

    `ignored` says, a sentence a file, what has no effect until it is trusted: with no one attached, that is exit status 2.
    `files` are the workspace files that need approval, given or not. `given` is what this command's flags set: `to_record` makes
    a `config_delta` of it.
    """

    settings: Settings
    layers: tuple[Layer, ...]
    merged: Tree
    ignored: tuple[str, ...] = ()
    files: tuple[FileTrust, ...] = ()
    given: Delta = Delta()


def load(request: LoadRequest) -> Loaded:
    """Read every layer, lowest first: built-in, user, workspace, environment, recorded flags, `--cfg`, flags.

    Raises:
        ConfigError: Something is wrong; the message has a line for each problem, with file and line, key, and what is allowed.
    """
    layers = Layers(Layer("built-in", built_in_layer()))
    _files(layers, request)
    layers.assigned("environment", _based(environment_values(request.environment), request.cwd))
    layers.assigned("resumed", request.resumed)
    recorded = [delta for delta in map(read_delta, request.recorded) if delta is not None]
    given = Delta(cfg=tuple(_cfg(layers, request)), flags=tuple(_based(request.flags, request.cwd)), toggles=tuple(request.toggles))
    for delta in recorded:
        layers.recorded(delta)
    layers.assigned("--cfg", given.cfg)
    layers.assigned("flags", given.flags)
    layers.tighten()
    toggles = tuple(toggle for delta in recorded for toggle in delta.toggles)
    settings = resolve(_resolving(layers), (*toggles, *given.toggles))
    if layers.problems:
        raise ConfigError("\n".join(layers.problems))
    return Loaded(
        settings=settings,
        layers=tuple(layers.stack),
        merged=layers.merged,
        ignored=tuple(layers.ignored),
        files=tuple(layers.files),
        given=given,
    )


def _resolving(layers: Layers) -> Resolving:
    return Resolving(layers.merged, frozenset(layers.withheld), layers.problems, tuple(layers.parts))


def _files(layers: Layers, request: LoadRequest) -> None:
    layers.user(request.user_file)
    with layers.collecting():
        approvals = Approvals.of(request.state, request.environment)
        if request.root is not None:
            layers.workspace(request.root, approvals)


def _cfg(layers: Layers, request: LoadRequest) -> Iterator[Assignment]:
    for text in request.cfg:
        with layers.collecting():
            assignment = key_value(text, "--cfg")
            yield replace(assignment, base=str(request.cwd)) if assignment else layers.file(text, request.cwd)


def _based(assignments: Iterable[Assignment], cwd: Path) -> list[Assignment]:
    return [replace(assignment, base=str(cwd)) for assignment in assignments]
