"""A rich prompt without a terminal: keys in, rows and the reply out."""

from __future__ import annotations

from midturn.events.prompt import Prompt
from midturn.question.reply import Reply
from midturn.terminal.prompts.plain_scene import Edit
from midturn.terminal.prompts.rich.keyboard import Key, Paste, Press
from midturn.terminal.prompts.rich.pager import ContextRows, Pager, plain_context
from midturn.terminal.prompts.rich.prompt import RichScene, Settle
from midturn.terminal.prompts.rich.screen import POINTER, Frame, Sign, Size, row_text


class Keys:
    """One prompt and the keys that are pressed: single characters, names, or a paste."""

    def __init__(  # noqa: PLR0913  every part of a prompt has its own
        self,
        prompt: Prompt,
        *,
        columns: int = 80,
        rows: int = 30,
        quiet: float = 0,
        height: int = 0,
        menu_first: bool = False,
        context: ContextRows = plain_context,
    ) -> None:
        self.size = Size(columns, rows)
        self.prompt = RichScene(prompt, columns, Settle(quiet, 0), height=height, menu_first=menu_first, context=context)
        self.outcome: Reply | Edit | Sign | None = None
        self.pager: Pager | None = None
        self.now = 0.0
        self.frame()

    def press(self, *keys: str | Paste) -> Keys:
        """Press keys one after the other, each drawn."""
        for key in keys:
            assert self.outcome is None or isinstance(self.outcome, Sign | Edit), f"{key!r} comes after {self.outcome}"
            self._press(key if isinstance(key, Paste) else Press(key))
            self.frame()
        return self

    def _press(self, key: Key) -> None:
        """Press one key, where the keys go now: to the prompt, or to the screen of its own that it opened."""
        if self.pager is None:
            self.outcome = self.prompt.press(key, self.now)
            self.pager = self.prompt.pager() if self.outcome is Sign.VIEW else None
        elif self.pager.press(key, self.now) is Sign.LEAVE:
            self.prompt.paged(self.pager)
            self.pager = None

    def type(self, text: str) -> Keys:
        """Type a text."""
        return self.press(*text)

    def frame(self) -> Frame:
        """Return the live rows, and check what holds for all: they fit, and the cursor is on them."""
        frame = (self.pager or self.prompt).frame(self.size)
        at, column = frame.cursor
        assert len(frame.rows) <= self.size.rows
        assert 0 <= at < len(frame.rows)
        assert 0 <= column < self.size.columns
        return frame

    @property
    def live(self) -> list[str]:
        """What the live rows say, the arrow of the highlighted row as `>`."""
        return [row_text(spans).rstrip().replace(POINTER[0], ">") for spans in self.frame().rows]

    @property
    def reply(self) -> Reply | None:
        """What the keys answered."""
        return None if isinstance(self.outcome, Sign | Edit) else self.outcome

    @property
    def transcript(self) -> str:
        """The row that stays."""
        assert self.reply is not None
        return row_text(self.prompt.transcript(self.reply, self.size.columns))

    def drawn(self, title: str) -> str:
        """Draw everything with a frame around, as the golden screens are kept."""
        static = [row_text(spans) for spans in self.prompt.static()]
        frame = self.prompt.frame(self.size)
        rows = [*static, *(row_text(spans) for spans in frame.rows)]
        at, column = frame.cursor
        edge = f"+{'-' * self.size.columns}+"
        body = "".join(f"|{text.rstrip()}\n" for text in rows)
        return f"{edge} {title}\n{body}{edge} cursor column {column}, row {at + len(static)}\n"


def pressed(prompt: Prompt, *keys: str | Paste) -> Keys:
    """Press keys at a fresh prompt."""
    return Keys(prompt).press(*keys)
