"""Processor time of a round trip by part of midturn, from stack samples.

Sampling does not slow down the program, unlike a tracing profiler. Usage: profiled.py [ROUNDS]
[MESSAGES]
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from counted import HOME
from turns import deploy, prepared, turn

PARTS = {
    "store": "files: locks, opening, reading, the index",
    "turn": "the state machine: the next steps",
    "question": "questions: validation and answers",
    "record": "events, JSON, the model's input",
    "routing": "events, JSON, the model's input",
    "values": "events, JSON, the model's input",
    "runtime": "the runtime: tasks, effects",
    "agent": "creating agents and sessions",
    "compose": "creating agents and sessions",
    "models": "the model's layers: retries, counting",
    "tools": "the tool's parameters and context",
}
SYNCS, LOOP, PROGRAM = (
    "the disk: writes and syncs",
    "asyncio: the event loop and its start-up",
    "the program: its tool and its model",
)


def part(frame: FrameType | None) -> str:
    """Return the part to which the time is attributed: the innermost frame of midturn or
    asyncio.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(HOME):
            where = file.removeprefix(HOME).strip("/")
            if frame.f_code.co_name in ("sync", "write_all") and where == "stores/folder.py":
                return SYNCS
            return next(
                (name for begin, name in PARTS.items() if where.startswith(f"{begin}/")), "the rest"
            )
        if "/asyncio/" in file:
            return LOOP
        if file.endswith("benchmarks/turns.py"):
            return PROGRAM
        frame = frame.f_back
    return "the rest"


class Samples:
    """Samples the stack after each millisecond of processor time while `runs`."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.runs = False
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)

    def _look(self, _: int, frame: FrameType | None) -> None:
        if self.runs:
            self.found[part(frame)] += 1


def profiled(rounds: int, messages: int) -> list[tuple[str, float]]:
    """Return the milliseconds of processor time of a round trip by part, largest first."""
    samples, used = Samples(), 0.0
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            root = Path(directory, str(number))
            _, conversation = prepared(root, messages * 2)
            gc.collect()
            began = time.process_time()
            samples.runs = True
            asyncio.run(turn(root, conversation, deploy, ["eu-1"]))
            samples.runs = False
            used += time.process_time() - began
    signal.setitimer(signal.ITIMER_PROF, 0)
    total = sum(samples.found.values())
    return [
        (name, count / total * used / rounds * 1e3) for name, count in samples.found.most_common()
    ]


def table(rows: Sequence[tuple[str, float]]) -> list[str]:
    """Return the rows as a table with their sum."""
    lines = [f"| {name} | {took:.2f} ms |" for name, took in rows]
    return [
        "| processor time of a round trip | |",
        "| --- | --- |",
        *lines,
        f"| together | {sum(took for _, took in rows):.2f} ms |",
    ]


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    print("\n".join(table(profiled(given[0] if given else 400, given[1] if len(given) > 1 else 0))))
