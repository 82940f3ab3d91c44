"""How much a terminal is trusted with: colours, rows that move, or nothing but text."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from midturn.prompts.settings import Mode
from midturn.terminal.mode import choose_mode


class Look(Struct, frozen=True):
    """`moves`: a row may be drawn over; `colours`: text may be coloured, with what that needs."""

    moves: bool
    colours: bool


def choose_look(setting: Mode, environment: Mapping[str, str]) -> Look:
    """Return what the mode allows, without colours where `NO_COLOR` is set."""
    moves = choose_mode(setting, environment) == "rich"
    return Look(moves, moves and not environment.get("NO_COLOR"))
