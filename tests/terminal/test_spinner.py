"""The row that counts seconds."""

from __future__ import annotations

import io
import re

import pytest

from midturn.terminal.output_pair import Gate, Outlet
from midturn.terminal.status_output import FRAMES, Spinner


class Screen(io.StringIO):
    """A terminal without a descriptor; the last row is what stands behind the last return."""

    encoding = "utf-8"  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleVariableOverride, reportAssignmentType]  # a StringIO has none

    def isatty(self) -> bool:
        """Say so."""
        return True

    @property
    def row(self) -> str:
        """What can be seen of the last row, as a terminal draws over it."""
        seen = ""
        for text in self.getvalue().rpartition("\n")[2].split("\r"):
            seen = text + seen[len(text) :]
        return seen.rstrip()


class Spun:
    """A spinner on a screen, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.gate = Gate()
        self.screen = Screen()
        self.outlet = Outlet(self.screen, self.gate)
        self.spinner = Spinner(self.gate, self.outlet, lambda: self.now)

    def after(self, seconds: float) -> str:
        """Let time pass, and return the row."""
        self.now += seconds
        self.spinner.paint()
        return re.sub(f"[{FRAMES}]", "*", self.screen.row)


def test_what_is_quick_needs_no_row() -> None:
    spun = Spun()
    spun.spinner.begin("model", "thinking")

    assert spun.after(0.3) == ""
    assert spun.after(0.2) == "* thinking 0 s"
    assert spun.after(60) == "* thinking 1 min 0 s"


def test_it_names_everything_that_goes_on() -> None:
    spun = Spun()
    spun.spinner.begin("1", "deploy")
    spun.spinner.begin("2", "read_file")
    spun.spinner.begin("3", "deploy")

    assert spun.after(2) == "* deploy, read_file 2 s"
    spun.spinner.finish("1")
    spun.spinner.finish("3")
    assert spun.after(1) == "* read_file 3 s"


def test_a_shorter_row_leaves_nothing_of_a_longer_one() -> None:
    spun = Spun()
    spun.spinner.begin("1", "a long name")
    spun.spinner.begin("2", "b")
    spun.after(1)
    spun.spinner.finish("1")

    assert spun.after(1) == "* b 2 s"


def test_it_leaves_no_trace_and_no_escape() -> None:
    spun = Spun()
    spun.spinner.begin("model", "thinking")
    spun.after(5)
    spun.spinner.finish("model")

    assert spun.screen.row == ""
    assert spun.screen.getvalue().endswith("\r")
    assert "\x1b" not in spun.screen.getvalue()


def test_output_takes_its_place() -> None:
    spun = Spun()
    spun.spinner.begin("model", "thinking")
    spun.after(5)

    spun.outlet.put("words\n")

    assert spun.screen.getvalue().endswith(" \rwords\n")
    spun.spinner.heard()
    assert spun.after(0.1) == ""
    assert spun.after(0.4) == "* thinking 5 s"


def test_it_is_gone_before_a_prompt_and_stays_away() -> None:
    spun = Spun()
    spun.spinner.begin("tool", "deploy")
    spun.after(5)

    with spun.gate.shut() as at_line_start:
        assert at_line_start
        assert spun.screen.row == ""
        before = spun.screen.getvalue()
        assert spun.after(5) == ""
        assert spun.screen.getvalue() == before

    assert spun.after(0.1) == "* deploy 10 s"


def test_it_counts_down_to_the_next_attempt() -> None:
    spun = Spun()
    spun.spinner.begin("model", "thinking")
    spun.spinner.heard()
    spun.spinner.wait(2.0)

    assert spun.after(0.5) == "* trying again in 2 s"
    assert spun.after(1.0) == "* trying again in 1 s"
    assert spun.after(1.0) == "* thinking 2 s"


def test_a_countdown_alone_goes_away() -> None:
    spun = Spun()
    spun.spinner.wait(1.0)
    assert spun.spinner.is_busy
    spun.after(0.5)

    assert spun.after(1.0) == ""
    assert not spun.spinner.is_busy


def test_a_row_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    spun = Spun()
    monkeypatch.setattr(Outlet, "columns", 12)
    spun.spinner.begin("tool", "a_tool_with_a_long_name")

    assert spun.after(1) == "* a_tool_w…"
