"""What an agent inside a tool asks, answered on the page and at the command line; and what is left of it when its process is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

import midturn as mt
from midturn.events.types import InquiryRequest
from midturn.web import inbox
from support.cli import CommandLine
from support.hooks import until
from support.nested_agents import Company
from support.pages import OWN, ada
from support.serving import serving

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = """
import asyncio, os, sys
import midturn as mt
from support.nested_agents import Company

class Deadly(list):
    def append(self, key):
        os.kill(os.getpid(), 9)

company = Company(mt.open_store("kept"), "anna", "bert", deep=True)
company.ran = Deadly()
asyncio.run(company.agent.resume(sys.argv[1]))
"""


@pytest.mark.parametrize("one_by_one", [False, True])
def test_answers_on_the_page_go_on_with_the_turn_around(tmp_path: Path, *, one_by_one: bool) -> None:
    """Also where it has gone on with the first one, and waits again, when the second one comes: its own record has not grown since."""
    store = mt.open_store(tmp_path / "kept")
    company = Company(store, "anna", "bert", deep=True)
    waiting = company.agent.run_sync("Go.")
    with serving(inbox(company.agent, user=ada)) as address, httpx2.Client(base_url=address, headers={**OWN}) as browser:
        for number, question in enumerate(waiting.pending, 1):
            assert browser.post(f"/q/{question.id}", data={"answer": "yes"}, headers={"Accept": "text/html"}).status_code == 303
            if one_by_one:
                until(lambda number=number: len(company.ran) == number and not store.ready_sync(), bool)
        until(lambda: not store.open_turns_sync(), bool)
    assert store.read_sync(waiting.conversation).turns[-1].open is False
    assert len(company.ran) == 2


def test_an_answer_at_the_command_line_makes_the_turn_around_ready(tmp_path: Path) -> None:
    command_line = CommandLine(tmp_path)
    kept = str(tmp_path / "kept")
    store = mt.open_store(kept)
    company = Company(store, "anna")
    waiting = company.agent.run_sync("Go.")

    listed = command_line.run("inbox", "--store", kept)
    assert "Sure?" in listed.stdout
    answered = command_line.run("answer", waiting.pending[0].id, "yes", "--store", kept)

    assert answered.status == 0, answered
    assert store.ready_sync() == [waiting.conversation]
    assert company.agent.resume_sync(waiting.conversation).text == "anna worked"


def test_a_turn_that_is_discarded_takes_those_inside_with_it(tmp_path: Path) -> None:
    """Whichever of them is named: they end as one."""
    command_line = CommandLine(tmp_path)
    kept = str(tmp_path / "kept")
    store = mt.open_store(kept)
    waiting = Company(store, "anna").agent.run_sync("Go.")
    inside = waiting.pending[0].conversation

    discarded = command_line.run("resume", inside, "--discard", "--store", kept)

    assert discarded.status == 0, discarded
    assert inside != waiting.conversation
    for conversation in (waiting.conversation, inside):
        assert store.read_sync(conversation).events[-1].to_json()["status"] == "ended_by_user"
    assert store.pending_sync() == []


def test_a_process_that_is_killed_inside_leaves_it_to_be_found_and_nothing_is_asked_again(tmp_path: Path) -> None:
    store = mt.open_store(tmp_path / "kept")
    company = Company(store, "anna", "bert", deep=True)
    waiting = company.agent.run_sync("Go.")
    for question in waiting.pending:
        store.answer_sync(question.id, True)
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "program.py", waiting.conversation]
    for _ in range(2):
        died = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=60)
        assert died.returncode == -signal.SIGKILL, died.stderr
    before = len(store.ids_sync())

    assert asyncio.run(_worked_off(company, waiting.conversation)) == "foreman: anna worked bert worked"

    assert len(store.ids_sync()) == before == 4
    asked = [event for id in store.ids_sync() for event in store.read_sync(id).events if isinstance(event, InquiryRequest)]
    assert len(asked) == 2
    assert len(company.ran) == 2


async def _worked_off(company: Company, conversation: str) -> str:
    """Let a worker go on with what the dead process has left."""
    (claimed,) = await company.agent.store.claim(5)
    assert claimed.conversation == conversation
    await claimed.__aexit__(None, None, None)
    return (await company.agent.resume(conversation)).text
