# pyright: basic, reportMissingImports=false, reportMissingTypeStubs=false
"""Fifty concurrent turns in one process, on disks of different speed: turns per second, maximum
lag of the event loop, CPU time per turn.

Each turn asks one question, which is answered after 50 ms. A slow disk is simulated by a
preloaded library (`slow_sync.c`) that delays every sync of every process, including the database
server. It needs a C compiler, and PostgreSQL and the other frameworks if they are to be measured.
Every cell runs in its own process. The cells of one disk run alternately, and the median of the
rounds is printed.

Usage: many_turns.py [--sync MS …] [--turns N] [--rounds N] [PROGRAM …]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

ANSWER_DELAY = 0.05
"""Seconds until the user answers."""
APPENDS = 6
"""Durable writes of a turn with one question."""
LAG_INTERVAL = 0.002
"""Seconds between two measurements of the event loop's lag."""
Turn: TypeAlias = Callable[[], Awaitable[None]]
Prepare: TypeAlias = Callable[[AsyncExitStack, Path, str], Awaitable[Turn]]
"""Takes a directory and a database address; returns a function that runs one turn."""


# --------------------------------------------------------------------------------------------------
# The programs


async def floor(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Write as many lines to a file of its own, synced in threads: a lower bound without a
    framework.
    """
    del database
    pool = stack.enter_context(ThreadPoolExecutor(64))
    numbers = itertools.count()

    async def turn() -> None:
        loop = asyncio.get_running_loop()
        fd = os.open(root / str(next(numbers)), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for number in range(APPENDS):
            if number == APPENDS // 2:
                await asyncio.sleep(ANSWER_DELAY)
            os.write(fd, b'{"filler":"%b"}\n' % (b"x" * 206))
            await loop.run_in_executor(pool, os.fdatasync, fd)
        os.close(fd)

    return turn


def _midturn(store: Any) -> Turn:
    import midturn as mt
    from turns import deploy, model

    class User(mt.Prompter):
        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            del prompt
            await asyncio.sleep(ANSWER_DELAY)
            return mt.Answered("eu-1")

    async def turn() -> None:
        result = await mt.Agent(model("deploy"), tools=[deploy], store=store, prompter=User()).run(
            "Ship it"
        )
        assert result.status == "completed", result

    return turn


async def memory(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run midturn with the memory store."""
    import midturn as mt

    del stack, root, database
    return _midturn(mt.MemoryStore())


async def files(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run midturn with the file store."""
    import midturn as mt

    del stack, database
    return _midturn(mt.open_store(root / "store"))


async def postgres(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run midturn with the PostgreSQL store."""
    import midturn as mt

    del stack, root
    return _midturn(mt.open_store(f"{database}&midturn_schema=s{os.getpid()}"))


def _langgraph(saver: Any) -> Turn:
    from langchain_core.messages import HumanMessage
    from langgraph.types import Command

    from contestants import langgraph_on

    graph = langgraph_on(saver)
    numbers = itertools.count()

    async def turn() -> None:
        thread: Any = {"configurable": {"thread_id": str(next(numbers))}}
        asked = await graph.ainvoke({"messages": [HumanMessage("Ship it")]}, thread)
        assert asked["__interrupt__"]
        await asyncio.sleep(ANSWER_DELAY)
        done = await graph.ainvoke(Command(resume="eu-1"), thread)
        assert done["messages"][-1].content == "Done."

    return turn


async def langgraph_sqlite(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run LangGraph with its SQLite checkpointer."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    del database
    return _langgraph(
        await stack.enter_async_context(
            AsyncSqliteSaver.from_conn_string(str(root / "checkpoints.sqlite"))
        )
    )


async def langgraph_postgres(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run LangGraph with its PostgreSQL checkpointer, on a pool of ten connections."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    del root
    settings: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any = AsyncConnectionPool(database, min_size=1, max_size=10, open=False, kwargs=settings)
    saver = AsyncPostgresSaver(await stack.enter_async_context(pool))
    await saver.setup()
    return _langgraph(saver)


async def dbos(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run a DBOS workflow on PostgreSQL that waits in `recv`; it stays in memory."""
    from dbos import DBOS

    del root

    class Steps:
        @staticmethod
        @DBOS.step()
        async def model(*, answered: bool) -> str:
            return "Done." if answered else "call deploy"

        @staticmethod
        @DBOS.step()
        async def deploy(region: str) -> str:
            return f"deployed staging to {region}"

    async def turns(request: str) -> str:
        assert request
        assert await Steps.model(answered=False)
        await DBOS.set_event_async("asked", "Which region?")
        region = await DBOS.recv_async("answer", 60)
        assert await Steps.deploy(str(region))
        return await Steps.model(answered=True)

    DBOS(
        config={
            "name": "bench",
            "system_database_url": database.replace("postgresql://", "postgresql+psycopg://"),
            "log_level": "ERROR",
            "notification_listener_polling_interval_sec": 0.001,
        }
    )
    workflow = DBOS.workflow()(turns)
    DBOS.launch()
    stack.callback(DBOS.destroy)

    async def turn() -> None:
        handle = await DBOS.start_workflow_async(workflow, "Ship it")
        assert await DBOS.get_event_async(handle.workflow_id, "asked", 60)
        await asyncio.sleep(ANSWER_DELAY)
        await DBOS.send_async(handle.workflow_id, "eu-1", "answer")
        assert await handle.get_result() == "Done."

    return turn


async def pydantic_ai(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run pydantic-ai with a deferred tool; the program syncs its messages to a file."""
    del stack, database
    return await _with_a_file("pydantic_ai", root)


async def openai_agents(stack: AsyncExitStack, root: Path, database: str) -> Turn:
    """Run the OpenAI Agents SDK with an approval; the program syncs its state to a file."""
    del stack, database
    return await _with_a_file("openai_agents", root)


async def _with_a_file(name: str, root: Path) -> Turn:
    import contestants

    numbers = itertools.count()

    async def turn() -> None:
        place = root / str(next(numbers))
        place.mkdir()
        await getattr(contestants, name)(place, 0)()
        await asyncio.sleep(ANSWER_DELAY)

    return turn


PROGRAMS: dict[str, Prepare] = {
    "floor": floor,
    "memory": memory,
    "files": files,
    "langgraph-sqlite": langgraph_sqlite,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "postgres": postgres,
    "langgraph-postgres": langgraph_postgres,
    "dbos": dbos,
}
ON_POSTGRES = ("postgres", "langgraph-postgres", "dbos")


# --------------------------------------------------------------------------------------------------
# One cell


class Lag:
    """Measures the delay with which the event loop wakes a sleeping task."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LAG_INTERVAL)
            self.worst = max(self.worst, time.perf_counter() - began - LAG_INTERVAL)


async def measure(name: str, turns: int, root: Path, database: str) -> dict[str, float]:
    """Run the turns of one program concurrently, after a few warm-up turns."""
    async with AsyncExitStack() as stack:
        turn = await PROGRAMS[name](stack, root, database)
        for _ in range(3):
            await turn()
        await asyncio.gather(*(turn() for _ in range(min(turns, 10))))
        lag = Lag()
        measuring = asyncio.create_task(lag.measure())
        await asyncio.sleep(0.02)
        lag.worst = 0.0
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(turn() for _ in range(turns)))
        took, used = time.perf_counter() - began, time.process_time() - cpu
        await asyncio.sleep(0)
        measuring.cancel()
    return {
        "turns_per_second": turns / took,
        "lag_ms": lag.worst * 1_000,
        "cpu_ms": used / turns * 1_000,
        "wall_ms": took * 1_000,
    }


# --------------------------------------------------------------------------------------------------
# All cells


def slow_sync_library(directory: Path) -> Path:
    """Compile the library that delays syncs."""
    library = directory / "slow_sync.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "slow_sync.c", "-ldl"], check=True
    )
    library.chmod(0o755)
    return library


def slowed(library: Path, sync: str) -> dict[str, str]:
    """Return the environment of a disk: `5` for 5 ms per sync, or `0-20` for a random delay."""
    if sync == "0":
        return {}
    name, value = (
        ("SLOW_SYNC_UP_TO_MS", sync.partition("-")[2]) if "-" in sync else ("SLOW_SYNC_MS", sync)
    )
    return {"LD_PRELOAD": str(library), name: value}


def cell(
    name: str, turns: int, environment: dict[str, str], database: str, folder: str | None
) -> dict[str, float]:
    """Measure one program once, in its own process."""
    with tempfile.TemporaryDirectory(dir=folder) as root:
        command = [
            sys.executable,
            __file__,
            "--cell",
            name,
            "--turns",
            str(turns),
            "--root",
            root,
            "--database",
            database,
        ]
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", default=[])
    parser.add_argument("--sync", nargs="+", default=["0", "5"])
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="directory on the file system to measure")
    parser.add_argument("--cell")
    parser.add_argument("--root")
    parser.add_argument("--database", default="")
    given = parser.parse_args()
    if given.cell:
        print(
            json.dumps(
                asyncio.run(measure(given.cell, given.turns, Path(given.root), given.database))
            )
        )
        return
    names = given.programs or list(PROGRAMS)
    with tempfile.TemporaryDirectory(prefix="midturn-bench-") as directory:
        Path(directory).chmod(0o755)
        library = slow_sync_library(Path(directory))
        for sync in given.sync:
            environment = slowed(library, sync)
            with ExitStack() as stack:
                database = _database(stack, environment) if set(names) & set(ON_POSTGRES) else ""
                rounds: dict[str, list[dict[str, float]]] = {name: [] for name in names}
                for _ in range(given.rounds):
                    for name in names:
                        rounds[name].append(
                            cell(name, given.turns, environment, database, given.folder)
                        )
            _print(sync, given.turns, rounds)
    print(f"load of the machine: {' / '.join(f'{load:.1f}' for load in os.getloadavg())}")


def _database(stack: ExitStack, environment: dict[str, str]) -> str:
    """Start a database server on the same disk."""
    from support.postgres import Cluster

    before = dict(os.environ)
    os.environ.update(environment)
    try:
        cluster = Cluster("max_connections=100")
    finally:
        os.environ.clear()
        os.environ.update(before)
    stack.callback(cluster.remove)
    return cluster.url


def _print(sync: str, turns: int, rounds: dict[str, list[dict[str, float]]]) -> None:
    print(
        f"{turns} turns, {sync} ms a sync longer: turns a second (worst lag of the loop in ms; CPU"
        " time of a turn in ms)"
    )
    for name, measured in rounds.items():
        speed, lag, cpu = (
            statistics.median(one[key] for one in measured)
            for key in ("turns_per_second", "lag_ms", "cpu_ms")
        )
        print(f"  {name:20} {speed:6.1f} ({lag:6.0f}; {cpu:5.2f})", flush=True)


if __name__ == "__main__":
    main()
