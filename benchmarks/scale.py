"""A store with many open questions: times for users, programs and workers.

Usage: scale.py files|postgres [--peers PYTHON] [--write FILE] [WAITING …], such as `scale.py
files 1000 10000 100000`. Prints each figure when it is measured, and all of them as one table at
the end; asserts nothing. For PostgreSQL a private server is started in a temporary directory
(`initdb` must be found). `--peers` names a Python in which LangGraph and DBOS are installed
(benchmarks/peers.txt); they are measured too, where they have an equivalent. `--write
docs/operations/monitoring.md` replaces the table in that document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import psycopg  # noqa: E402  the path comes first

import midturn as mt  # noqa: E402
from machines import FIRST, agent, cpu_of, fill, memory_of  # noqa: E402
from midturn.stores.metadata import Metadata  # noqa: E402
from midturn.stores.opening import FileStore  # noqa: E402
from support.postgres import Cluster  # noqa: E402
from turns import agent_history  # noqa: E402

ANSWERS = 200
WOKEN = 30
IDLE = 10.0
_CALM = 0.05  # share of a core
MOST = 120.0
"""Timeout in seconds."""
LARGE = 360_000  # events: a log of 100 MB
ANSWER, FIRST_PAGE, ALL, LOAD = (
    "an answer",
    "the first 50 questions",
    "all questions",
    "load of the machine",
)
GOALS = {
    ANSWER: "5 ms, 99 of 100 in 10",
    FIRST_PAGE: "100 ms",
    "`midturn conversation ls --limit 50`": "100 ms",
    "`midturn conversation ls --limit 50`, just after a turn began": "100 ms",
    "an answer to its turn's next question": "100 ms",
    "an idle worker": "1 %, 80 MB",
    "SIGTERM to its exit": "1000 ms",
    "`conversation show --last 20` of 100 MB": "300 ms",
}
"""Goals of the specification with 100,000 open questions."""
FIGURES: defaultdict[str, dict[int, str]] = defaultdict(dict)


class Filled:
    """A store with open questions: `address` is its location, `questions` are their IDs."""

    def __init__(self, address: str, asked: str, waiting: int) -> None:
        event = asked.partition("-")[2]
        self.address = address
        self.waiting = waiting
        self.questions = [f"{FIRST + number}-{event}" for number in range(1, waiting + 1)]
        random.Random(1).shuffle(self.questions)

    def store(self) -> mt.ConversationStore:
        """Open the store as a newly started program does."""
        return mt.open_store(self.address)


def _fill_files(folder: Path, of: str, waiting: int) -> None:
    """Copy a conversation without syncs, because durable creation is not measured here."""
    original = FileStore(folder).files.directories.path(of)
    slug = original.name.partition("-")[2]
    files = {file.name: file.read_bytes() for file in original.iterdir() if file.is_file()}
    for number in map(str, range(FIRST + 1, FIRST + waiting + 1)):
        copy = folder / f"{number}-{slug}"
        copy.mkdir(mode=0o700)
        for name, content in files.items():
            file = os.open(copy / name, os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(file, content)
            os.close(file)
        (folder / f".{number}").symlink_to(copy.name)
        (folder / "open" / number).touch(mode=0o600)
    os.sync()  # otherwise the first answer waits until the disk has written everything


def filled_files(directory: str, waiting: int) -> Filled:
    """Create a file store."""
    folder = Path(directory, "conversations")
    asked = asyncio.run(agent.with_store(mt.open_store(folder)).run("Ship it.")).pending[0].id
    _fill_files(folder, asked.partition("-")[0], waiting)
    return Filled(str(folder), asked, waiting)


def filled_postgres(cluster: Cluster, waiting: int) -> Filled:
    """Create a store in a database."""
    url = f"{cluster.url}&midturn_schema=scale_{waiting}"
    asked = agent.with_store(mt.open_store(url)).run_sync("Ship it.").pending[0].id
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        fill(connection, url, asked.partition("-")[0], waiting)
    return Filled(url, asked, waiting)


def timed(work: Callable[[], object]) -> float:
    """Return the duration in milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _print_command_times(
    filled: Filled, what: str, *words: str, before: Callable[[], object] = lambda: None
) -> None:
    """Print the wall time and processor time of a command. Its first run compiles its modules.

    `before` is called before each run and is not measured.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    command = [sys.executable, "-m", "midturn", *words, "--store", filled.address]
    walls: list[float] = []
    spent: list[float] = []
    for _ in range(6):
        before()
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(
            timed(
                lambda: subprocess.run(
                    command, check=True, capture_output=True, timeout=MOST, env=environment
                )
            )
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append((after.ru_utime + after.ru_stime - began.ru_utime - began.ru_stime) * 1000)
    _say(
        filled.waiting,
        what,
        f"{min(walls[1:]):.0f} ms ({min(spent[1:]):.0f} of a processor; the first {walls[0]:.0f})",
    )


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


def answer_to_next_question(store: mt.ConversationStore, question: str) -> float:
    """Answer; return the milliseconds until the turn asks its next question."""
    conversation = question.partition("-")[0]
    store.answer_sync(question, True)
    began = time.perf_counter()
    while not store.pending_sync(conversation) and time.perf_counter() - began < MOST:
        time.sleep(0.002)
    return (time.perf_counter() - began) * 1000


def people(filled: Filled) -> None:
    """Print the times of answers and lists."""
    count, store = filled.waiting, filled.store()
    answers = sorted(
        timed(lambda: store.answer_sync(filled.questions.pop(), True))
        for _ in range(min(ANSWERS, count // 4))
    )
    _say(
        count,
        ANSWER,
        f"{statistics.median(answers):.1f} ms, 99 of 100 in"
        f" {answers[int(len(answers) * 0.99)]:.1f} ms",
    )
    pages = [timed(lambda: asyncio.run(filled.store().port.questions(limit=50))) for _ in range(5)]
    _say(count, FIRST_PAGE, f"{statistics.median(pages):.0f} ms")
    held = filled.store()
    _say(
        count,
        ALL,
        f"{timed(held.pending_sync):.0f} ms, once more {timed(held.pending_sync):.0f} ms",
    )
    for words in (["conversation", "ls", "--limit", "50"], ["inbox", "--limit", "50"]):
        command = f"`midturn {' '.join(words)}`"
        _print_command_times(filled, command, *words)
        _print_command_times(
            filled,
            f"{command}, just after a turn began",
            *words,
            before=lambda: agent.with_store(store).run_sync("Ship it."),
        )
    lines = agent_history(LARGE).splitlines()
    large = store.run_sync("add", store.port.add(lines, Metadata(title="Large")))
    size = round(sum(map(len, lines)) / 1_000_000, -2)
    del lines
    _print_command_times(
        filled,
        f"`conversation show --last 20` of {size:.0f} MB",
        "conversation",
        "show",
        large,
        "--last",
        "20",
    )
    store.remove_sync(large)


def machines(filled: Filled) -> None:
    """Print the times of a worker: the first one, which reads all conversations, and later
    ones.
    """
    count, store = filled.waiting, filled.store()
    with working(filled) as worker:
        began, spent = time.perf_counter(), -1.0
        while cpu_of(worker.pid) - spent > _CALM and time.perf_counter() - began < MOST:
            spent = cpu_of(worker.pid)
            time.sleep(1.0)
        _say(
            count,
            "time until a first worker has read all turns",
            f"{time.perf_counter() - began - 1:.0f} s",
        )
    with working(filled) as worker:
        _say(
            count,
            "a new worker's first turn",
            f"{answer_to_next_question(store, filled.questions.pop()):.0f} ms",
        )
        woken = [answer_to_next_question(store, filled.questions.pop()) for _ in range(WOKEN)]
        _say(
            count,
            "an answer to its turn's next question",
            f"{statistics.median(woken):.0f} ms, at most {max(woken):.0f} ms",
        )
        spent = cpu_of(worker.pid)
        time.sleep(IDLE)
        busy = 100 * (cpu_of(worker.pid) - spent) / IDLE
        _say(count, "an idle worker", f"{busy:.1f} % of a core, {memory_of(worker.pid):.0f} MB")
        worker.terminate()
        _say(count, "SIGTERM to its exit", f"{timed(worker.wait):.0f} ms")


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
    """Print the times of the page: first and later requests, an answer until an open browser
    shows it, and idle load.
    """
    count, store = filled.waiting, filled.store()
    with serving(filled) as (server, address):
        looks = [timed(lambda: urlopen(address, timeout=MOST).read()) for _ in range(6)]
        _say(
            count,
            "the page",
            f"first {looks[0]:.0f} ms, then {statistics.median(looks[1:]):.0f} ms",
        )
        api = [
            timed(lambda: urlopen(f"{address}/api/questions?limit=100", timeout=MOST).read())
            for _ in range(5)
        ]
        _say(count, "`GET /api/questions?limit=100`", f"{statistics.median(api):.0f} ms")
        with urlopen(f"{address}/api/events", timeout=MOST) as events:
            heard: list[float] = []
            for _ in range(10):
                question = filled.questions.pop()
                store.answer_sync(question, True)
                heard.append(
                    timed(
                        lambda question=question: next(
                            line for line in events if question.encode() in line
                        )
                    )
                )
            _say(
                count,
                "an answer to an open browser",
                f"{statistics.median(heard):.0f} ms, at most {max(heard):.0f} ms",
            )
            spent = cpu_of(server.pid)
            time.sleep(IDLE)
            busy = 100 * (cpu_of(server.pid) - spent) / IDLE
            _say(
                count,
                "an idle page with an open browser",
                f"{busy:.1f} % of a core, {memory_of(server.pid):.0f} MB",
            )


def _say(waiting: int, figure: str, found: str) -> None:
    print(f"{waiting:,} waiting: {figure} {found}", flush=True)
    FIGURES[figure][waiting] = found


def measure(filled: Filled) -> None:
    """Print all figures."""
    _say(filled.waiting, LOAD, f"{os.getloadavg()[0]:.1f}")
    people(filled)
    machines(filled)
    page(filled)


def peers(python: str, cluster: Cluster, size: int) -> None:
    """Print the figures of other frameworks on the same server.

    Each reports them as lines of JSON.
    """
    command = [python, str(HERE / "scale_peers.py"), cluster.url, str(size)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for line in told.stdout.splitlines():
        figure, found = json.loads(line)
        _say(size, figure, found)


def table(sizes: Sequence[int]) -> str:
    """Return all figures as one table."""
    rows = [
        ["number of open questions", *(f"{size:,}" for size in sizes), "goal for 100,000"],
        ["---"] * (len(sizes) + 2),
    ]
    rows += [
        [figure, *(found.get(size, "") for size in sizes), GOALS.get(figure, "")]
        for figure, found in FIGURES.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def written(document: str, where: str, rows: str) -> str:
    """Replace the table of one kind of store between its marks in a document."""
    begin = f"<!-- generated: scale {where} -->\n\n"
    before, found, rest = document.partition(begin)
    _, end, after = rest.partition("\n\n<!-- end -->")
    if not (found and end):
        raise SystemExit(f"There is no table between `{begin.strip()}` and `<!-- end -->`.")
    return f"{before}{begin}{rows}{end}{after}"


def main(where: str, sizes: Sequence[int], python: str | None, document: Path | None) -> None:
    """Fill stores, measure, remove them."""
    print(f"{where}: {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    cluster = Cluster("max_connections=200") if where == "postgres" else None
    try:
        for size in sizes:
            if cluster is None:
                with tempfile.TemporaryDirectory() as directory:
                    measure(filled_files(directory, size))
                continue
            measure(filled_postgres(cluster, size))
            if python:
                peers(python, cluster, size)
    finally:
        if cluster:
            cluster.remove()
    print(f"\n{table(sizes)}")
    if document:
        document.write_text(written(document.read_text(), where, table(sizes)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("where", choices=["files", "postgres"])
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--write", metavar="FILE", type=Path)
    parser.add_argument("waiting", nargs="*", type=int, default=[])
    given = parser.parse_intermixed_args()  # sizes may follow --peers
    main(given.where, given.waiting or [1_000, 10_000], given.peers, given.write)
