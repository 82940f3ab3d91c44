"""Answers a second through a pair of workers on PostgreSQL, and what a question costs while it waits.

A private server is started in a temporary directory (`initdb` must be found), with fsync on. Prints medians; asserts nothing.
Usage: machines.py [WAITING …], such as `machines.py 1000 10000 100000`
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

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import psycopg  # noqa: E402  the path comes first
from psycopg import sql  # noqa: E402

import midturn as mt  # noqa: E402
from midturn.core.exchange import ModelRequest, TextPart, ToolCallPart  # noqa: E402
from support.postgres import Cluster  # noqa: E402

ANSWERS = 600
STEADY = 200
RATE = 20.0
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


agent = mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=mt.open_store(os.environ.get("BENCH_STORE", "var")))


def _workers(url: str, count: int, *more: str) -> list[subprocess.Popen[bytes]]:
    environment = {**os.environ, "BENCH_STORE": url, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "midturn", "worker", "machines:agent", *more]
    return [subprocess.Popen(command, cwd=HERE, env=environment, stderr=subprocess.DEVNULL) for _ in range(count)]


def _stop(workers: list[subprocess.Popen[bytes]]) -> float:
    began = time.perf_counter()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()
    return time.perf_counter() - began


async def worked_off(mine: mt.Agent, url: str, *more: str) -> float:
    """Record answers while no worker runs, then start two; return answers a second from the first event to the last."""
    waiting = [(await mine.run("Ship it.")).pending[0].id for _ in range(ANSWERS)]
    for question in waiting:
        await mine.store.answer(question, True)
    workers = _workers(url, 2, *more)
    while len(await mine.store.ready()) == ANSWERS:
        await asyncio.sleep(0.01)
    began = time.perf_counter()
    before = ANSWERS - len(await mine.store.ready())
    while await mine.store.ready():
        await asyncio.sleep(0.05)
    seconds = time.perf_counter() - began
    _stop(workers)
    return (ANSWERS - before) / seconds


async def steady(mine: mt.Agent, url: str, *more: str) -> tuple[list[float], float]:
    """Answer at an even pace; return the seconds from each answer to the next question, and those that SIGTERM took."""
    waiting = [(await mine.run("Ship it.")).pending[0].id for _ in range(STEADY)]
    workers = _workers(url, 2, *more)
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


async def growth(mine: mt.Agent, url: str, waiting: int) -> tuple[float, float, float, float]:
    """Fill the tables; return bytes a conversation, and milliseconds to answer by id, to claim nothing, and to list fifty."""
    result = await mine.run("Ship it.")
    plain = url.partition("&midturn_schema")[0]
    schema = url.rpartition("=")[2]
    with psycopg.connect(plain, autocommit=True) as connection:
        for statement in (FILL, FILL_EVENTS, "checkpoint", "vacuum analyze {s}.conversation, {s}.event"):
            text = sql.SQL(statement).format(
                s=sql.Identifier(schema), of=sql.Literal(result.conversation), first=sql.Literal(FIRST), n=sql.Literal(waiting)
            )
            connection.execute(text)
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


async def measure(cluster: Cluster, sizes: list[int]) -> None:
    """Print it all."""
    for engine in ("none", "dbos"):
        url = f"{cluster.url}&midturn_schema=bench_{engine}"
        mine = agent.with_store(mt.open_store(url))
        rate = await worked_off(mine, url, "--engine", engine)
        print(f"engine {engine}: {rate:.0f} answers/s worked off by two workers")
        found, stopped = await steady(mine, url, "--engine", engine)
        tail = statistics.quantiles(found, n=100)[98]
        middle = statistics.median(found)
        print(f"engine {engine}: answer to next question p50 {middle * 1000:.1f} ms, p99 {tail * 1000:.1f} ms")
        print(f"engine {engine}: two workers stopped in {stopped:.2f} s")
    for size in sizes:
        url = f"{cluster.url}&midturn_schema=grown_{size}"
        mine = agent.with_store(mt.open_store(url))
        each, answer, ready, page = await growth(mine, url, size)
        print(f"{size:,} waiting: {each:,.0f} bytes each, answer by id {answer:.1f} ms")
        print(f"{size:,} waiting: who is ready {ready:.1f} ms, a page of 50 {page:.1f} ms")


def main() -> None:
    """Start a server, measure, remove it."""
    load = os.getloadavg()[0]
    print(f"load {load:.1f}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory():
        cluster = Cluster("max_connections=200")
        try:
            asyncio.run(measure(cluster, [int(word) for word in sys.argv[1:]] or [1_000]))
        finally:
            cluster.remove()


if __name__ == "__main__":
    main()
