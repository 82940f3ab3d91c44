"""Runs a rich prompt without a terminal: takes keys, returns rows and the reply."""

from __future__ import annotations

from midturn.events.prompt import Prompt
from midturn.question.reply import Reply
from midturn.terminal.prompts.plain_scene import Edit
from midturn.terminal.prompts.rich.keyboard import Key, Paste, Press
from midturn.terminal.prompts.rich.pager import ContextRows, Pager, plain_context
from midturn.terminal.prompts.rich.prompt import Debounce, RichScene
from midturn.terminal.prompts.rich.screen import POINTER, Frame, Sign, Size, row_text


class RichPromptDriver:
    """A rich prompt with its size and clock. Keys are single characters, names, or a paste."""

    def __init__(
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
        self.prompt = RichScene(
            prompt,
            columns,
            Debounce(quiet, 0),
            height=height,
            menu_first=menu_first,
            context=context,
        )
        self.outcome: Reply | Edit | Sign | None = None
        self.pager: Pager | None = None
        self.now = 0.0
        self.frame()

    def press(self, *keys: str | Paste) -> RichPromptDriver:
        """Press keys one after the other; draw the prompt after each."""
        for key in keys:
            assert self.outcome is None or isinstance(self.outcome, Sign | Edit), (
                f"{key!r} comes after {self.outcome}"
            )
            self._press(key if isinstance(key, Paste) else Press(key))
            self.frame()
        return self

    def _press(self, key: Key) -> None:
        """Send one key to the prompt, or to the pager that it opened."""
        if self.pager is None:
            self.outcome = self.prompt.press(key, self.now)
            self.pager = self.prompt.pager() if self.outcome is Sign.VIEW else None
        elif self.pager.press(key, self.now) is Sign.LEAVE:
            self.prompt.paged(self.pager)
            self.pager = None

    def type(self, text: str) -> RichPromptDriver:
        return self.press(*text)

    def frame(self) -> Frame:
        """Return the live rows, and check that they fit and contain the cursor."""
        frame = (self.pager or self.prompt).frame(self.size)
        at, column = frame.cursor
        assert len(frame.rows) <= self.size.rows
        assert 0 <= at < len(frame.rows)
        assert 0 <= column < self.size.columns
        return frame

    @property
    def live(self) -> list[str]:
        """The text of the live rows, with `>` for the arrow of the highlighted row."""
        return [row_text(spans).rstrip().replace(POINTER[0], ">") for spans in self.frame().rows]

    @property
    def reply(self) -> Reply | None:
        """The reply, if there is one."""
        return None if isinstance(self.outcome, Sign | Edit) else self.outcome

    @property
    def transcript(self) -> str:
        """The row that remains after the answer."""
        assert self.reply is not None
        return row_text(self.prompt.transcript(self.reply, self.size.columns))

    def drawn(self, title: str) -> str:
        """Draw all rows with a frame, as in golden screens."""
        static = [row_text(spans) for spans in self.prompt.static()]
        frame = self.prompt.frame(self.size)
        rows = [*static, *(row_text(spans) for spans in frame.rows)]
        at, column = frame.cursor
        edge = f"+{'-' * self.size.columns}+"
        body = "".join(f"|{text.rstrip()}\n" for text in rows)
        return f"{edge} {title}\n{body}{edge} cursor column {column}, row {at + len(static)}\n"


def pressed(prompt: Prompt, *keys: str | Paste) -> RichPromptDriver:
    """Press keys at a new prompt."""
    return RichPromptDriver(prompt).press(*keys)
