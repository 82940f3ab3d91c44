"""A secret: nothing is echoed, not even its length."""

from __future__ import annotations

from midturn.core.prompt import Prompt
from midturn.core.reply import Answered
from midturn.core.secret import SecretValue
from midturn.prompts.cells import cells, hang, wrap
from midturn.prompts.emptiness import EMPTY_SECRET, Empty
from midturn.prompts.rich.face import Pressed, Sign
from midturn.prompts.rich.key import ENTER, Key, Paste
from midturn.prompts.rich.screen import Frame, Row, Size, Span, joined, row

_HINT = "(hidden; Enter submits, Esc menu)"


class SecretField:
    """What is typed is kept, and the screen never changes with it."""

    submits = ENTER

    def __init__(self, prompt: Prompt, tail: str) -> None:
        self._tail = tail
        self._typed: list[str] = []
        self._empty = Empty(prompt)
        self._message = ""

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed."""
        return not self._typed

    def press(self, key: Key) -> Pressed:
        """Take a character, take one back (Backspace) or all (Ctrl-U), submit, or leave."""
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
        if not self._typed and self._empty.refuses():
            self._message = EMPTY_SECRET
            return Sign.RING
        secret = SecretValue("".join(self._typed))
        self._typed.clear()
        return Answered(secret)

    def frame(self, size: Size) -> Frame:
        """Draw the question and that nothing will be seen; the same however much was typed."""
        *above, last = hang(self._tail, size.columns, "  ")
        if cells(last) + 1 + cells(_HINT) < size.columns:
            rows = [*map(row, above), (Span(f"{last} "), Span(_HINT, "key"))]
        else:
            rows = [*map(row, (*above, last)), *(row(text, "key") for text in wrap(_HINT, size.columns - 1))]
        end = (len(rows) - 1, sum(cells(span.text) for span in rows[-1]) + 1)
        rows[-1] = (*rows[-1], Span("  "))
        message = [row(text, "error") for text in wrap(self._message, size.columns)] if self._message else []
        return Frame(joined(rows, message), end)

    def retitle(self, title: str) -> None:
        """Put another last row of the question above: the window has another width."""
        self._tail = title

    def kept(self, size: Size) -> list[Row]:
        """Draw the question, and nothing of what was typed."""
        return [row(text) for text in hang(self._tail, size.columns, "  ")]
