"""Screens in the documents equal the output of a terminal with 80 columns."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.documents import DOCUMENTS, ROOT, Block, blocks, is_updating, replace_block
from support.pty_session import PtySession
from support.recording import picture

TERMINALS = {"demo": "xterm-256color", "demo-plain": "dumb"}
SHOWN = [
    (block, mark.removeprefix("screen="))
    for path in DOCUMENTS
    for block in blocks(path)
    for mark in block.marks
    if "screen=" in mark
]


@pytest.mark.parametrize(("block", "screen"), SHOWN, ids=[screen for _, screen in SHOWN])
def test_a_screen_is_what_a_terminal_shows(block: Block, screen: str, tmp_path: Path) -> None:
    """Plays the demo up to its second question, with the keys that a user presses."""
    plain = TERMINALS[screen] == "dumb"
    environment = {
        "HOME": str(tmp_path),
        "TERM": TERMINALS[screen],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "CI": "",
    }
    with PtySession(
        [sys.executable, "-m", "midturn", "demo"], size=(80, 40), environment=environment
    ) as person:
        person.wait_for("Apply the changes to plan.md?")
        if plain:
            person.wait_until_heard()
        person.wait_for_quiet(0.5)
        person.send("y\r" if plain else "y")
        person.wait_for("public")
        person.wait_for_quiet(0.5)
        if not is_updating():
            with suppress(AssertionError):  # a screen arrives in several writes
                person.wait_until(
                    lambda: "\n".join(person.rows) + "\n" == block.text,
                    "the whole screen",
                    seconds=120,
                )
        shown = "\n".join(person.rows) + "\n"
    if is_updating():
        replace_block(block, shown)
    else:
        assert shown == block.text, (
            f"{block.place}: set UPDATE_DOCUMENTS=1 to write the screen anew"
        )


def test_the_recording_is_what_the_demo_shows(tmp_path: Path) -> None:
    """The README image has three screens of the demo."""
    recording = ROOT / "docs" / "demo.svg"
    environment = {
        "HOME": str(tmp_path),
        "TERM": "xterm-256color",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "CI": "",
    }
    screens: list[list[str]] = []
    with PtySession([sys.executable, "-m", "midturn", "demo"], environment=environment) as person:
        for asked, key in (
            ("Apply the changes to plan.md?", "y"),
            ("public", "1"),
            ("Publish plan.md now?", "y"),
        ):
            person.wait_for(asked)
            person.wait_for_quiet(0.5)
            screens.append([row.rstrip() for row in person.rows])
            person.send(key)
    drawn = picture(
        screens,
        "A tool asks in the middle of an agent's turn, and a person answers with single keys",
    )
    if is_updating():
        recording.write_text(drawn, encoding="utf-8")
    assert recording.read_text(encoding="utf-8") == drawn, (
        "set UPDATE_DOCUMENTS=1 to record the demo anew"
    )
