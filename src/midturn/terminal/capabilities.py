"""Capabilities of a terminal, and the prompt style they allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from midturn.terminal.prompts.rich.screen import Style
from midturn.terminal.prompts.settings import Mode, ScreenSettings

# --------------------------------------------------------------------------------------------------
# Rich and plain mode


PLAIN_TERMINALS = frozenset({"", "dumb", "unknown", "emacs"})


def choose_mode(setting: Mode, environment: Mapping[str, str]) -> Literal["rich", "plain"]:
    """Return the mode of prompts.

    `auto` selects plain mode for terminals that cannot redraw rows, and if `ACCESSIBLE` is set.
    """
    if setting != "auto":
        return setting
    return (
        "plain"
        if environment.get("TERM", "") in PLAIN_TERMINALS or environment.get("ACCESSIBLE")
        else "rich"
    )


class Look(Struct, frozen=True):
    """Whether rows can be redrawn (`moves`) and text can be coloured (`colours`)."""

    moves: bool
    colours: bool


def choose_look(setting: Mode, environment: Mapping[str, str]) -> Look:
    """Return whether the mode redraws rows and uses colours. `NO_COLOR` disables colours."""
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
"""Row styles in prompt_toolkit syntax."""


# --------------------------------------------------------------------------------------------------
# Prompt settings


class TerminalSettings(ScreenSettings, frozen=True, kw_only=True):
    """Prompt settings, from the configuration and from the program.

    Attributes:
        notify_command: Command that receives the question on stdin.
        announces: Whether to print the responder when a prompt is removed because its question was
            answered elsewhere. Unnecessary with a display that shows every answer.
        exit_leaves_open: Whether Ctrl-C leaves the question open.
        tidies: Whether to run the garbage collector after each prompt. For programs that call
            `gc.freeze`.
    """

    notify_command: tuple[str, ...] = ()
    announces: bool = True
    exit_leaves_open: bool = False
    tidies: bool = False

    @property
    def settle(self) -> float:
        """The value of `settle_ms` in seconds."""
        return self.settle_ms / 1_000
