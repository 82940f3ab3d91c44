"""A call reported to several processes at the same moment is one question, even if one of them
dies or is stopped.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.stores.opening import FileStore
from support.hooks import until
from support.processes import Forked, line

pytestmark = pytest.mark.timeout(600)

ASKER = """
import asyncio, os, sys
from midturn.clock import SYSTEM
from midturn.events.open_question import AskingAgent
from midturn.question.form import Form
from midturn.question.question import Question
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.stores import claims
from midturn.stores.opening import FileStore
from midturn.stores.lock import mark

folder, kind, id, session, dies = sys.argv[1:]
claims.PATIENCE = float(os.environ.get("PATIENCE", "60"))
store = FileStore(folder)
asker = AskingAgent(name="Codex", agent="codex", session=session, via="hook", cwd="/work", process=mark(os.getpid()))
errands = ExternalCallService(store, asker, SYSTEM)
if dies:
    store.port.create = lambda words: os.kill(os.getpid(), getattr(__import__("signal"), dies))
call = {"command": "make"}

async def ask():
    if kind == "permission":
        return await errands.permission(id, "Bash", call, "", errands.backlog.take_up)
    if kind == "questions":
        return await errands.questions(id, "ask", call, Form([Question.boolean("sure", "Sure?")]))
    return await errands.questions(id, "ask", call, Form([Question.boolean("sure", "Sure?")]), errands.backlog.take_up_open)

print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(ask()).conversation, flush=True)
sys.stdin.readline()  # a process that is gone is not waited for any more
"""


@pytest.fixture
def begun() -> Iterator[list[Forked]]:
    processes: list[Forked] = []
    yield processes
    for process in processes:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def asking(
    begun: list[Forked],
    store: Path,
    kind: str,
    *,
    id: str = "call_1",
    session: str = "s1",
    dies: str = "",
) -> Forked:
    """Start a process that is about to ask."""
    process = Forked(ASKER, store, kind, id, session, dies, uses_network=True)
    begun.append(process)
    assert line(process) == "ready"
    return process


def wait_until_stopped(process: Forked) -> None:
    """Wait until a process is stopped (SIGSTOP)."""
    command = ["ps", "-o", "stat=", "-p", str(process.pid)]
    until(
        lambda: subprocess.run(command, capture_output=True, text=True, check=True).stdout,
        lambda state: state.startswith("T"),
    )


def go(process: Forked) -> None:
    """Let a process ask."""
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("kind", ["permission", "questions"])
def test_call_reported_by_several_processes_is_asked_once(
    kind: str, tmp_path: Path, begun: list[Forked]
) -> None:
    processes = [asking(begun, tmp_path / "store", kind) for _ in range(4)]
    for process in processes:
        go(process)

    assert len({line(process) for process in processes}) == 1
    assert len(FileStore(tmp_path / "store").pending_sync()) == 1


def test_distinct_calls_are_asked_separately(tmp_path: Path, begun: list[Forked]) -> None:
    processes = [
        asking(begun, tmp_path / "store", "permission", id=f"call_{number}") for number in range(2)
    ]
    processes += [asking(begun, tmp_path / "store", "permission", session="s2")]
    for process in processes:
        go(process)

    assert len({line(process) for process in processes}) == 3


def test_question_of_a_killed_process_is_taken_over(tmp_path: Path, begun: list[Forked]) -> None:
    first = asking(begun, tmp_path / "store", "again", id="1", session="")
    go(first)
    conversation = line(first)
    first.kill()
    first.wait()

    processes = [
        asking(begun, tmp_path / "store", "again", id=str(number), session="") for number in (2, 3)
    ]
    for process in processes:
        go(process)

    assert [line(process) for process in processes].count(
        conversation
    ) == 1  # the other process has another call


def test_process_killed_before_asking_leaves_the_call_to_the_next(
    tmp_path: Path, begun: list[Forked]
) -> None:
    killed = asking(begun, tmp_path / "store", "permission", dies="SIGKILL")
    go(killed)
    assert killed.wait(120) == -signal.SIGKILL

    after = asking(begun, tmp_path / "store", "permission")
    go(after)

    assert line(after)
    assert len(FileStore(tmp_path / "store").pending_sync()) == 1


def test_stopped_process_blocks_only_its_own_call(
    tmp_path: Path, begun: list[Forked], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asking(begun, tmp_path / "store", "permission", dies="SIGSTOP")
    go(stopped)
    wait_until_stopped(stopped)

    monkeypatch.setenv("PATIENCE", "1")
    same, other = (
        asking(begun, tmp_path / "store", "permission", session=session) for session in ("s1", "s2")
    )
    go(other)
    assert line(other)
    go(same)
    assert line(same) == ""
    assert "another process has been doing it for 1 s" in same.communicate()[1]
