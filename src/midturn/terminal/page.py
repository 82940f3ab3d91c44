"""Both streams of a turn as one page: an empty row stands between what the assistant says and what is said beside it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from midturn.terminal.look import Look
from midturn.terminal.outlet import Outlet

PartKind: TypeAlias = Literal["words", "reasoning", "beside"]


class Page:
    """Puts whole rows on a page; the assistant's words on `out`, everything else on `err`."""

    def __init__(self, out: Outlet, err: Outlet, look: Look) -> None:
        self.out = out
        self.err = err
        self.look = look
        self._above: tuple[PartKind, Outlet] | None = None
        self._ended = False
        self._message_is_over = False
        self._prompts = 0

    def put(self, kind: PartKind, text: str) -> None:
        """Put rows below what is there."""
        if not text:
            return
        outlet = self.out if kind == "words" else self.err
        self._look_for_prompts(outlet)
        outlet.put(f"\n{text}" if self._is_apart(kind, outlet) else text)
        self._above = kind, outlet
        self._ended = False
        self._message_is_over &= kind != "words"

    def end_message(self) -> None:
        """Note that what comes next is something else, even if it is of the same kind."""
        self._message_is_over |= self._above is not None and self._above[0] == "words"
        self._ended = True

    def _look_for_prompts(self, outlet: Outlet) -> None:
        """Note a prompt that was on the screen meanwhile: it stands above now, and is none of the assistant's words."""
        if outlet.prompts > self._prompts:
            self._prompts = outlet.prompts
            self._above = "beside", outlet

    def _is_apart(self, kind: PartKind, outlet: Outlet) -> bool:
        if not outlet.is_terminal:  # in a file two messages are two paragraphs, whatever was said beside them
            return kind == "words" and self._message_is_over
        if self._above is None:
            return False
        above, last = self._above
        return last.is_terminal and (above != kind or (self._ended and kind == "words"))
