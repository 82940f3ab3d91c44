"""A window that changes its size: everything is drawn once when the size rests, and nothing piles up in the history of the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from midturn.terminal.prompts.rich.screen import row
from midturn.terminal.resizing import reflowed
from support.pty_session import ask_once
from support.tmux import Tmux, needs_tmux

WIDTHS = [*range(78, 58, -2), *range(62, 82, 2)]
HEIGHTS = [12, 24, 11, 24, 12, 20, 12, 24, 10, 24, 12]
PROMPTS = {
    "boolean_cut": ("Apply all of it?", "line 5", "all keys"),
    "select": ("Which environment", "Assistant", "2 production", "Enter picks"),
    "select48": ("Which file?", "Assistant", "module_00", "Enter picks"),
    "run": ("Run deploy?", "all keys"),
}


def copies(tmux: Tmux, name: str) -> dict[str, int]:
    """Return how often each part of a prompt is on the screen and in the history."""
    rows = tmux.history
    return {part: sum(part in found for found in rows) for part in PROMPTS[name]}


def asked(tmux: Tmux, name: str, result: Path) -> int:
    """Ask a prompt; return how many rows there are."""
    tmux.ask(name, result, size=(80, 24), before="seq 1001 1040")
    tmux.wait_for(PROMPTS[name][-1])
    tmux.rest()
    return len(tmux.history)


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return tmp_path / "result"


@needs_tmux
@pytest.mark.parametrize("rests", [False, True], ids=["at once", "step by step"])
@pytest.mark.parametrize("sizes", [[(width, 24) for width in WIDTHS], [(80, height) for height in HEIGHTS]], ids=["widths", "heights"])
@pytest.mark.parametrize("name", PROMPTS)
def test_the_history_holds_a_prompt_once(tmux: Tmux, name: str, sizes: Iterable[tuple[int, int]], rests: bool, result: Path) -> None:  # noqa: FBT001
    before = asked(tmux, name, result)
    parts = copies(tmux, name)
    for columns, rows in sizes:
        tmux.resize(columns, rows)
        if rests:
            tmux.rest()
    tmux.rest()

    assert copies(tmux, name) == parts
    assert len(tmux.history) <= before + 4


@needs_tmux
def test_what_was_on_the_screen_before_the_prompt_stays(tmux: Tmux, result: Path) -> None:
    tmux.ask("select", result, size=(80, 24), before="seq 1001 1010")
    tmux.wait_for("Enter picks")
    for width in (60, 40, 80):
        tmux.resize(width, 24)
        tmux.rest()

    shown = tmux.history
    assert [found for found in shown if found.startswith("10")] == [str(number) for number in range(1001, 1011)]
    assert shown[10].startswith("│ Assistant")


@needs_tmux
def test_a_key_that_answers_while_the_size_changes_leaves_one_row(tmux: Tmux, result: Path) -> None:
    asked(tmux, "boolean_cut", result)
    tmux.resize(50, 24)
    tmux("send-keys", "n")
    tmux.wait_until(result.exists, "reply")
    tmux.rest()

    rows = tmux.history
    assert sum("Apply all of it?" in found for found in rows) == 1
    assert not any("all keys" in found for found in rows)


def test_a_key_is_taken_while_the_size_changes_and_drawn_when_it_rests(result: Path) -> None:
    with ask_once("text_empty", result, environment={"TERM": "xterm-256color", "SETTLE": "0"}) as session:
        session.wait_for("Enter submits")
        session.resize(50, 20)
        session.send("note")
        session.wait_for("note")
        session.send("\r")

        assert session.wait_for_end() == 0
        assert "value='note'" in result.read_text()


def test_rows_are_counted_as_the_terminal_breaks_them() -> None:
    rows = [row("x" * 30), row(""), row("界" * 20), row("x" * 20)]

    assert reflowed(rows, 20) == [2, 1, 2, 1]
