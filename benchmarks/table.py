"""Every figure in one run and one table: midturn, a lower bound from the same run, and other
frameworks that can wait for a person.

`make bench-peers` runs it in its own environment and writes `docs/operations/performance.md`.
Times are wall times, except for start-up costs, which are processor times (user and system).
Compared programs run alternately, round after round, and a ratio is the median of the ratios of
the rounds, so that a slow machine affects both. Usage: table.py [--write FILE] [--conversations
N] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import contestants
import midturn as mt
import terminal
from profiled import profiled, table as profile
from startup import NAMES as BEGINNING, TURN, installed, spent, to_first_byte
from store import burst, fill
from turns import QUESTIONS, agent_history, deploy, forget, interviewed, keep, model, prepared, turn

HISTORIES = (0, 100, 1_000)
NAMES = {
    "midturn": "midturn",
    "midturn_anew": "midturn, without caches in the process",
    "floor": "the floor",
    "floor_in_threads": "the floor, with each sync in a thread",
    "langgraph": "LangGraph with SQLite",
    "pydantic_ai": "pydantic-ai, deferred tool",
    "openai_agents": "OpenAI Agents SDK, `RunState`",
    "dbos": "DBOS, `recv`, in memory",
}
PACKAGES = (
    "midturn",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "pydantic-ai-slim",
    "openai-agents",
    "dbos",
)
COMMAND = "from midturn.__main__ import main; main()"
QUERY = (COMMAND, "query", "-m", "scripted:hello.json", "hello")
FIRST_BYTE = "`midturn query`, to its first byte"
PLAY = {
    "replies": [
        {
            "calls": [
                {"name": "ask_user", "arguments": {"question": "Sure?", "answer_type": "boolean"}}
            ]
        },
        {"text": "Done."},
    ]
}
LANGGRAPH = """
import sqlite3, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import asyncio, contestants
asyncio.run(contestants.langgraph_resumed(Path(sys.argv[1])))
"""
ENOUGH = 3
"""Number of rounds after which a slow machine may stop."""
MOST_SECONDS = 50

Row = tuple[str, str]
AT = " / ".join(f"{size:,}" for size in HISTORIES) + " messages"


class Took(NamedTuple):
    """Milliseconds of a round: wall time, and processor time, which other processes hardly
    affect.
    """

    all: float
    processor: float


def clock(work: Callable[[], object]) -> float:
    """Return the duration in milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def round_trips(rounds: int) -> tuple[list[str], list[Row]]:
    """Run the turn in every program, round after round.

    The program with permanently busy threads runs last.
    """
    found = _rounds({name: getattr(contestants, name) for name in NAMES if name != "dbos"}, rounds)
    with tempfile.TemporaryDirectory() as directory:
        dbos = contestants.Dbos(Path(directory))
        found |= _rounds({"dbos": dbos}, rounds)
        dbos.close()
    table = [
        "| ms at a history of | " + " | ".join(f"{size:,} messages" for size in HISTORIES) + " |",
        "| --- | --- | --- | --- |",
    ]
    for name, shown in NAMES.items():
        times = (statistics.median(took.all for took in found[name, size]) for size in HISTORIES)
        table.append(f"| {shown} | " + " | ".join(f"{time:.1f}" for time in times) + " |")
    rows: list[Row] = []
    for other in ("langgraph", "floor", "floor_in_threads"):
        for own, what in (
            ("midturn", f"round trip, ratio to {NAMES[other]}, at {AT}"),
            ("midturn_anew", "the same, without caches in the process"),
        ):
            pairs = [
                list(zip(found[own, size], found[other, size], strict=True)) for size in HISTORIES
            ]
            whole = " / ".join(
                f"{statistics.median(ours.all / theirs.all for ours, theirs in of_size):.2f}"
                for of_size in pairs
            )
            worked = " / ".join(
                f"{statistics.median(ours.processor / theirs.processor for ours, theirs in of_size):.2f}"
                for of_size in pairs
            )
            rows.append((what, f"{whole}; processor time {worked}"))
    return table, rows


def _rounds(
    programs: Mapping[str, contestants.Contestant], rounds: int
) -> dict[tuple[str, int], list[Took]]:
    found: dict[tuple[str, int], list[Took]] = {}
    began = time.monotonic()
    for number in range(rounds + 1):
        if number > ENOUGH and time.monotonic() - began > MOST_SECONDS:
            break
        for messages in HISTORIES:
            for name, program in programs.items():
                took = _once(program, messages)
                if number:  # the first round loads modules
                    found.setdefault((name, messages), []).append(took)
    return found


def _once(program: contestants.Contestant, messages: int) -> Took:
    with tempfile.TemporaryDirectory() as directory:
        run = program(Path(directory), messages)
        gc.collect()
        began = time.process_time()
        took = clock(lambda: asyncio.run(_awaited(run)))
        return Took(took, (time.process_time() - began) * 1e3)


async def _awaited(run: Callable[[], Awaitable[None]]) -> None:
    await run()


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def growth(rounds: int) -> list[Row]:
    """Measure the processor time that a history with calls and questions adds to a turn."""

    def once(events: int, between: Callable[[], None]) -> float:
        with tempfile.TemporaryDirectory() as directory:
            path, conversation = prepared(Path(directory), 0)
            (path / "events.jsonl").write_bytes(agent_history(events))
            began = time.process_time()
            asyncio.run(turn(Path(directory), conversation, deploy, ["eu-1"], between))
            return (time.process_time() - began) * 1e6

    rows: list[Row] = []
    for what, between in (
        ("processor time per turn for each event of a history with calls and questions", keep),
        ("the same, without caches in the process", forget),
    ):
        short, long = zip(
            *((once(0, between), once(4_000, between)) for _ in range(rounds * 3)), strict=True
        )
        rows.append((what, f"{(min(long) - min(short)) / 4_000:.2f} µs"))
    return rows


def many_questions() -> list[Row]:
    """Compare the last ten with the first ten of many questions in one turn."""
    ratios = [last / first for first, last in (interviewed(time.process_time) for _ in range(5))]
    return [
        (
            f"the last of {QUESTIONS} questions in a turn, ratio to the first",
            f"{statistics.median(ratios):.2f}",
        )
    ]


def commands(rounds: int) -> list[Row]:
    """Start commands repeatedly, next to a Python that does nothing."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        environment = {
            **installed(),
            "HOME": directory,
            "XDG_STATE_HOME": directory,
            "XDG_DATA_HOME": directory,
        }
        (root / "play.json").write_text(json.dumps(PLAY))
        (root / "hello.json").write_text(json.dumps({"replies": [{"text": "Hello."}]}))

        def process(program: str, *arguments: str) -> None:
            command = [sys.executable, "-c", program, *arguments]
            ended = subprocess.run(
                command,
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            if b"Traceback" in ended.stderr:
                raise SystemExit(ended.stderr.decode())

        process(COMMAND, "init")
        from support.places import workspace_store  # only importable after the path is set

        store = mt.open_store(workspace_store(root, root), trusted=True)

        def answered() -> float:
            process(COMMAND, "query", "-m", "scripted:play.json", "--defer", "hello")
            (waiting,) = store.pending_sync()
            return clock(lambda: process(COMMAND, "answer", waiting.id, "yes", "--resume"))

        def resumed_elsewhere() -> float:
            with tempfile.TemporaryDirectory() as other:
                asyncio.run(contestants.langgraph_asked(Path(other)))
                return clock(lambda: process(LANGGRAPH, other, str(Path(__file__).parent)))

        programs = {
            "`import midturn`": ("import midturn",),
            "with `Agent`, `tool`, `Question` and `open_store`": (BEGINNING,),
            "with a turn of an agent up to its question": (TURN,),
            "of that, `asyncio` and `msgspec` alone": ("import asyncio, msgspec",),
            "`midturn --version`": (COMMAND, "--version"),
            "`midturn inbox`": (COMMAND, "inbox"),
            "`midturn query`, one reply": QUERY,
        }
        over: dict[str, list[float]] = {what: [] for what in (*programs, FIRST_BYTE)}
        for program in programs.values():
            process(*program)  # compiles the modules
        ours: list[float] = []
        theirs: list[float] = []
        began = time.monotonic()
        for number in range(rounds):
            if number > ENOUGH and time.monotonic() - began > MOST_SECONDS:
                break
            ours.append(answered())
            theirs.append(resumed_elsewhere())
            for what, program in programs.items():
                began_at = spent()
                process("pass")
                bare = spent() - began_at
                process(*program)
                over[what].append((spent() - began_at - 2 * bare) * 1e3)
            bare, first = (
                to_first_byte([sys.executable, "-c", *program], root, environment)
                for program in (("print()",), QUERY)
            )
            over[FIRST_BYTE].append((first - bare) * 1e3)
    rows = [
        (
            "a cold `midturn answer ID VALUE --resume`, ratio to a cold resume in LangGraph",
            f"{_ratio(ours, theirs):.2f}",
        )
    ]
    for what, took in over.items():
        kind = "" if what == FIRST_BYTE else "processor time "
        rows.append(
            (f"{what}, {kind}above an empty Python program", f"{statistics.median(took):.1f} ms")
        )
    return rows


def stores(conversations: int) -> list[Row]:
    """Create, answer and list in stores with many conversations."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        first, last = burst(root / "burst", 10_000)
        rows = [("creating the 10,000th conversation, ratio to the first", f"{last / first:.2f}")]
        asked = fill(root / "many", conversations, 1_000)
        mt.open_store(root / "many").pending_sync()  # a copied store is scanned once
        store = mt.open_store(root / "many")
        rows.append(
            (
                f"open questions of {conversations:,} conversations, 1,000 of them open, in a new process",
                f"{clock(store.pending_sync):.0f} ms",
            )
        )
        rows.append(
            (
                "the same, again",
                f"{statistics.median(clock(store.pending_sync) for _ in range(9)):.0f} ms",
            )
        )
        answers = [
            clock(lambda question=question: store.answer_sync(question, True))
            for question in asked[:200]
        ]
        rows.append(
            (
                f"one answer in a store with {conversations:,} conversations",
                f"{statistics.median(answers):.2f} ms",
            )
        )
        rows.append(
            (
                "listing 50 conversation ids",
                (
                    f"{statistics.median(clock(lambda: store.ids_sync(limit=50)) for _ in range(5)):.1f} ms"
                ),
            )
        )
    return rows


def answered_turns() -> list[Row]:
    """Answer and resume turns while a thousand wait."""
    with tempfile.TemporaryDirectory() as directory:
        store = mt.open_store(directory)
        agent = mt.Agent(model("deploy"), tools=[deploy], store=store)

        async def all_of_them() -> float:
            asked = [(await agent.run("Ship it")).pending[0] for _ in range(1_000)]
            began = time.perf_counter()
            for question in asked[:300]:
                await store.answer(question.id, "eu-1")
                await agent.resume(question.conversation)
            return 300 / (time.perf_counter() - began)

        return [
            ("answered turns per second, with 1,000 waiting", f"{asyncio.run(all_of_them()):.0f}")
        ]


def long_conversation() -> list[Row]:
    """Run and resume in a conversation of 100,000 events."""
    with tempfile.TemporaryDirectory() as directory:
        path, conversation = prepared(Path(directory), 0)
        (path / "events.jsonl").write_bytes(agent_history(100_000))

        def agent() -> mt.Agent:
            forget()
            return mt.Agent(model("deploy"), tools=[deploy], store=mt.open_store(directory))

        result = agent().run_sync("Ship it", conversation=conversation)
        looks = [clock(mt.open_store(directory).pending_sync) for _ in range(9)]
        again = [clock(lambda: agent().resume_sync(conversation)) for _ in range(5)]
        agent().store.answer_sync(result.pending[0].id, "eu-1")
        last = clock(lambda: agent().resume_sync(conversation))
    return [
        (
            "resuming a conversation of 100,000 events, to its question",
            f"{statistics.median(again):.0f} ms",
        ),
        (
            "the same until the turn ends, with a model request that contains the whole history",
            f"{last:.0f} ms",
        ),
        (
            "listing the question in such a conversation, in a new process",
            f"{statistics.median(looks):.2f} ms",
        ),
    ]


def at_the_terminal(rounds: int) -> list[Row]:
    """Measure prompts at the other end of a terminal."""
    echoed, painted, outcomes = terminal.measured(rounds)
    return [
        ("key press to echo: median, 99th percentile", terminal.percentiles(echoed)),
        ("drawing a prompt: median, 99th percentile", terminal.percentiles(painted)),
        (
            "from a command's question to its first drawn cell: median, 99th percentile",
            terminal.percentiles(outcomes),
        ),
    ]


INTRODUCTION = """# Performance

This page lists the measured cost of one question: a tool asks once, the turn is stored on disk, and it is resumed with the answer. For the
cost of many open questions, read [Monitoring](monitoring.md#number-of-open-questions).

`tools/task bench-peers` runs the measurements and writes this page. `make bench-check` fails if a count (bytes, syncs, calls, modules) got
worse.

**The compared programs** run the same turn. A model, which is a function, calls one tool. The tool waits for a person. The state is
stored on disk. The turn is resumed with newly created objects, as after a restart.

All programs run alternately in one process, as in a web service, so they benefit from caches in the process. In the row "without caches in
the process", these caches are cleared before each step. DBOS runs last, because its threads would slow the others down. A ratio is the
median of the ratios of all rounds. The columns differ in the number of earlier messages, each with 280 characters.

**The floor** is a lower bound without any framework: a script writes the same number of bytes with the same number of syncs, and reads and
decodes the file. It blocks its event loop during a sync. The floor with threads syncs in a thread instead, as asyncio programs should.

**Not compared:** LangGraph, Pydantic AI and the OpenAI Agents SDK do more than ask. midturn writes each question, answer and result
to disk before the next step. Pydantic AI and the OpenAI Agents SDK write one file for each run. DBOS stays in memory between question and
answer, so its number does not include a restart. The speed of models is not measured.
"""

WHAT_IS_LEFT = """
**Costs above the floor.** The floor opens a file, appends and reads it. A round trip in midturn consists of three independent
programs: one runs the turn, one answers, one resumes.

Each program finds the conversation by its ID, locks it, reads the last turn from the end of the log, reads queued answers, and updates
the index of open turns. Before each write it checks that no other process has written. The tool runs twice: up to its question, and again
with the answer. The question and the answer are validated. A profile of a program that does nothing else:
"""


def page(table: Sequence[str], rows: Sequence[Row], parts: Sequence[str]) -> str:
    """Return the document."""
    load = " / ".join(f"{value:.1f}" for value in os.getloadavg())
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    where = (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.machine()}, {os.cpu_count()}"
        f" cores, load {load}"
    )
    lines = [
        INTRODUCTION,
        f"Measured on {where}; Python {platform.python_version()}; {packages}.",
        "",
        *table,
        "",
    ]
    lines += ["| figure | |", "| --- | --- |", *(f"| {what} | {value} |" for what, value in rows)]
    return "\n".join([*lines, WHAT_IS_LEFT, *parts, ""])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    table, rows = round_trips(given.rounds)
    figures = json.loads(Path(__file__).with_name("figures.json").read_text())
    rows.append(("bytes of a turn of one question", _figures(figures, "after 0 events: bytes")))
    rows.append(
        (
            "syncs of a turn of one question, and of two",
            _figures(figures, "after 0 events: syncs", "two questions: syncs"),
        )
    )
    for part in (
        lambda: growth(given.rounds),
        many_questions,
        lambda: commands(given.rounds),
        lambda: at_the_terminal(given.rounds * 6),
        long_conversation,
        answered_turns,
        lambda: stores(given.conversations),
    ):
        rows += part()
        print(f"{rows[-1][0]}: {rows[-1][1]}", file=sys.stderr)
    written = page(table, rows, profile(profiled(given.rounds * 40, 0)))
    print(written)
    if given.write:
        given.write.write_text(written)


def _figures(figures: dict[str, float], *ends: str) -> str:
    return ", ".join(
        f"{value:,.0f}" for end in ends for name, value in figures.items() if name.endswith(end)
    )


if __name__ == "__main__":
    main()
