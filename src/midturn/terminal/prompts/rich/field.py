"""Text fields: for text, JSON, replies, reasons, free text, and edits of the content that a person
is asked to approve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.json_value import SecretValue
from midturn.question.reply import Answered
from midturn.question.text import exact, hidden_places
from midturn.terminal.prompts.accept import EMPTY_SECRET, NotAccepted, empty_once
from midturn.terminal.prompts.cells import BETWEEN, cells, hang, wrap
from midturn.terminal.prompts.keys import leaves
from midturn.terminal.prompts.plain_scene import Edit
from midturn.terminal.prompts.rich.buffer import Buffer
from midturn.terminal.prompts.rich.burst import KeyMode
from midturn.terminal.prompts.rich.keyboard import ENTER, Key, Paste, Press
from midturn.terminal.prompts.rich.pager import json_spans
from midturn.terminal.prompts.rich.screen import (
    POINTER,
    Frame,
    Pressed,
    Row,
    Sign,
    Size,
    Span,
    clipped,
    joined,
    parts_rows,
    row,
)

_NEW_LINE = frozenset({"m-enter", "s-enter", "c-enter", "c-j"})
_WIDE = 72
_MARK = "?"
_TAB = "⇥"


class FieldSettings(Struct, frozen=True):
    """Title, kind of input and keys of a field.

    Attributes:
        title: Text above the field.
        kind: Plain text or JSON.
        escape: Effect of Esc.
        escape_hint: Description of Esc.
        shape: A template in dim text. It is accepted as an answer only after it was changed.
        about: Description of the expected input.
        as_json: Opens a field in which the whole value is edited as JSON.
        notes: Returns a description of the typed text, displayed below the field.
        tab: Called for Tab. It changes the result of `notes`, such as the scope of a rule.
        tab_word: Hint that describes the effect of Tab.
    """

    title: str
    kind: Literal["text", "json"] = "text"
    escape: Sign = Sign.LEAVE
    escape_hint: str = "Esc goes back"
    shape: str = ""
    about: str = ""
    as_json: Callable[[], Pressed] | None = None
    notes: Callable[[str], Sequence[str]] | None = None
    tab: Callable[[], None] | None = None
    tab_word: str = ""


class TextField:
    """A text field.

    Errors are displayed below the text. The text stays in the field until `then` accepts it.
    """

    submits = frozenset({"enter"})
    entry = KeyMode(writes=True, decides=submits)

    def __init__(self, settings: FieldSettings, text: str, then: Callable[[str], Pressed]) -> None:
        self._settings = settings
        self._then = then
        self._buffer = Buffer(text)
        self._initial = text
        self._judged: tuple[str, frozenset[int]] = ("", frozenset())
        self._errors: list[str] = []
        self._shaped = bool(settings.shape) and not text
        self._width = 80
        self._first = 0

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed."""
        return not self.text

    @property
    def changed(self) -> bool:
        """Whether the text differs from its initial value."""
        return self.text != self._initial

    @property
    def text(self) -> str:
        """The text typed so far."""
        return self._buffer.text

    @property
    def goes_back(self) -> bool:
        """Whether Esc returns to the question without a menu."""
        return self._settings.escape is Sign.LEAVE

    def edited(self, text: str) -> None:
        """Replace the text with the text from the external editor, without submitting it."""
        self._buffer.replace(text)
        self._shaped = self._shaped and text in ("", self._settings.shape)

    def say(self, *lines: str) -> None:
        """Show a message below the text until the next key."""
        self._errors = list(lines)

    def press(self, key: Key) -> Pressed:
        """Handle a key: edit, submit, or leave."""
        if self._settings.as_json and key == Press("m-j"):
            return self._settings.as_json()
        if self._settings.tab and key == Press("tab"):
            self._settings.tab()
            return None
        outcome = self._press(key)
        self._shaped = self._shaped and self.text in ("", self._settings.shape)
        return outcome

    def _press(self, key: Key) -> Pressed:  # noqa: PLR0911 (one `return` for each effect of a key)
        self._errors = []
        if isinstance(key, Paste):
            self._buffer.insert(key.text)
            return None
        match key.key:
            case "enter":
                return self._submit()
            case "escape":
                return self._settings.escape
            case "c-x":
                return Edit(
                    self.text or self._settings.shape,
                    ".json" if self._settings.kind == "json" else ".txt",
                )
            case "tab" | "right" | "down" if self._shaped and not self.text:
                self._insert_shape()
            case "up" | "c-p" | "down" | "c-n":
                return self._move(-1 if key.key in {"up", "c-p"} else 1)
            case name if name in _NEW_LINE:
                self._buffer.insert(f"\n{self._indentation()}")
            case "tab":
                self._buffer.insert("  ")
            case name if key.character:
                self._buffer.type(name)
            case name:
                return None if self._buffer.press(name) else Sign.RING
        return None

    def _insert_shape(self) -> None:
        """Insert the template and move the cursor to its first empty string."""
        self._buffer.replace(self._settings.shape)
        if (empty := self.text.find('""')) >= 0:
            self._buffer.cursor = empty + 1

    def frame(self, size: Size) -> Frame:
        """Draw the title, the visible part of the text, the errors and the key hints."""
        title = self._title(size)
        errors = [
            row(text, "error")
            for line in self._errors
            for text in hang(f"! {line}", size.columns, "  ")
        ]
        hint = parts_rows(self._hint(size).split(BETWEEN), size.columns)
        notes = self._notes(size)[: max(0, size.rows - len(title) - len(errors) - len(hint) - 1)]
        self._width = max(1, size.columns - len(POINTER))
        at, column = self._buffer.place(self._width)
        room = max(1, size.rows - len(title) - len(notes) - len(errors) - len(hint))
        self._first = min(max(self._first, at - room + 1), at)
        ranges = self._buffer.rows(self._width)[self._first : self._first + room]
        texts = [self._drawn(start, end, first=start == 0) for start, end in ranges]
        if self._shaped and not self.text:
            texts = self._shape_rows(room, size.columns)
        return Frame(
            joined(title, texts, notes, errors, hint),
            (len(title) + at - self._first, column + len(POINTER)),
        )

    def retitle(self, title: str) -> None:
        """Replace the title after a resize."""
        self._settings = replace(self._settings, title=title)

    def kept(self, size: Size) -> list[Row]:
        """Return the title, the description, and the typed text or the template."""
        room = max(1, size.rows // 3)
        ranges = self._buffer.rows(max(1, size.columns - len(POINTER)))[:room] if self.text else []
        typed = [self._drawn(start, end, first=start == 0) for start, end in ranges]
        return [
            *self._title(size),
            *typed,
            *(self._shape_rows(room, size.columns) if self._shaped and not self.text else []),
        ]

    def _title(self, size: Size) -> list[Row]:
        title = (
            [row(text) for text in hang(self._settings.title, size.columns, "  ")]
            if self._settings.title
            else []
        )
        about = (
            [row(text, "dim") for text in hang(self._settings.about, size.columns, "  ")]
            if self._settings.about
            else []
        )
        return [*title, *about]

    def _notes(self, size: Size) -> list[Row]:
        lines = self._settings.notes(self.text) if self._settings.notes else ()
        return [row(text, "dim") for line in lines for text in hang(line, size.columns, "  ")]

    def _hint(self, size: Size) -> str:
        if self._settings.tab:
            return f"{self._settings.tab_word}{BETWEEN}{_HINT}{BETWEEN}Esc goes back"
        escape = self._settings.escape_hint
        if self._shaped and not self.text:
            return f"{_SHAPE_HINT} · {escape}"
        if self._settings.as_json:
            return f"Enter submits · Alt+J all as JSON · Ctrl+X editor · {escape}"
        return f"{_HINT} · {escape}" if size.columns >= _WIDE else _SHORT_HINT

    def _shape_rows(self, room: int, columns: int) -> list[Row]:
        """Return the rows of the template, in dim text."""
        first, *more = (exact(line) for line in self._settings.shape.split("\n"))
        rows: list[Row] = [
            (Span(POINTER, "pointer"), Span(first, "dim")),
            *(row(" " * len(POINTER) + line, "dim") for line in more),
        ]
        return [clipped(drawn, columns) for drawn in rows[:room]]

    def _submit(self) -> Pressed:
        if self._shaped:
            self._errors = ["this is only a template: fill it in"]
            return None
        try:
            return self._then(self.text)
        except NotAccepted as error:
            self._errors = error.lines
            if error.offset is not None:
                self._buffer.cursor = min(error.offset, len(self.text))
            return None

    def _move(self, by: int) -> Pressed:
        return None if self._buffer.move_rows(by, self._width) else Sign.RING

    def _indentation(self) -> str:
        """Return the indentation of the previous line, for a new line of JSON."""
        if self._settings.kind != "json":
            return ""
        line = self.text[self.text.rfind("\n", 0, self._buffer.cursor) + 1 : self._buffer.cursor]
        return line[: len(line) - len(line.lstrip(" "))]

    def _drawn(self, start: int, end: int, *, first: bool) -> Row:
        """Draw a part of the text.

        A character that cannot be displayed becomes a reversed question mark.
        """
        before = Span(POINTER if first else " " * len(POINTER), "pointer")
        text, hidden = self.text[start:end], self._hidden_places()
        if not any(start <= place < end for place in hidden):
            spans = json_spans(text) if self._settings.kind == "json" else (Span(text),)
            return (before, *spans, Span(" "))
        return (
            before,
            *(
                _character(char, is_hidden=place in hidden)
                for place, char in enumerate(text, start)
            ),
            Span(" "),
        )

    def _hidden_places(self) -> frozenset[int]:
        """Return the indexes of characters that cannot be displayed."""
        if self._judged[0] != self.text:
            self._judged = self.text, hidden_places(self.text)
        return self._judged[1]


def _character(char: str, *, is_hidden: bool) -> Span:
    """Draw one character.

    A tab is drawn as a symbol. A character that cannot be displayed becomes a reversed question
    mark.
    """
    return (
        Span(char)
        if not is_hidden
        else Span(_TAB, "dim")
        if char == "\t"
        else Span(_MARK, "hidden")
    )


_SHAPE_HINT = "Tab inserts the template, Enter submits · Ctrl+X editor"
_HINT = "Enter submits · Alt+Enter newline · Ctrl+X editor"
_SHORT_HINT = "Enter · Alt+Enter nl · ^X editor · Esc"


# --------------------------------------------------------------------------------------------------
# Secret fields: neither the text nor its length is displayed


def _hidden_hint(prompt: Prompt) -> str:
    escape = f"Esc {leaves(prompt)}" if prompt.exit_leaves_open else "Esc menu"
    return f"(hidden; Enter submits, {escape})"


class SecretField:
    """A field for a secret. Neither the text nor its length is displayed."""

    submits = ENTER
    entry = KeyMode(writes=True, decides=submits)

    def __init__(self, prompt: Prompt, tail: str) -> None:
        self._tail = tail
        self._hint = _hidden_hint(prompt)
        self._typed: list[str] = []
        self._empty = empty_once(prompt)
        self._message = ""

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed."""
        return not self._typed

    def press(self, key: Key) -> Pressed:
        """Insert a character, delete one character (Backspace) or all of them (Ctrl-U), submit, or
        leave.
        """
        self._message = ""
        if isinstance(key, Paste):
            self._typed += key.text.removesuffix("\n")
        elif key.key in ENTER:
            return self._submit()
        elif key.key == "escape":
            return Sign.MENU
        elif key.key == "backspace":
            del self._typed[-1:]
        elif key.key in {"c-u", "c-w"}:
            self._typed.clear()
        elif key.character:
            self._typed.append(key.character)
        return None

    def _submit(self) -> Pressed:
        if not self._typed and self._empty.now():
            self._message = EMPTY_SECRET
            return Sign.RING
        secret = SecretValue("".join(self._typed))
        self._typed.clear()
        return Answered(secret)

    def frame(self, size: Size) -> Frame:
        """Draw the question and the hint. The result does not depend on the typed text."""
        *above, last = hang(self._tail, size.columns, "  ")
        if cells(last) + 1 + cells(self._hint) < size.columns:
            rows = [*map(row, above), (Span(f"{last} "), Span(self._hint, "key"))]
        else:
            rows = [
                *map(row, (*above, last)),
                *(row(text, "key") for text in wrap(self._hint, size.columns - 1)),
            ]
        end = (len(rows) - 1, sum(cells(span.text) for span in rows[-1]) + 1)
        rows[-1] = (*rows[-1], Span("  "))
        message = (
            [row(text, "error") for text in wrap(self._message, size.columns)]
            if self._message
            else []
        )
        return Frame(joined(rows, message), end)

    def retitle(self, title: str) -> None:
        """Replace the last row of the question after a resize."""
        self._tail = title

    def kept(self, size: Size) -> list[Row]:
        """Return the question without the typed text."""
        return [row(text) for text in hang(self._tail, size.columns, "  ")]
