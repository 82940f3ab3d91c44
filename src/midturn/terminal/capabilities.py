"""Capabilities of a terminal (colours, rows that move, plain text), and the look of prompts that follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from midturn.terminal.prompts.rich.screen import Style
from midturn.terminal.prompts.settings import Mode, ScreenSettings

# ----------------------------------------------------------------------------------------------------------------------
# The two looks of a prompt


PLAIN_TERMINALS = frozenset({"", "dumb", "unknown", "emacs"})


def choose_mode(setting: Mode, environment: Mapping[str, str]) -> Literal["rich", "plain"]:
    """Return what `setting` says; `auto` is plain for terminals that draw nothing, and where `ACCESSIBLE` is set."""
    if setting != "auto":
        return setting
    return "plain" if environment.get("TERM", "") in PLAIN_TERMINALS or environment.get("ACCESSIBLE") else "rich"


class Look(Struct, frozen=True):
    """`moves`: a row may be drawn over; `colours`: text may be coloured, with what that needs."""

    moves: bool
    colours: bool


def choose_look(setting: Mode, environment: Mapping[str, str]) -> Look:
    """Return what the mode allows, without colours where `NO_COLOR` is set."""
    moves = choose_mode(setting, environment) == "rich"
    return Look(moves, moves and not environment.get("NO_COLOR"))


STYLES: dict[Style, str] = {
    "header": "bold",
    "quoted": "ansibrightblack",
    "gutter": "ansibrightblack",
    "dim": "ansibrightblack",
    "key": "ansicyan",
    "pointer": "ansicyan bold",
    "chosen": "ansigreen",
    "error": "ansired",
    "hidden": "reverse",
    "added": "ansigreen",
    "removed": "ansired",
    "inserted": "ansigreen bold underline",
    "deleted": "ansired bold underline",
    "hunk": "ansicyan",
    "code": "ansiyellow",
    "strong": "bold",
    "emphasis": "italic",
    "struck": "strike",
    "heading": "bold underline",
    "name": "ansicyan",
    "string": "ansigreen",
    "number": "ansiyellow",
    "found": "ansicyan underline",
    "link": "ansicyan underline",
    "keyword": "ansimagenta",
}
"""What the styles of rows look like, in the words of prompt_toolkit."""


# ----------------------------------------------------------------------------------------------------------------------
# Settings of a terminal's prompts


class TerminalSettings(ScreenSettings, frozen=True, kw_only=True):
    """Configuration of prompts, and what only the program that asks knows.

    `notify_command` runs a program of the user's with the question on stdin. `announces`: it says itself who answered a prompt that was
    taken away; a display that shows every answer does that better. `tidies`: it has put aside what it loaded (`gc.freeze`), so that
    collecting what a prompt leaves behind takes a moment, and is done after each. `exit_leaves_open` is set on each prompt.
    """

    notify_command: tuple[str, ...] = ()
    announces: bool = True
    exit_leaves_open: bool = False
    tidies: bool = False

    @property
    def settle(self) -> float:
        """`settle_ms` in seconds."""
        return self.settle_ms / 1_000
