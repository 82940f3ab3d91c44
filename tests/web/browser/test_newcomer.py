"""The page "From install to phone" is played as it stands, up to the answer on a screen of a phone's size."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.documents import ROOT, Block, blocks
from support.examples import Examples
from support.serving import free_port

DOCUMENT = ROOT / "docs" / "newcomer.md"


def before_the_page() -> list[Block]:
    """Return the blocks of everything that a newcomer does before the page is opened."""
    text = DOCUMENT.read_text(encoding="utf-8")
    last = text.count("\n", 0, text.index("## On your phone")) + 1
    return [block for block in blocks(DOCUMENT) if block.line < last]


def test_a_tool_of_a_newcomer_is_answered_on_a_phone(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "CI", "MIDTURN_NON_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    examples = Examples(tmp_path)
    monkeypatch.setenv("HOME", str(examples.home))
    with examples.as_current():
        for block in before_the_page():
            examples.play(block)
        found = re.search(r"`(midturn serve [^`]*)`", DOCUMENT.read_text(encoding="utf-8"))
        assert found
        command = [sys.executable, "-m", *found[1].split(), "--port", str(free_port())]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout
                page.goto(server.stdout.readline().strip())
                page.locator("a.item").click()
                page.get_by_label("nas").check()
                page.get_by_role("button", name="Answer").click()
                expect(page.locator(".done")).to_contain_text("answered by ada (web)")
                page.goto(f"{page.url.partition('?')[0]}c")
                page.locator(".list a").first.click()
                expect(page.locator("main")).to_contain_text("Done: 214 files.", timeout=30_000)
            finally:
                server.kill()
