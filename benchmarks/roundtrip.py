"""One turn with one tool call and one question, suspended to disk and resumed by a new object.

The same run measures a lower bound: appending the same bytes with the same number of syncs and
reading them back with msgspec. Prints medians; asserts nothing. Usage: roundtrip.py [ROUNDS]
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

import midturn as mt
from counted import Disk
from midturn.question.json_value import Json
from turns import deploy, deploy_twice, history, prepared, turn

HISTORIES = (0, 100, 1_000)


class Measured(msgspec.Struct):
    """One round: seconds, syncs and bytes."""

    seconds: float
    syncs: int
    written: int


def measure(events: int, tool: mt.Tool, answers: list[Json]) -> tuple[Measured, bytes]:
    """Measure one round; return it with the written bytes."""
    with tempfile.TemporaryDirectory() as directory:
        path, conversation = prepared(Path(directory), events)
        before = (path / "events.jsonl").stat().st_size
        with Disk() as counted:
            start = time.perf_counter()
            asyncio.run(turn(Path(directory), conversation, tool, answers))
            seconds = time.perf_counter() - start
        written = (path / "events.jsonl").read_bytes()[before:]
    return Measured(seconds, counted.syncs, len(written)), written


def floor(events: int, written: bytes, syncs: int) -> float:
    """Append the same bytes with the same number of syncs, and read everything back."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "events.jsonl"
        path.write_bytes(history(events))
        chunks = [
            written[i * len(written) // syncs : (i + 1) * len(written) // syncs]
            for i in range(syncs)
        ]
        start = time.perf_counter()
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        for chunk in chunks:
            os.write(fd, chunk)
            os.fdatasync(fd)
        os.close(fd)
        decoder = msgspec.json.Decoder()
        for line in path.read_bytes().splitlines():
            decoder.decode(line)
        return time.perf_counter() - start


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(
        f"{'history':>8} {'questions':>9} {'syncs':>6} {'bytes':>6} {'ms':>8} {'floor ms':>9}"
        f" {'ratio':>6}"
    )
    for questions, tool, answers in ((1, deploy, ["eu-1"]), (2, deploy_twice, [True, "eu-1"])):
        for events in HISTORIES:
            measured: list[Measured] = []
            floors: list[float] = []
            for _ in range(rounds):
                one, written = measure(events, tool, list(answers))
                measured.append(one)
                floors.append(floor(events, written, one.syncs))
            took, least = statistics.median(m.seconds for m in measured), statistics.median(floors)
            row = f"{events:>8} {questions:>9} {measured[0].syncs:>6} {measured[0].written:>6}"
            print(f"{row} {took * 1e3:>8.2f} {least * 1e3:>9.2f} {took / least:>6.2f}")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
