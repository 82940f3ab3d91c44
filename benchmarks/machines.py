"""Answers per second with two workers on PostgreSQL, and the cost of a waiting question.

A private server with fsync is started in a temporary directory (`initdb` must be found). Prints
medians; asserts nothing. Usage: machines.py [WAITING …], such as `machines.py 1000 10000 100000`.
procrastinate is installed temporarily into a directory of its own; if that fails, it is left out.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import psycopg  # noqa: E402  the path comes first
from psycopg import sql  # noqa: E402

import midturn as mt  # noqa: E402
from midturn.exchange import ModelRequest, TextPart, ToolCallPart  # noqa: E402
from midturn.stores.postgres import statements  # noqa: E402
from midturn.stores.postgres.conversations import PostgresStore  # noqa: E402
from support.postgres import Cluster  # noqa: E402

ANSWERS = 600
STEADY = 200
RATE = 20.0
IDLE = 5.0
AWAY = 3.0
PROCRASTINATE = "procrastinate==3.10.0"
FIRST = 1_000_000_000_000_000
FILL = """
insert into {s}.conversation (id, metadata, head, unfinished, asking)
select ({first} + n)::text, metadata, head, true, true from {s}.conversation, generate_series(1, {n}) n where id = {of}
"""
FILL_EVENTS = """
insert into {s}.event select ({first} + n)::text, position, line from {s}.event, generate_series(1, {n}) n where conversation = {of}
"""
SIZE = """
select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = relnamespace
where nspname = %s and relkind = 'r'
"""


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    first = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    second = await ctx.ask(mt.Question.select("region", "Which region?", ["eu-1", "us-2"]))
    return f"deployed {env}: {first} {second}"


def _say(request: ModelRequest) -> TextPart | ToolCallPart:
    done = request.events[-1].type == "tool_call_response"
    return TextPart("Done.") if done else ToolCallPart("call_1", "deploy", {"env": "staging"})


agent = mt.Agent(
    mt.FunctionModel(_say),
    tools=[deploy],
    store=mt.open_store(os.environ.get("BENCH_STORE", "var")),
)


class Engine:
    """The mechanism that wakes the workers: the store itself, DBOS inside its transactions, or
    procrastinate through `on_wake`.
    """

    def __init__(self, name: str, url: str, beside: Path | None = None) -> None:
        self.name = name
        self._url = url
        path = [str(HERE), *([str(beside)] if beside else [])]
        plain = url.partition("&midturn_schema")[0]
        self._environment = {
            **os.environ,
            "BENCH_STORE": url,
            "BENCH_QUEUE": plain,
            "PYTHONPATH": os.pathsep.join(path),
        }
        self._deferring: subprocess.Popen[str] | None = None
        if name == "procrastinate":
            subprocess.run(self._command("schema"), env=self._environment, check=True)
            self._deferring = subprocess.Popen(
                self._command("defer"), env=self._environment, stdin=subprocess.PIPE, text=True
            )

    def agent(self) -> mt.Agent:
        """Return the agent on a store that wakes this engine."""
        store = mt.open_store(self._url)
        return agent.with_store(
            store.with_ready_callback(self._defer) if self._deferring else store
        )

    def workers(self, count: int) -> list[subprocess.Popen[bytes]]:
        command = [
            sys.executable,
            "-m",
            "midturn",
            "worker",
            "machines:agent",
            "--engine",
            self.name,
        ]
        command = self._command("work") if self._deferring else command
        return [
            subprocess.Popen(command, cwd=HERE, env=self._environment, stderr=subprocess.DEVNULL)
            for _ in range(count)
        ]

    def end(self) -> None:
        """Stop the process that defers jobs."""
        if self._deferring and self._deferring.stdin:
            self._deferring.stdin.close()
            self._deferring.wait()

    def _defer(self, conversation: str) -> None:
        assert self._deferring
        assert self._deferring.stdin
        print(conversation, file=self._deferring.stdin, flush=True)

    def _command(self, what: str) -> list[str]:
        return [sys.executable, str(HERE / "queued.py"), what]


def _stop(workers: list[subprocess.Popen[bytes]]) -> float:
    began = time.perf_counter()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()
    return time.perf_counter() - began


async def worked_off(mine: mt.Agent, engine: Engine) -> float:
    """Record answers while no worker runs, then start two workers; return answers per second."""
    waiting = [(await mine.run("Ship it.")).pending[0].id for _ in range(ANSWERS)]
    for question in waiting:
        await mine.store.answer(question, True)
    workers = engine.workers(2)
    while len(await mine.store.ready()) == ANSWERS:
        await asyncio.sleep(0.01)
    began = time.perf_counter()
    before = ANSWERS - len(await mine.store.ready())
    while await mine.store.ready():
        await asyncio.sleep(0.05)
    seconds = time.perf_counter() - began
    _stop(workers)
    return (ANSWERS - before) / seconds


async def steady(mine: mt.Agent, engine: Engine) -> tuple[list[float], float]:
    """Answer at an even pace; return the seconds from each answer to the next question, and the
    seconds of a shutdown with SIGTERM.
    """
    waiting = [(await mine.run("Ship it.")).pending[0].id for _ in range(STEADY)]
    workers = engine.workers(2)
    await asyncio.sleep(3)
    found: list[float] = []

    async def one(question: str) -> None:
        conversation = question.partition("-")[0]
        await mine.store.answer(question, True)
        answered = time.perf_counter()
        while not await mine.store.pending(conversation):
            await asyncio.sleep(0.001)
        found.append(time.perf_counter() - answered)

    running: list[asyncio.Task[None]] = []
    for question in waiting:
        running.append(asyncio.create_task(one(question)))
        await asyncio.sleep(1 / RATE)
    await asyncio.gather(*running)
    return found, _stop(workers)


async def idle(engine: Engine, cluster: Cluster) -> tuple[float, float, float]:
    """Return the memory in MB, the percentage of a core and the connections of an idle worker."""
    before = _connections(cluster)
    workers = engine.workers(2)
    await asyncio.sleep(IDLE)
    spent = sum(cpu_of(worker.pid) for worker in workers)
    await asyncio.sleep(IDLE)
    spent = sum(cpu_of(worker.pid) for worker in workers) - spent
    memory = statistics.mean(memory_of(worker.pid) for worker in workers)
    connections = (_connections(cluster) - before) / len(workers)
    _stop(workers)
    return memory, 100 * spent / IDLE / len(workers), connections


def cpu_of(process: int) -> float:
    """Return the processor seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> float:
    """Return the memory of a process in MB."""
    rows = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS")) / 1024


def _connections(cluster: Cluster) -> int:
    with psycopg.connect(cluster.url) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where backend_type = 'client backend'"
        ).fetchone()
    return int(row[0]) if row else 0


async def statements_of_a_turn(url: str) -> tuple[int, int, int]:
    """Count the statements from a request to its question, of the answer, and from there to the
    next question. Notifications are not counted, because their number depends on time: those of
    5 ms are sent together.
    """
    store = PostgresStore(url)
    mine = agent.with_store(store)
    counted = 0
    run_one = store.database.database.run_one

    async def counting(*given: Any) -> Any:
        nonlocal counted
        counted += given[0] is not statements.NOTIFY
        return await run_one(*given)

    await mine.run("The session is there, and the tables.")
    store.database.database.run_one = counting  # type: ignore[method-assign]
    asked = await mine.run("Ship it.")
    begun, counted = counted, 0
    await store.answer(asked.pending[0].id, True)
    answered, counted = counted, 0
    await mine.resume(asked.conversation)
    await store.database.loop.run(store.database.database.close())
    return begun, answered, counted


async def longest_stall(cluster: Cluster, url: str) -> float:
    """Stop the database for three seconds while questions are asked and listed; return the
    longest time the event loop was blocked.
    """
    mine = agent.with_store(mt.open_store(url))
    await mine.run("Ship it.")
    longest = 0.0

    async def ticking() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before - 0.001)

    async def away() -> None:
        stopping = await asyncio.create_subprocess_exec(
            *_pg_ctl(cluster, "-m", "immediate", "stop"), user=cluster.owner
        )
        await stopping.wait()
        await asyncio.sleep(AWAY)
        await asyncio.to_thread(cluster.start)

    tick = asyncio.create_task(ticking())
    going = asyncio.create_task(away())
    while not going.done():
        await asyncio.gather(mine.run("Ship it."), mine.store.pending())
    await going
    tick.cancel()
    return longest


def _pg_ctl(cluster: Cluster, *words: str) -> list[str]:
    return ["pg_ctl", "-D", str(cluster.path / "data"), "-w", "-s", *words]


def fill(connection: psycopg.Connection, url: str, of: str, waiting: int) -> None:
    """Copy a conversation many times in the tables of `url`."""
    schema = url.rpartition("=")[2]
    for statement in (
        FILL,
        FILL_EVENTS,
        "checkpoint",
        "vacuum analyze {s}.conversation, {s}.event",
    ):
        text = sql.SQL(statement).format(
            s=sql.Identifier(schema),
            of=sql.Literal(of),
            first=sql.Literal(FIRST),
            n=sql.Literal(waiting),
        )
        connection.execute(text)


async def growth(mine: mt.Agent, url: str, waiting: int) -> tuple[float, float, float, float]:
    """Fill the tables; return bytes per conversation, and the milliseconds to answer by ID, to
    list ready turns, and to list fifty.
    """
    result = await mine.run("Ship it.")
    plain = url.partition("&midturn_schema")[0]
    schema = url.rpartition("=")[2]
    with psycopg.connect(plain, autocommit=True) as connection:
        fill(connection, url, result.conversation, waiting)
        size = connection.execute(SIZE, [schema]).fetchone()
    event = result.pending[0].id.partition("-")[2]
    answers = [await _timed(mine.store.answer(f"{FIRST + n}-{event}", True)) for n in range(1, 30)]
    claims = [await _timed(mine.store.port.ids(which="ready", limit=1)) for _ in range(20)]
    pages = [await _timed(mine.store.port.questions(limit=50)) for _ in range(20)]
    total = float(size[0]) if size else 0.0
    answer, ready, page = (statistics.median(each) * 1000 for each in (answers, claims, pages))
    return total / (waiting + 1), answer, ready, page


async def _timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def measure(cluster: Cluster, sizes: list[int], beside: Path | None) -> None:
    """Print all measurements."""
    for name in ("none", "dbos", *(["procrastinate"] if beside else [])):
        engine = Engine(name, f"{cluster.url}&midturn_schema=bench_{name}", beside)
        mine = engine.agent()
        rate = await worked_off(mine, engine)
        print(f"engine {name}: {rate:.0f} answers/s worked off by two workers")
        found, stopped = await steady(mine, engine)
        tail = statistics.quantiles(found, n=100)[98]
        middle = statistics.median(found)
        print(
            f"engine {name}: answer to next question p50 {middle * 1000:.1f} ms, p99"
            f" {tail * 1000:.1f} ms"
        )
        memory, busy, connections = await idle(engine, cluster)
        print(
            f"engine {name}: an idle worker {memory:.0f} MB, {busy:.1f} % of a core,"
            f" {connections:.1f} connections"
        )
        print(f"engine {name}: two workers stopped in {stopped:.2f} s")
        engine.end()
    begun, answered, again = await statements_of_a_turn(f"{cluster.url}&midturn_schema=counted")
    print(
        f"statements: {begun} to the question, {answered} for the answer, {again} to the next"
        " question"
    )
    stall = await longest_stall(cluster, f"{cluster.url}&midturn_schema=away")
    print(f"database away for {AWAY:.0f} s: longest stall of the event loop {stall * 1000:.0f} ms")
    for size in sizes:
        url = f"{cluster.url}&midturn_schema=grown_{size}"
        mine = agent.with_store(mt.open_store(url))
        each, answer, ready, page = await growth(mine, url, size)
        print(f"{size:,} waiting: {each:,.0f} bytes each, answer by id {answer:.1f} ms")
        print(f"{size:,} waiting: who is ready {ready:.1f} ms, a page of 50 {page:.1f} ms")
        memory, busy, connections = await idle(Engine("none", url), cluster)
        print(
            f"{size:,} waiting: a worker {memory:.1f} MB, {busy:.1f} % of a core, {connections:.1f}"
            " connections"
        )


def _procrastinate(place: Path) -> Path | None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        str(place),
        PROCRASTINATE,
    ]
    return (
        place
        if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
        else None
    )


def main() -> None:
    """Start a server, measure, remove it."""
    load = os.getloadavg()[0]
    print(f"load {load:.1f}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster("max_connections=200")
        try:
            asyncio.run(
                measure(
                    cluster,
                    [int(word) for word in sys.argv[1:]] or [1_000],
                    _procrastinate(Path(directory)),
                )
            )
        finally:
            cluster.remove()


if __name__ == "__main__":
    main()
