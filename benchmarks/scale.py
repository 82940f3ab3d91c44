"""A store with many open questions: what people, programs and a worker wait for there.

Usage: scale.py files|postgres [WAITING …], such as `scale.py files 1000 10000 100000`. Prints figures; asserts nothing. For PostgreSQL a
private server is started in a temporary directory (`initdb` must be found).
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import psycopg  # noqa: E402  the path comes first

import midturn as mt  # noqa: E402
from machines import FIRST, agent, cpu_of, fill, memory_of  # noqa: E402
from midturn.store.file_store import FileStore  # noqa: E402
from support.postgres import Cluster  # noqa: E402

ANSWERS = 200
WOKEN = 30
IDLE = 10.0
_CALM = 0.05  # seconds of a core in a second
MOST = 120.0
"""Seconds after which waiting ends."""


class Filled:
    """A store in which questions wait: `address` is where, `questions` are their ids."""

    def __init__(self, address: str, asked: str, waiting: int) -> None:
        event = asked.partition("-")[2]
        self.address = address
        self.waiting = waiting
        self.questions = [f"{FIRST + number}-{event}" for number in range(1, waiting + 1)]
        random.Random(1).shuffle(self.questions)

    def store(self) -> mt.ConversationStore:
        """Open it as a program does that has just been started."""
        return mt.open_store(self.address)


def _fill_files(folder: Path, of: str, waiting: int) -> None:
    """Copy a conversation: what makes one durable is not measured here."""
    original = FileStore(folder).files.path(of)
    slug = original.name.partition("-")[2]
    for number in map(str, range(FIRST + 1, FIRST + waiting + 1)):
        copy = folder / f"{number}-{slug}"
        copy.mkdir(mode=0o700)
        for file in original.iterdir():
            if file.is_file():
                shutil.copy(file, copy)
        (folder / f".{number}").symlink_to(copy.name)
        (folder / "open" / number).touch(mode=0o600)
    os.sync()  # else the first answer waits until the disk has all of it


def filled_files(directory: str, waiting: int) -> Filled:
    """Make a store on files."""
    folder = Path(directory, "conversations")
    asked = asyncio.run(agent.with_store(mt.open_store(folder)).run("Ship it.")).pending[0].id
    _fill_files(folder, asked.partition("-")[0], waiting)
    return Filled(str(folder), asked, waiting)


def filled_postgres(cluster: Cluster, waiting: int) -> Filled:
    """Make a store in a database."""
    url = f"{cluster.url}&midturn_schema=scale_{waiting}"
    asked = agent.with_store(mt.open_store(url)).run_sync("Ship it.").pending[0].id
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        fill(connection, url, asked.partition("-")[0], waiting)
    return Filled(url, asked, waiting)


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds that this takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _command(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-m", "midturn", *words], check=True, capture_output=True, timeout=MOST)


@contextmanager
def working(filled: Filled) -> Generator[subprocess.Popen[bytes]]:
    """Run a worker."""
    environment = {**os.environ, "BENCH_STORE": filled.address, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "midturn", "worker", "machines:agent"]
    worker = subprocess.Popen(command, cwd=HERE, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()


def went_on(store: mt.ConversationStore, question: str) -> float:
    """Answer, and return the milliseconds until the turn asks its next question."""
    conversation = question.partition("-")[0]
    store.answer_sync(question, True)
    began = time.perf_counter()
    while not store.pending_sync(conversation) and time.perf_counter() - began < MOST:
        time.sleep(0.002)
    return (time.perf_counter() - began) * 1000


def people(filled: Filled) -> None:
    """Print what answers and lists take."""
    count, store = filled.waiting, filled.store()
    answers = sorted(timed(lambda: store.answer_sync(filled.questions.pop(), True)) for _ in range(min(ANSWERS, count // 4)))
    _say(count, f"an answer p50 {statistics.median(answers):.1f} ms, p99 {answers[int(len(answers) * 0.99)]:.1f} ms")
    pages = [timed(lambda: asyncio.run(filled.store().port.questions(limit=50))) for _ in range(5)]
    _say(count, f"the first 50 questions {statistics.median(pages):.0f} ms")
    held = filled.store()
    _say(count, f"all questions {timed(held.pending_sync):.0f} ms, once more {timed(held.pending_sync):.0f} ms")
    for words in (["conversation", "ls", "--limit", "50"], ["inbox", "--limit", "50"]):
        times = [timed(_command(*words, "--store", filled.address)) for _ in range(6)]
        _say(count, f"`midturn {' '.join(words)}` first {times[0]:.0f} ms, then {min(times[1:]):.0f} ms")


def machines(filled: Filled) -> None:
    """Print what a worker takes: the first one, which reads all that wait, and those after it."""
    count, store = filled.waiting, filled.store()
    with working(filled) as worker:
        began, spent = time.perf_counter(), -1.0
        while cpu_of(worker.pid) - spent > _CALM and time.perf_counter() - began < MOST:
            spent = cpu_of(worker.pid)
            time.sleep(1.0)
        _say(count, f"a first worker is calm after {time.perf_counter() - began - 1:.0f} s")
    with working(filled) as worker:
        _say(count, f"a new worker's first turn {went_on(store, filled.questions.pop()):.0f} ms")
        woken = [went_on(store, filled.questions.pop()) for _ in range(WOKEN)]
        _say(count, f"an answer to its turn's next question p50 {statistics.median(woken):.0f} ms, at most {max(woken):.0f} ms")
        spent = cpu_of(worker.pid)
        time.sleep(IDLE)
        busy = 100 * (cpu_of(worker.pid) - spent) / IDLE
        _say(count, f"an idle worker {memory_of(worker.pid):.0f} MB, {busy:.1f} % of a core")
        worker.terminate()
        _say(count, f"SIGTERM to its exit {timed(worker.wait):.0f} ms")


PAGE = """
import sys
import uvicorn
import midturn as mt
from midturn.web import inbox
app = inbox(mt.open_store(sys.argv[1]), user=lambda _: "ana")
uvicorn.run(app, port=int(sys.argv[2]), log_level="error", timeout_graceful_shutdown=1)
"""


@contextmanager
def serving(filled: Filled) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """Serve the page."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", PAGE, filled.address, str(port)])
    try:
        until = time.monotonic() + MOST
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def page(filled: Filled) -> None:
    """Print what the page takes: its first look, further ones, an answer's way to an open browser, and nothing at all."""
    count, store = filled.waiting, filled.store()
    with serving(filled) as (server, address):
        looks = [timed(lambda: urlopen(address, timeout=MOST).read()) for _ in range(6)]
        _say(count, f"the page, first {looks[0]:.0f} ms, then {statistics.median(looks[1:]):.0f} ms")
        api = [timed(lambda: urlopen(f"{address}/api/questions?limit=100", timeout=MOST).read()) for _ in range(5)]
        _say(count, f"`GET /api/questions?limit=100` {statistics.median(api):.0f} ms")
        with urlopen(f"{address}/api/events", timeout=MOST) as events:
            heard: list[float] = []
            for _ in range(10):
                question = filled.questions.pop()
                store.answer_sync(question, True)
                heard.append(timed(lambda question=question: next(line for line in events if question.encode() in line)))
            _say(count, f"an answer to an open browser p50 {statistics.median(heard):.0f} ms, at most {max(heard):.0f} ms")
            spent = cpu_of(server.pid)
            time.sleep(IDLE)
            busy = 100 * (cpu_of(server.pid) - spent) / IDLE
            _say(count, f"an idle page with an open browser {memory_of(server.pid):.0f} MB, {busy:.1f} % of a core")


def _say(waiting: int, what: str) -> None:
    print(f"{waiting:,} waiting: {what}", flush=True)


def measure(filled: Filled) -> None:
    """Print it all."""
    people(filled)
    machines(filled)
    page(filled)


def main(where: str, sizes: Sequence[int]) -> None:
    """Fill stores, measure, remove them."""
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    if where == "files":
        for size in sizes:
            with tempfile.TemporaryDirectory() as directory:
                measure(filled_files(directory, size))
        return
    cluster = Cluster("max_connections=200")
    try:
        for size in sizes:
            measure(filled_postgres(cluster, size))
    finally:
        cluster.remove()


if __name__ == "__main__":
    if sys.argv[1:2] not in (["files"], ["postgres"]):
        sys.exit(str(__doc__))
    main(sys.argv[1], [int(word) for word in sys.argv[2:]] or [1_000, 10_000])
