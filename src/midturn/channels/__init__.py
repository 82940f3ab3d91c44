"""Channels: questions answered where people are, over connections that go out from here (docs/guides/channels.md).

A name is loaded on first use: no one needs the libraries of six platforms.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from midturn.errors import missing_name

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
_HOMES: Final = {
    **{kind: kind.lower() for kind in ("Discord", "Email", "Matrix", "Ntfy", "Slack", "Telegram")},
    **dict.fromkeys(("pairing_code", "run"), "running"),
}


def __getattr__(name: str) -> object:
    """Load a public name from its home (PEP 562)."""
    if name not in __all__:
        raise missing_name(f"module 'midturn.channels' has no attribute {name!r}.")
    return getattr(import_module(f"midturn.channels.{_HOMES.get(name, 'port')}"), name)


def __dir__() -> list[str]:
    return __all__
