"""Channels: questions answered where people are, over connections that go out from here (docs/guides/channels.md).

A name is loaded on first use, a channel with its library: no one needs those of six platforms.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from midturn.errors import ConfigError, missing_name
from midturn.extras import install_command

if TYPE_CHECKING:
    from midturn.channels.discord import Discord
    from midturn.channels.email import Email
    from midturn.channels.matrix import Matrix
    from midturn.channels.ntfy import Ntfy
    from midturn.channels.port import Card, Channel, ChannelAway, ChannelRefused, ChannelSettings, Choice, Fits, Memory, Reply
    from midturn.channels.running import pairing_code, run
    from midturn.channels.slack import Slack
    from midturn.channels.telegram import Telegram

__all__ = [
    "Card",
    "Channel",
    "ChannelAway",
    "ChannelRefused",
    "ChannelSettings",
    "Choice",
    "Discord",
    "Email",
    "Fits",
    "Matrix",
    "Memory",
    "Ntfy",
    "Reply",
    "Slack",
    "Telegram",
    "pairing_code",
    "run",
]
CLASSES: Final = {
    "Discord": "Discord",
    "Email": "E-mail",
    "Matrix": "Matrix",
    "Ntfy": "ntfy",
    "Slack": "Slack",
    "Telegram": "Telegram",
}
"""The channels by class, each with its platform's name. Its kind, its module and its extra are the class in small letters."""
_HOMES: Final = {**{name: name.lower() for name in CLASSES}, **dict.fromkeys(("pairing_code", "run"), "running")}


def __getattr__(name: str) -> object:
    """Load a public name from its home (PEP 562); of a channel, its library, too.

    Raises:
        ConfigError: The extra that brings the library is not installed.
    """
    if name not in __all__:
        raise missing_name(f"module 'midturn.channels' has no attribute {name!r}.")
    try:
        return getattr(import_module(f"midturn.channels.{_HOMES.get(name, 'port')}"), name)
    except ModuleNotFoundError as error:
        if name not in CLASSES or (error.name or "midturn").partition(".")[0] == "midturn":  # that would be a defect of ours
            raise
        extra = name.lower()
        raise ConfigError(f"{CLASSES[name]} needs the extra `{extra}`: {install_command(extra)}") from error


def __dir__() -> list[str]:
    return __all__
