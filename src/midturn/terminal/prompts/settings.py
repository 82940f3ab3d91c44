"""Settings of prompts."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

from typing import Literal, TypeAlias

from msgspec import Struct

Mode: TypeAlias = Literal["auto", "rich", "plain"]
"""The look of a prompt; `auto` leaves it to the terminal."""


class ScreenSettings(Struct, frozen=True, kw_only=True):
    """Look and behavior of prompts.

    `settle_ms` is how long no key may have been pressed before keys count; `text_menu` shows a row of keys before each text field; `bell`
    and `notify` call a person who is elsewhere.
    """

    mode: Mode = "auto"
    text_menu: bool = False
    settle_ms: int = 300
    bell: bool = True
    notify: bool = True
