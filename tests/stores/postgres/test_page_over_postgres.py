"""The web page over a PostgreSQL store shows questions and answers of other processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from midturn.question.question import Question
from midturn.stores.postgres.conversations import PostgresStore
from midturn.web import inbox
from support.loops import in_a_loop
from support.pages import OWN, ada, agent_with, asking, asking_form
from support.serving import enter, free_port, loopback_request, serving
from support.shown_pages import FORM

pytestmark = pytest.mark.real("PostgreSQL")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


@in_a_loop
async def test_page_resumes_its_answers_and_removes_answered_questions(url: str) -> None:
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    first = (
        await agent_with(elsewhere, asking(Question.boolean("q", "Deploy it?"))).run("Ship it.")
    ).pending[0]
    second = (await agent_with(elsewhere, asking_form(FORM)).run("Prepare it.")).pending[0]
    agent = agent_with(here, asking(Question.boolean("q", "Deploy it?")), asking_form(FORM))
    with (
        serving(inbox(agent, user=ada)) as address,
        httpx2.Client(
            base_url=address, headers={**OWN, "Accept": "text/html"}, timeout=120
        ) as browser,
    ):
        page = browser.get("/").text
        assert "Deploy it?" in page
        assert "Prepare a release now?" in page
        assert browser.post(f"/q/{first.id}", data={"answer": "yes"}).status_code == 303
        _until(lambda: "completed" in browser.get(f"/c/{first.conversation}").text)
        await elsewhere.answer(second.id, cancel=True, user="grace")
        _until(lambda: "Prepare a release now?" not in browser.get("/").text)


def test_midturn_serve_takes_the_address_of_a_database(url: str, tmp_path: Path) -> None:
    """One process asks; the question is answered on the page of another process, which resumes
    the turn.
    """
    (tmp_path / "play.toml").write_text(PLAY)
    homes = {
        name: str(tmp_path / name)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    how: dict[str, Any] = {
        "env": {"PATH": os.environ["PATH"], **homes},
        "cwd": tmp_path,
        "stdin": subprocess.DEVNULL,
        "text": True,
    }
    midturn = [sys.executable, "-m", "midturn"]
    query = [
        *midturn,
        "query",
        "--defer",
        "--store",
        url,
        "--model",
        f"scripted:{tmp_path / 'play.toml'}",
        "Ship it.",
    ]
    assert (
        subprocess.run(query, capture_output=True, timeout=120, check=False, **how).returncode == 3
    )
    serve = [*midturn, "serve", "--store", url, "--port", str(free_port()), "--user", "ada"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, **how) as server:
        try:
            assert server.stdout
            entrance = server.stdout.readline().strip()
            address, host = loopback_request(entrance)
            with httpx2.Client(
                base_url=address.partition("/enter")[0],
                headers={**OWN, **host, "Accept": "text/html"},
                timeout=120,
            ) as browser:
                assert enter(browser, address).status_code == 303
                found = re.search(r'/q/([^"]+)"', browser.get("/").text)
                assert found
                assert browser.post(f"/q/{found[1]}", data={"answer": "yes"}).status_code == 303
                _until(lambda: "Shipped." in browser.get(f"/c/{found[1].partition('-')[0]}").text)
        finally:
            server.kill()


PLAY = """
[[replies]]
calls = [{ name = "ask_user", arguments = { question = "Ship it now?", answer_type = "boolean" } }]

[[replies]]
text = "Shipped."
"""
