"""Prompt settings."""

# without `from __future__ import annotations`, because msgspec would evaluate each annotation as
# text each time the program starts

from typing import Literal, TypeAlias

from msgspec import Struct

Mode: TypeAlias = Literal["auto", "rich", "plain"]
"""Style of prompts; `auto` depends on the terminal."""


class ScreenSettings(Struct, frozen=True, kw_only=True):
    """Appearance and behaviour of prompts.

    Attributes:
        mode: Style of prompts.
        text_menu: Whether a row of keys precedes each text field.
        settle_ms: Milliseconds without a key press after which a new prompt accepts keys.
        bell: Whether to ring the bell.
        notify: Whether to set the title and show a desktop notification.
    """

    mode: Mode = "auto"
    text_menu: bool = False
    settle_ms: int = 300
    bell: bool = True
    notify: bool = True
