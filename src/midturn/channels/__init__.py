"""Channels: answer questions in chat apps, by e-mail or by push notification
(docs/channels/index.md).

All connections are outgoing. Each public name is imported on first use, so that an installation
needs only the libraries of the platforms that it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from midturn.errors import ConfigError
from midturn.extras import install_command

if TYPE_CHECKING:
    from midturn.channels.discord import Discord
    from midturn.channels.email import Email
    from midturn.channels.matrix import Matrix
    from midturn.channels.ntfy import Ntfy
    from midturn.channels.port import (
        Card,
        Channel,
        ChannelAway,
        ChannelRefused,
        ChannelSettings,
        Choice,
        Fits,
        Memory,
        Reply,
    )
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
PLATFORMS: Final = {
    "Discord": "Discord",
    "Email": "E-mail",
    "Matrix": "Matrix",
    "Ntfy": "ntfy",
    "Slack": "Slack",
    "Telegram": "Telegram",
}
"""Display name of each platform, by class name.

The kind, the module and the extra of a channel have the class name in lower case.
"""
_MODULES: Final = {
    **{name: name.lower() for name in PLATFORMS},
    **dict.fromkeys(("pairing_code", "run"), "running"),
}


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562).

    Raises:
        ConfigError: The extra with the library of this platform is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module 'midturn.channels' has no attribute {name!r}.")
    try:
        return getattr(import_module(f"midturn.channels.{_MODULES.get(name, 'port')}"), name)
    except ModuleNotFoundError as error:
        # a module of midturn is missing: a bug, not a missing extra
        if name not in PLATFORMS or (error.name or "midturn").partition(".")[0] == "midturn":
            raise
        extra = name.lower()
        raise ConfigError(
            f"{PLATFORMS[name]} needs the extra `{extra}`: {install_command(extra)}"
        ) from error


def __dir__() -> list[str]:
    return __all__
