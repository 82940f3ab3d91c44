"""The kinds of channels, and how one is made of what a configuration says."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast, get_args

from midturn import channels
from midturn.channels import CLASSES
from midturn.channels.port import Channel
from midturn.config.settings import ChannelTable
from midturn.errors import ConfigError
from midturn.events.open_question import PromptKind
from midturn.plugins import Registry

_OURS: Final[Mapping[str, str]] = {name.lower(): name for name in CLASSES}
_ASKS: Final = get_args(PromptKind)
_ENV, _FILE = "_env", "_file"


def _fits(found: object, _name: str) -> bool:
    return callable(found)


CHANNELS: Final[Registry[Callable[..., object]]] = Registry(
    kind="channel",
    built_in=tuple(_OURS),
    fits=_fits,
    ought="a class, or a function, that returns a `Channel`",
    besides="`kind` of `[channels.<name>]` names it.",
)
"""What packages add, by the `kind` that a configuration names."""


def channel_of(table: ChannelTable, environment: Mapping[str, str]) -> Channel:
    """Make a channel.

    Args:
        table: What is configured.
        environment: Where `<key>_env` is looked up: secrets stand in no configuration.

    Raises:
        ConfigError: There is no such kind, something that it needs is missing, or a secret cannot be read.
    """
    where = f"`[channels.{table.name}]`"
    if not table.kind:
        raise ConfigError(f'{where}: `kind` is missing: write `kind = "telegram"`.')
    if wrong := [kind for kind in table.asks if kind not in _ASKS]:
        raise ConfigError(f"{where}: `asks` has {wrong[0]!r}; the kinds of questions are {', '.join(_ASKS)}.")
    given = {_bare(key): _value(where, key, value, environment) for key, value in table.options.items()}
    make = _maker(table.kind)
    try:
        return cast("Channel", make(**given))
    except TypeError as error:
        raise ConfigError(f"{where}: a channel of the kind `{table.kind}` cannot be made of this: {error}.") from None


def _maker(kind: str) -> Callable[..., object]:
    return cast("Callable[..., object]", getattr(channels, _OURS[kind])) if kind in _OURS else CHANNELS.load(kind)


def _bare(key: str) -> str:
    return key.removesuffix(_ENV) if key.endswith(_ENV) else key.removesuffix(_FILE)


def _value(where: str, key: str, value: object, environment: Mapping[str, str]) -> object:
    """Return a value, or the secret that it leads to.

    Raises:
        ConfigError: It leads nowhere, or others could read it.
    """
    if key.endswith(_ENV):
        if not environment.get(str(value)):
            raise ConfigError(f"{where}: the environment has no {value}, which `{key}` names.")
        return environment[str(value)]
    if not key.endswith(_FILE):
        return value
    file = Path(str(value)).expanduser()
    try:
        found = file.stat()
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {file}, which `{key}` names, cannot be read: {error}.") from None
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(f"{where}: others can read {file}, which `{key}` names: set its mode to 0600.")
    return text
