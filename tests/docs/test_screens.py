"""Screens in the documents are what a terminal with 80 columns shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.documents import DOCUMENTS, Block, blocks, is_updating, replace_block
from support.pty_session import PtySession

TERMINALS = {"demo": "xterm-256color", "demo-plain": "dumb"}
SHOWN = [(block, mark.removeprefix("screen=")) for path in DOCUMENTS for block in blocks(path) for mark in block.marks if "screen=" in mark]


@pytest.mark.parametrize(("block", "screen"), SHOWN, ids=[screen for _, screen in SHOWN])
def test_a_screen_is_what_a_terminal_shows(block: Block, screen: str, tmp_path: Path) -> None:
    """The demo up to its second question, answered with the keys that a person presses."""
    plain = TERMINALS[screen] == "dumb"
    environment = {"HOME": str(tmp_path), "TERM": TERMINALS[screen], "GIT_CONFIG_GLOBAL": os.devnull, "CI": ""}
    with PtySession([sys.executable, "-m", "midturn", "demo"], environment=environment) as person:
        person.wait_for("Apply the changes to plan.md?")
        person.wait_for_quiet(0.5)
        person.send("y\r" if plain else "y")
        person.wait_for("public")
        person.wait_for_quiet(0.5)
        shown = "\n".join(person.rows) + "\n"
    if is_updating():
        replace_block(block, shown)
    else:
        assert shown == block.text, f"{block.place}: set UPDATE_DOCUMENTS=1 to write the screen anew"
