"""Creates channels from the configuration."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast, get_args

from midturn import channels
from midturn.channels import PLATFORMS
from midturn.channels.port import Channel
from midturn.config.settings import ChannelTable
from midturn.errors import ConfigError
from midturn.events.open_question import PromptKind
from midturn.plugins import Registry

_BUILT_IN: Final[Mapping[str, str]] = {name.lower(): name for name in PLATFORMS}
_PROMPT_KINDS: Final = get_args(PromptKind)
_ENV, _FILE = "_env", "_file"


def _fits(found: object, _name: str) -> bool:
    return callable(found)


CHANNELS: Final[Registry[Callable[..., object]]] = Registry(
    kind="channel",
    built_in=tuple(_BUILT_IN),
    fits=_fits,
    ought="a class or function that returns a `Channel`",
    besides="`kind` of `[channels.<name>]` names it.",
)
"""Channel kinds from plug-in packages."""


def make_channel(table: ChannelTable, environment: Mapping[str, str]) -> Channel:
    """Create a channel.

    Args:
        table: The `[channels.<name>]` table of the configuration.
        environment: Environment variables. A `<key>_env` option contains the name of the variable
            with the secret.

    Raises:
        ConfigError: The kind is unknown, an option is missing or invalid, or a secret cannot be
            read.
    """
    where = f"`[channels.{table.name}]`"
    if not table.kind:
        raise ConfigError(f'{where}: `kind` is missing. Set it, for example `kind = "telegram"`.')
    if wrong := [kind for kind in table.asks if kind not in _PROMPT_KINDS]:
        raise ConfigError(
            f"{where}: unknown kind {wrong[0]!r} in `asks`. Allowed kinds:"
            f" {', '.join(_PROMPT_KINDS)}."
        )
    given = {
        _option_name(key): _value(where, key, value, environment)
        for key, value in table.options.items()
    }
    make = _factory(table.kind)
    try:
        return cast("Channel", make(**given))
    except TypeError as error:
        raise ConfigError(
            f"{where}: invalid options for a channel of kind `{table.kind}`: {error}."
        ) from None


def _factory(kind: str) -> Callable[..., object]:
    return (
        cast("Callable[..., object]", getattr(channels, _BUILT_IN[kind]))
        if kind in _BUILT_IN
        else CHANNELS.load(kind)
    )


def _option_name(key: str) -> str:
    return key.removesuffix(_ENV) if key.endswith(_ENV) else key.removesuffix(_FILE)


def _value(where: str, key: str, value: object, environment: Mapping[str, str]) -> object:
    """Return the value of an option, or the secret it refers to.

    Raises:
        ConfigError: The secret is missing, or other users can read its file.
    """
    if key.endswith(_ENV):
        if not environment.get(str(value)):
            raise ConfigError(
                f"{where}: the environment variable {value}, named by `{key}`, is not set."
            )
        return environment[str(value)]
    if not key.endswith(_FILE):
        return value
    file = Path(str(value)).expanduser()
    try:
        found = file.stat()
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {file}, named by `{key}`, cannot be read: {error}.") from None
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{where}: other users can read {file}, named by `{key}`. Set its mode to 0600."
        )
    return text
