"""The steps of the tutorials, from installation to an answer on a phone-sized screen, are run
as documented.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.documents import ROOT, Block, blocks
from support.examples import Examples
from support.serving import free_port

NEWCOMER = ROOT / "docs" / "tutorials" / "assistant.md"
LIBRARY = ROOT / "docs" / "start" / "quickstart.md"


def before(document: Path, words: str) -> list[Block]:
    """Return the code blocks before this text."""
    text = document.read_text(encoding="utf-8")
    last = text.count("\n", 0, text.index(words)) + 1
    return [block for block in blocks(document) if block.line < last]


def named(document: Path, command: str) -> list[str]:
    """Return the command that a document mentions, as run by this interpreter."""
    found = re.search(rf"`(midturn {command} [^`]*)`", document.read_text(encoding="utf-8"))
    assert found
    return [sys.executable, "-m", *found[1].split()]


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    """Yield a new user's directory, without the settings of the real user."""
    for variable in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_DATA_HOME",
        "CI",
        "MIDTURN_NON_INTERACTIVE",
    ):
        monkeypatch.delenv(variable, raising=False)
    made = Examples(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    with made.as_current():
        yield made


@contextmanager
def running(command: list[str]) -> Generator[subprocess.Popen[str]]:
    """Run a documented command until the end of the block."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answered_on_the_phone(page: Page, server: subprocess.Popen[str], label: str, end: str) -> None:
    """Open the address that the server prints, choose an answer, and wait for the end of the
    conversation.
    """
    assert server.stdout
    page.goto(server.stdout.readline().strip())
    page.get_by_role("button", name="Sign in").click()
    page.locator("a.item").click()
    page.get_by_label(label).check()
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".done")).to_contain_text("ada (web) answered")
    page.goto(f"{page.url.partition('?')[0]}c")
    page.locator(".list a").first.click()
    expect(page.locator("main")).to_contain_text(end)


def test_tutorial_tool_is_answered_on_a_phone(page: Page, examples: Examples) -> None:
    for block in before(NEWCOMER, "## On your phone"):
        examples.play(block)
    with running([*named(NEWCOMER, "serve"), "--port", str(free_port())]) as server:
        answered_on_the_phone(page, server, "nas", "Done: 214 files.")


def test_tutorial_program_is_answered_on_a_phone(page: Page, examples: Examples) -> None:
    for block in before(LIBRARY, "## Answer from another process"):
        examples.play(block)
    with ExitStack() as stack:
        stack.enter_context(running(named(LIBRARY, "worker")))
        server = stack.enter_context(
            running([*named(LIBRARY, "serve"), "--port", str(free_port())])
        )
        answered_on_the_phone(page, server, "eu-1", "It is live.")
