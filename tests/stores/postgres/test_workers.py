"""Worker processes: one hangs, one is told to stop, one is killed by its tool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

import midturn as mt
from midturn.stores.postgres.conversations import PostgresStore
from support.postgres import Cluster
from support.serving import free_port, wait_for_listener

pytestmark = pytest.mark.real("PostgreSQL")
HERE = Path(__file__).resolve().parent
TERMINATED = 143


class Workshop:
    """A store, workers on it, and the lines that their tools write."""

    def __init__(self, url: str, directory: Path) -> None:
        self.said = directory / "said"
        self.log = directory / "state" / "midturn" / "midturn.log"
        self.store = PostgresStore(url)
        self._url = url
        self._environment = {
            **os.environ,
            "TOOL_CALL_LOG": str(self.said),
            "XDG_STATE_HOME": str(directory / "state"),
        }
        self._workers: list[subprocess.Popen[bytes]] = []
        sys.path.insert(0, str(HERE))
        from misbehaving_agent import agent

        self.agent = agent.with_store(self.store)

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker."""
        command = [
            sys.executable,
            "-m",
            "midturn",
            "worker",
            "misbehaving_agent:agent",
            "--at-once",
            "4",
            "--store",
            self._url,
            *options,
        ]
        started = subprocess.Popen(
            command, cwd=HERE, env=self._environment, stderr=subprocess.DEVNULL
        )
        self._workers.append(started)
        return started

    def asked(self, kind: str) -> mt.OpenQuestion:
        """Begin a turn and return its open question."""
        return self.agent.run_sync(kind).pending[0]

    def answer(self, question: mt.OpenQuestion) -> None:
        self.store.answer_sync(question.id, True)

    def lines(self, *words: str) -> list[list[str]]:
        """Return the written lines of these kinds: process, key, kind."""
        found = self.said.read_text().splitlines() if self.said.exists() else []
        return [line.split(" ", 2) for line in found if all(word in line for word in words)]

    def is_open(self, question: mt.OpenQuestion) -> bool:
        """Return whether the question's turn is open."""
        return self.store.read_sync(question.conversation).turns[-1].open

    def let_tools_finish(self) -> None:
        """Let slow tools complete."""
        self.said.with_suffix(".go").touch()

    def end(self) -> None:
        """Kill the remaining workers."""
        for worker in self._workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def workshop(url: str, tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(url, tmp_path)
    yield made
    made.end()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def test_hung_worker_is_taken_over_and_its_later_writes_are_refused(workshop: Workshop) -> None:
    question = workshop.asked("slow")
    hung = workshop.worker()
    workshop.answer(question)
    _until(lambda: bool(workshop.lines(str(hung.pid), "began")), "the first worker begins")
    hung.send_signal(signal.SIGSTOP)
    other = workshop.worker()
    _until(lambda: bool(workshop.lines(str(other.pid), "began")), "the second worker takes over")
    workshop.let_tools_finish()
    _until(lambda: not workshop.is_open(question), "the second worker ends the turn")
    lines = workshop.store.run_sync("lines", workshop.store.port.lines(question.conversation))

    hung.send_signal(signal.SIGCONT)

    _until(
        lambda: (
            workshop.log.exists()
            and "was taken over by another process" in workshop.log.read_text()
        ),
        "the first one is refused",
    )
    assert (
        workshop.store.run_sync("lines", workshop.store.port.lines(question.conversation)) == lines
    )
    assert len({key for _, key, _ in workshop.lines("slow")}) == 1
    assert workshop.store.check_sync() == []


def test_stopped_worker_releases_its_turns(workshop: Workshop) -> None:
    question = workshop.asked("slow")
    first = workshop.worker()
    workshop.answer(question)
    _until(lambda: bool(workshop.lines(str(first.pid), "began")), "the worker begins")
    first.terminate()
    # its tool still waits, because the `.go` file does not exist
    assert first.wait(timeout=120) == TERMINATED
    assert not workshop.lines("ended")

    other = workshop.worker()
    _until(lambda: bool(workshop.lines(str(other.pid), "began")), "another goes on with it")
    workshop.let_tools_finish()
    _until(lambda: not workshop.is_open(question), "the turn ends")
    assert [int(process) for process, _, _ in workshop.lines("ended")] == [other.pid]


def test_tool_that_kills_its_process_is_retried_with_backoff(workshop: Workshop) -> None:
    poison = workshop.asked("poison")
    others = [workshop.asked(f"number {number}") for number in range(5)]
    for question in (poison, *others):
        workshop.answer(question)
    pauses: list[float] = []
    worker = workshop.worker()

    def is_over() -> bool:
        nonlocal worker
        if worker.poll() is not None:
            pauses.append(_pause(workshop, poison))
            worker = workshop.worker()
        return len(pauses) >= 4 and not any(map(workshop.is_open, others))

    _until(is_over, "the others end")
    assert pauses == sorted(pauses)
    assert pauses[-1] > pauses[0]
    assert len({key for _, key, _ in workshop.lines("poison")}) == 1
    assert workshop.is_open(poison)


def test_worker_during_an_outage_is_alive_and_not_ready(tmp_path: Path) -> None:
    cluster, port = Cluster("fsync=off"), free_port()

    def probed(path: str) -> int:
        return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=120).status_code

    workshop = Workshop(cluster.url, tmp_path)
    try:
        workshop.worker("--health", f"127.0.0.1:{port}")
        wait_for_listener(port)
        _until(lambda: probed("/readyz") == 200, "it is ready")
        cluster.stop("immediate")
        _until(lambda: probed("/readyz") == 503, "it is not ready any more")
        assert probed("/healthz") == 200
        cluster.start()
        _until(lambda: probed("/readyz") == 200, "it is ready again")
    finally:
        workshop.end()
        cluster.remove()


def _pause(workshop: Workshop, question: mt.OpenQuestion) -> float:
    """Return the seconds until the store offers a turn again after its last attempt."""
    database = workshop.store.database
    statement = (
        "select extract(epoch from wake - held_since)::float as pause from {s}.conversation where"
        " id = %(id)s"
    )
    reading = database.loop.run(database.database.rows(statement, {"id": question.conversation}))
    return float(workshop.store.run_sync("read", reading)[0]["pause"])
