"""Channels: questions answered where people are, over connections that go out from here (docs/guides/channels.md)."""

from midturn.channels.port import Card, Channel, ChannelAway, ChannelRefused, ChannelSettings, Choice, Fits, Memory, Reply
from midturn.channels.running import run

__all__ = ["Card", "Channel", "ChannelAway", "ChannelRefused", "ChannelSettings", "Choice", "Fits", "Memory", "Reply", "run"]
