"""Questions of an agent inside a tool, answered on the page and at the command line.

One test kills the process of the agent.
"""

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
from support.nested_agents import NestedAgents
from support.pages import OWN, ada
from support.serving import serving

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = """
import asyncio, os, sys
import midturn as mt
from support.nested_agents import NestedAgents

class Deadly(list):
    def append(self, key):
        os.kill(os.getpid(), 9)

company = NestedAgents(mt.open_store("kept"), "anna", "bert", deep=True)
company.ran = Deadly()
asyncio.run(company.agent.resume(sys.argv[1]))
"""


@pytest.mark.parametrize("one_by_one", [False, True])
def test_answers_on_the_page_resume_the_outer_turn(tmp_path: Path, *, one_by_one: bool) -> None:
    """This includes an outer turn that continued after the first answer and waits again when the
    second arrives.
    """
    store = mt.open_store(tmp_path / "kept")
    company = NestedAgents(store, "anna", "bert", deep=True)
    waiting = company.agent.run_sync("Go.")
    with (
        serving(inbox(company.agent, user=ada)) as address,
        httpx2.Client(base_url=address, headers={**OWN}, timeout=120) as browser,
    ):
        for number, question in enumerate(waiting.pending, 1):
            assert (
                browser.post(
                    f"/q/{question.id}", data={"answer": "yes"}, headers={"Accept": "text/html"}
                ).status_code
                == 303
            )
            if one_by_one:
                until(
                    lambda number=number: len(company.ran) == number and not store.ready_sync(),
                    bool,
                )
        until(lambda: not store.open_turns_sync(), bool)
    assert store.read_sync(waiting.conversation).turns[-1].open is False
    assert len(company.ran) == 2


def test_answer_at_the_command_line_makes_the_outer_turn_ready(tmp_path: Path) -> None:
    command_line = CommandLine(tmp_path)
    kept = str(tmp_path / "kept")
    store = mt.open_store(kept)
    company = NestedAgents(store, "anna")
    waiting = company.agent.run_sync("Go.")

    listed = command_line.run("inbox", "--store", kept)
    assert "Sure?" in listed.stdout
    answered = command_line.run("answer", waiting.pending[0].id, "yes", "--store", kept)

    assert answered.status == 0, answered
    assert store.ready_sync() == [waiting.conversation]
    assert company.agent.resume_sync(waiting.conversation).text == "anna worked"


def test_discarding_a_turn_discards_its_inner_turns(tmp_path: Path) -> None:
    """The outer and the inner turns end together, whichever of them is named."""
    command_line = CommandLine(tmp_path)
    kept = str(tmp_path / "kept")
    store = mt.open_store(kept)
    waiting = NestedAgents(store, "anna").agent.run_sync("Go.")
    inside = waiting.pending[0].conversation

    discarded = command_line.run("resume", inside, "--discard", "--store", kept)

    assert discarded.status == 0, discarded
    assert inside != waiting.conversation
    for conversation in (waiting.conversation, inside):
        assert store.read_sync(conversation).events[-1].to_json()["status"] == "ended_by_user"
    assert store.pending_sync() == []


def test_killed_inner_process_is_resumed_without_asking_again(tmp_path: Path) -> None:
    store = mt.open_store(tmp_path / "kept")
    company = NestedAgents(store, "anna", "bert", deep=True)
    waiting = company.agent.run_sync("Go.")
    for question in waiting.pending:
        store.answer_sync(question.id, True)
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "program.py", waiting.conversation]
    for _ in range(2):
        died = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=120
        )
        assert died.returncode == -signal.SIGKILL, died.stderr
    before = len(store.ids_sync())

    assert (
        asyncio.run(_run_worker(company, waiting.conversation))
        == "foreman: anna worked bert worked"
    )

    assert len(store.ids_sync()) == before == 4
    asked = [
        event
        for id in store.ids_sync()
        for event in store.read_sync(id).events
        if isinstance(event, InquiryRequest)
    ]
    assert len(asked) == 2
    assert len(company.ran) == 2


async def _run_worker(company: NestedAgents, conversation: str) -> str:
    """Let a worker continue the turns of the dead process."""
    (claimed,) = await company.agent.store.claim(5)
    assert claimed.conversation == conversation
    await claimed.__aexit__(None, None, None)
    return (await company.agent.resume(conversation)).text
