"""Resizing of the window.

The prompt is redrawn once when the size no longer changes, and is not repeated in the
scrollback.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Return how often each part of a prompt occurs on the screen and in the scrollback."""
    rows = tmux.history
    return {part: sum(part in found for found in rows) for part in PROMPTS[name]}


def asked(tmux: Tmux, name: str, result: Path) -> int:
    """Ask a prompt, and return its number of rows."""
    tmux.ask(name, result, size=(80, 24), before="seq 1001 1040")
    tmux.wait_for(PROMPTS[name][-1])
    tmux.wait_until_idle()
    return len(tmux.history)


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return tmp_path / "result"


@needs_tmux
@pytest.mark.parametrize("rests", [False, True], ids=["at once", "step by step"])
@pytest.mark.parametrize(
    "sizes",
    [[(width, 24) for width in WIDTHS], [(80, height) for height in HEIGHTS]],
    ids=["widths", "heights"],
)
@pytest.mark.parametrize("name", PROMPTS)
def test_the_scrollback_contains_a_prompt_once(
    tmux: Tmux,
    name: str,
    sizes: Sequence[tuple[int, int]],
    rests: bool,  # noqa: FBT001
    result: Path,
) -> None:
    before = asked(tmux, name, result)
    parts = copies(tmux, name)
    for columns, rows in sizes:
        tmux.resize(columns, rows)
        if rests:
            tmux.wait_until_idle()
    tmux.wait_until_idle()

    if rests:
        assert copies(tmux, name) == parts
        assert len(tmux.history) <= before + 4
    else:
        # A frame for the size before can arrive when the terminal already has the next one, and no
        # program can prevent this. Before frames waited for the last size, each left a copy.
        assert all(found < parts[part] + len(sizes) for part, found in copies(tmux, name).items())


@needs_tmux
def test_output_before_the_prompt_is_kept(tmux: Tmux, result: Path) -> None:
    tmux.ask("select", result, size=(80, 24), before="seq 1001 1010")
    tmux.wait_for("Enter picks")
    for width in (60, 40, 80):
        tmux.resize(width, 24)
        tmux.wait_until_idle()

    shown = tmux.history
    assert [found for found in shown if found.startswith("10")] == [
        str(number) for number in range(1001, 1011)
    ]
    assert shown[10].startswith("│ Assistant")


@needs_tmux
def test_answering_during_a_resize_leaves_one_row(tmux: Tmux, result: Path) -> None:
    asked(tmux, "boolean_cut", result)
    tmux.resize(50, 24)
    tmux("send-keys", "n")
    tmux.wait_until(result.exists, "reply")
    tmux.wait_until_idle()

    rows = tmux.history
    assert sum("Apply all of it?" in found for found in rows) == 1
    assert not any("all keys" in found for found in rows)


def test_keys_work_during_a_resize_and_are_drawn_afterwards(result: Path) -> None:
    with ask_once(
        "text_empty", result, environment={"TERM": "xterm-256color", "SETTLE": "0"}
    ) as session:
        session.wait_for("Enter submits")
        session.resize(50, 20)
        session.send("note")
        session.wait_for("note")
        session.send("\r")

        assert session.wait_for_end() == 0
        assert "value='note'" in result.read_text()


def test_rows_are_counted_as_the_terminal_wraps_them() -> None:
    rows = [row("x" * 30), row(""), row("界" * 20), row("x" * 20)]

    assert reflowed(rows, 20) == [2, 1, 2, 1]
