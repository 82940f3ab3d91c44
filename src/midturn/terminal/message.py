"""One message of the model as it arrives: its words, or its reasoning."""

from __future__ import annotations

import sys

from midturn.terminal.flow import Flow, PlainFlow, Untouched
from midturn.terminal.outlet import Page, PartKind

_REASONING_MARK = "~ "
_UNLIMITED = sys.maxsize  # cells: what is not read on a terminal is not wrapped
_DIM, _UNDIM = "\x1b[90m", "\x1b[0m"


class StreamedMessage:
    """Puts on the page what is final of a text that arrives in pieces."""

    def __init__(self, page: Page, kind: PartKind) -> None:
        self._page = page
        self._kind: PartKind = kind
        self._flow: Flow | None = None
        self._is_prepared = False

    @property
    def is_open(self) -> bool:
        """Whether it has begun."""
        return self._flow is not None

    def prepare(self) -> None:
        """Load what draws it while nothing comes, so that its first piece need not wait for that."""
        if not self._is_prepared:
            self._is_prepared = True
            self._new_flow()

    def feed(self, text: str) -> bool:
        """Take the next piece; tell whether something new can be seen."""
        if self._flow is None:
            self._flow = self._new_flow()
        return self._put(self._flow.feed(text))

    def tick(self) -> bool:
        """Put down what has waited long enough."""
        return self._flow is not None and self._put(self._flow.tick())

    def finish(self) -> None:
        """Put down the rest: the message is complete, or it was cut off."""
        if self._flow is not None:
            flow, self._flow = self._flow, None
            self._put(flow.finish())
            self._page.end_message()

    def _new_flow(self) -> Flow:
        return _words_flow(self._page) if self._kind == "words" else _reasoning_flow(self._page)

    def _put(self, text: str) -> bool:
        self._page.put(self._kind, text)
        return bool(text)


def _words_flow(page: Page) -> Flow:
    out = page.out
    if not out.is_terminal:
        return Untouched()
    if not page.look.colours:
        return PlainFlow(lambda: out.columns)
    from midturn.terminal.markdown import flow, layout  # loaded with the first words that are drawn

    return flow.MarkdownFlow(lambda: out.columns, layout.UNICODE if out.unicode else layout.ASCII)


def _reasoning_flow(page: Page) -> Flow:
    err = page.err
    if not err.is_terminal:
        return PlainFlow(lambda: _UNLIMITED)
    return PlainFlow(lambda: err.columns, _REASONING_MARK, _dim if page.look.colours else str)


def _dim(row: str) -> str:
    return f"{_DIM}{row}{_UNDIM}"
