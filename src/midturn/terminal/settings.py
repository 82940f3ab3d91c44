"""What configuration says about prompts."""

from __future__ import annotations

from msgspec import Struct

from midturn.terminal.mode import ModeSetting


class PrompterSettings(Struct, frozen=True, kw_only=True):
    """How prompts look and behave.

    `settle` is how long (seconds) no key may have been pressed before keys count; `text_menu` shows a row of keys before each text
    field; `bell` and `notify` call a person who is elsewhere, and `notify_command` runs a program of the user's with the question on stdin.
    `announces`: it says itself who answered a prompt that was taken away; a display that shows every answer does that better.
    """

    mode: ModeSetting = "auto"
    settle: float = 0.3
    text_menu: bool = False
    bell: bool = True
    notify: bool = True
    notify_command: tuple[str, ...] = ()
    announces: bool = True
