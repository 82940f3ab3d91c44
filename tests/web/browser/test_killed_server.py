"""A server is killed while it handles an answer: the answer is recorded, or the page says that
it is not.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from midturn.events.types import InquiryAnswered
from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from support.browser import Elsewhere, enter
from support.pages import agent_with, asking
from support.serving import free_port


def at(entrance: str, path: str) -> str:
    """Return the address of a page of the server with this entry address."""
    return entrance.partition("/enter")[0] + path


NOTE = Question.text("q", "What should it say?")
_KILLS = int(os.environ.get("MIDTURN_KILLS", "4"))


class Server:
    """`midturn serve` as a process on one port, which can be restarted."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._directory = directory
        homes = {
            name: str(directory / name)
            for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        }
        self._environment: Mapping[str, str] = {"PATH": os.environ["PATH"], **homes}
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it; return the printed address."""
        where = [
            "--store",
            str(self._directory / "conversations"),
            "--port",
            str(self.port),
            "--user",
            "ada",
            "--no-resume",
        ]
        command = [sys.executable, "-m", "midturn", "serve", *where]
        self.process = subprocess.Popen(
            command,
            env=self._environment,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it and wait for its end."""
        if self.process:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def server(tmp_path: Path) -> Any:
    """A server that is not running yet."""
    server = Server(tmp_path)
    yield server
    server.kill()


def test_lost_answer_is_reported_and_can_be_sent_again(
    page: Page, server: Server, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting = elsewhere(agent_with(disk, asking(NOTE)).run("Ship it.")).pending[0]
    entrance = server.start()
    enter(page, entrance)
    page.goto(at(entrance, f"/q/{waiting.id}"))
    page.locator("textarea#answer").fill("half a sentence")
    server.signal(signal.SIGSTOP)
    page.get_by_role("button", name="Answer").click()
    server.kill()
    expect(page.locator("[data-lost]")).to_contain_text("Connection lost")
    entrance = server.start()
    expect(page.locator("[data-signed-out]")).to_be_visible()
    enter(page.context.new_page(), entrance)
    expect(page.locator("[data-lost]")).to_contain_text("wasn't saved")
    expect(page.locator("[data-signed-out]")).to_be_hidden()
    expect(page.locator("textarea#answer")).to_have_value("half a sentence")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".done")).to_contain_text("half a sentence")


def test_page_matches_the_log_after_a_kill_at_any_time(
    page: Page, server: Server, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    """The time is random; `MIDTURN_KILLS` is the number of kills. The page is compared with
    the store.
    """
    draws = random.Random(17)
    enter(page, entrance := server.start())
    for number in range(_KILLS):
        waiting = elsewhere(agent_with(disk, asking(NOTE)).run("Ship it.")).pending[0]
        page.goto(at(entrance, f"/q/{waiting.id}"))
        page.locator("textarea#answer").fill(f"answer {number}")
        page.evaluate(
            "() => { setTimeout(() => document.querySelector('button.primary').click(), 5) }"
        )
        page.wait_for_timeout(draws.uniform(0, 60))
        server.kill()
        other = page.context.new_page()
        enter(other, entrance := server.start())
        other.close()
        expect(
            page.locator(".done, [data-lost]:not([hidden]) :has-text('saved')").first
        ).to_be_visible()
        said = page.locator(".done").count() > 0
        ((_, response),) = elsewhere(disk.read(waiting.conversation)).pairs()
        assert isinstance(response, InquiryAnswered) is said
