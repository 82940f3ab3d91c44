"""The status row with elapsed seconds."""

from __future__ import annotations

import io
import re

import pytest

from midturn.terminal.output_pair import Gate, OutputSink
from midturn.terminal.status_output import FRAMES, Spinner


class Screen(io.StringIO):
    """A terminal without a descriptor. The last row follows the last carriage return."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Return true."""
        return True

    @property
    def row(self) -> str:
        """Return the visible text of the last row after overwriting."""
        seen = ""
        for text in self.getvalue().rpartition("\n")[2].split("\r"):
            seen = text + seen[len(text) :]
        return seen.rstrip()


class SpinnerOnScreen:
    """A spinner with a screen and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.gate = Gate()
        self.screen = Screen()
        self.outlet = OutputSink(self.screen, self.gate)
        self.spinner = Spinner(self.gate, self.outlet, lambda: self.now)

    def after(self, seconds: float) -> str:
        """Advance the clock, and return the row."""
        self.now += seconds
        self.spinner.paint()
        return re.sub(f"[{FRAMES}]", "*", self.screen.row)


def test_a_quick_operation_shows_no_row() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.begin("model", "thinking")

    assert spun.after(0.3) == ""
    assert spun.after(0.2) == "* thinking 0 s"
    assert spun.after(60) == "* thinking 1 min 0 s"


def test_the_row_names_all_running_operations() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.begin("1", "deploy")
    spun.spinner.begin("2", "read_file")
    spun.spinner.begin("3", "deploy")

    assert spun.after(2) == "* deploy, read_file 2 s"
    spun.spinner.finish("1")
    spun.spinner.finish("3")
    assert spun.after(1) == "* read_file 3 s"


def test_a_shorter_row_overwrites_a_longer_one() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.begin("1", "a long name")
    spun.spinner.begin("2", "b")
    spun.after(1)
    spun.spinner.finish("1")

    assert spun.after(1) == "* b 2 s"


def test_the_row_is_removed_without_escape_sequences() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.begin("model", "thinking")
    spun.after(5)
    spun.spinner.finish("model")

    assert spun.screen.row == ""
    assert spun.screen.getvalue().endswith("\r")
    assert "\x1b" not in spun.screen.getvalue()


def test_output_replaces_the_row() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.begin("model", "thinking")
    spun.after(5)

    spun.outlet.put("words\n")

    assert spun.screen.getvalue().endswith(" \rwords\n")
    spun.spinner.heard()
    assert spun.after(0.1) == ""
    assert spun.after(0.4) == "* thinking 5 s"


def test_the_row_is_hidden_during_a_prompt() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.begin("tool", "deploy")
    spun.after(5)

    with spun.gate.shut() as at_line_start:
        assert at_line_start
        assert spun.screen.row == ""
        before = spun.screen.getvalue()
        assert spun.after(5) == ""
        assert spun.screen.getvalue() == before

    assert spun.after(0.1) == "* deploy 10 s"


def test_the_row_counts_down_to_the_next_attempt() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.begin("model", "thinking")
    spun.spinner.heard()
    spun.spinner.wait(2.0)

    assert spun.after(0.5) == "* trying again in 2 s"
    assert spun.after(1.0) == "* trying again in 1 s"
    assert spun.after(1.0) == "* thinking 2 s"


def test_a_countdown_alone_disappears() -> None:
    spun = SpinnerOnScreen()
    spun.spinner.wait(1.0)
    assert spun.spinner.is_busy
    spun.after(0.5)

    assert spun.after(1.0) == ""
    assert not spun.spinner.is_busy


def test_a_row_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    spun = SpinnerOnScreen()
    monkeypatch.setattr(OutputSink, "columns", 12)
    spun.spinner.begin("tool", "a_tool_with_a_long_name")

    assert spun.after(1) == "* a_tool_w…"
