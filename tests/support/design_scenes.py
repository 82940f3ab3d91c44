"""The screens of the design documents, the keys that produce them in our prompts, and the reasons
for differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from midturn.terminal.prompts.cells import cut_ranges
from midturn.terminal.prompts.rich.screen import row_text
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import PROMPTS
from support.rich_prompt_driver import RichPromptDriver

DESIGN = Path(__file__).parents[3] / "shared" / "design" / "screens"
SCREEN = re.compile(
    r"^\+-+\+ (?!cursor)(.+)\n((?:\|.*\n)*)\+-+\+ cursor column (\d+), row \d+$", re.MULTILINE
)
TALL = 29  # rows; a full screen of the design shows the end of the output
MENU_FIRST = "the menu row first"

_SECOND_LINE = (*" so far", "m-enter", *"second line")
_TO_REPLICAS = ("up", "up", "end", "left", "backspace")
KEYS: dict[str, tuple[str, ...]] = {
    "boolean: as asked": (),
    "boolean: ? help": ("?",),
    "boolean: wrong key": ("x",),
    "boolean: Y pressed": ("Y",),
    "boolean_no_persistence: as asked": (),
    "boolean_no_persistence: Enter without a default": ("enter",),
    "boolean_long: as asked": (),
    "select: as asked": (),
    "select: arrow down": ("down",),
    "select: ? help": ("down", "?"),
    "select: 3 pressed": ("3",),
    "select48: as asked": (),
    "select48: filter e_4": (*"e_4",),
    "select48: no match": (*"e_4zz",),
    "select48: Esc Esc: cancel menu": (*"e_4zz", "escape", "escape"),
    "multi: as asked": (),
    "multi: toggled": (" ", "down", " "),
    "multi: Enter below minimum": (" ", "down", "enter"),
    "multi: Esc: cancel menu": ("escape",),
    "text: pre-prompt": (MENU_FIRST,),
    "text: Enter: input, default prefilled": (),
    "text: Alt+Enter and typing": _SECOND_LINE,
    "text: Esc: cancel menu": ("escape",),
    "text: Esc resumes, Enter": (*_SECOND_LINE, "escape", "escape", "enter"),
    "secret: as asked": (),
    "secret: typed": (*"hunter2",),
    "secret: Enter": (*"hunter2", "enter"),
    "schema: as asked": (),
    "schema: bad JSON": ("backspace", "enter"),
    "schema: schema violation": (*_TO_REPLICAS, *"99", "down", "down", "enter"),
    "schema: fixed": (*_TO_REPLICAS, "7", "enter"),
    "untrusted: as asked": (),
    "wide: as asked": (),
}
LINES: dict[str, tuple[str, ...]] = {
    "boolean: as asked": (),
    "boolean: ?": ("?",),
    "boolean: y": ("?", "y"),
    "select: as asked": (),
    "select: 2": ("2",),
    "select48: as asked": (),
    "select48: /e_4": ("/e_4",),
    "select48: 48": ("/e_4", "48"),
    "multi: as asked": (),
    "multi: 2-3": ("2-3",),
    "text: as asked": (),
    "text: answer": ("a note",),
    "secret: as asked": (),
    "secret: typed": ("hunter2",),
    "schema: as asked": (),
    "schema: wrong": ('{"replicas": 99, "region": "eu"}',),
    "schema: right": ('{"replicas": 99, "region": "eu"}', '{"replicas": 9, "region": "eu"}'),
}
ELSEWHERE = {
    "form_2_of_3": (
        "a form is several prompts: tests/cli/test_demo_forms.py and the screens form.txt"
    ),
    "progress_above": (
        "output is held while a prompt is open (5.1):"
        " test_held_output_of_the_program_appears_after_the_answer"
    ),
}
_INDENT = "a row that goes on is indented, so that no forged header begins at the edge (9.2)"
_NO_WITH_A_REASON = "p, a no with a typed reason, is a key of every yes/no question (5.4)"
_WRAPPED = "rows are broken at words and indented, not by the terminal in the middle of a word"
_KEYS = "every prompt names all of its keys"
_ERRORS = "a form's and a model's answer get the same words"
IN_WORDS = (
    "keys are named in words, and the question stays on the screen (5.3); the header stands behind"
    " the gutter, so that nothing imitates it"
)
RICH_REASONS = {
    "boolean": f"{_NO_WITH_A_REASON}; {_INDENT}",
    "boolean_no_persistence": _NO_WITH_A_REASON,
    "boolean_long": f"{_NO_WITH_A_REASON}; {_INDENT}",
    "select": f"{_INDENT}; the help names itself",
    "select48": (
        f"a description stands under its label with the same indent in every list; {_INDENT}"
    ),
    "multi": f"{_ERRORS}; {_INDENT}",
    "schema": _ERRORS,
    "untrusted": (
        "what cannot be shown is ⟨U+001B⟩ and can be read back (9.1); header, label and error are"
        " hostile too"
    ),
    "wide": (
        "flags and skin tones are words, because terminals disagree about their width; our third"
        " option is shorter"
    ),
}
PLAIN_REASONS = {
    "boolean": f"{_NO_WITH_A_REASON}; {_WRAPPED}",
    "select": _WRAPPED,
    "select48": _WRAPPED,
    "multi": f"{_KEYS}; {_WRAPPED}",
    "text": f"{_KEYS}, back and an empty text among them; {_WRAPPED}",
    "secret": f"{_KEYS}; an answer is what follows at once",
    "schema": f"a draft stands behind the gutter (9.2); {_ERRORS}; {_WRAPPED}",
}


class Scene(Struct, frozen=True):
    """A screen of the design: title, rows, and column of the cursor."""

    title: str
    rows: list[str]
    cursor: int

    @property
    def name(self) -> str:
        """The name of the prompt."""
        return self.title.partition(":")[0]


def scenes(mode: str, columns: int) -> Iterator[Scene]:
    """Read the screens of the design."""
    for found in SCREEN.finditer((DESIGN / f"{mode}_{columns}.txt").read_text(encoding="utf-8")):
        yield Scene(found[1], [row[1:-1].rstrip() for row in found[2].splitlines()], int(found[3]))


def rich_rows(title: str, columns: int) -> list[str]:
    """Draw a screen with the rich prompts."""
    pressed = [key for key in KEYS[title] if key != MENU_FIRST]
    keys = RichPromptDriver(
        PROMPTS[title.partition(":")[0]], columns=columns, menu_first=MENU_FIRST in KEYS[title]
    ).press(*pressed)
    static = [row_text(spans).rstrip() for spans in keys.prompt.static()]
    live = [row_text(spans).rstrip() for spans in keys.frame().rows]
    return [*static, *([keys.transcript.rstrip()] if keys.reply is not None else live)]


def plain_rows(title: str, columns: int) -> list[str]:
    """Draw a screen with the plain prompts. Typed text follows the text that asked for it."""
    prompt, lines = PROMPTS[title.partition(":")[0]], LINES[title]
    said = PlainPromptDriver(prompt, width=columns).said
    for count, line in enumerate(lines, 1):
        shown = "" if title.startswith("secret") else line
        said = [
            *said[:-1],
            f"{said[-1]}{shown}",
            *PlainPromptDriver(prompt, *lines[:count], width=columns).said[len(said) :],
        ]
    rows = [row for text in said for row in text.split("\n")]
    return [
        part.rstrip()
        for row in rows
        for part in (row[start:end] for start, end in cut_ranges(row, columns))
    ]
