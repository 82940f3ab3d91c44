"""One turn with one tool call and one question, suspended to disk and resumed by a fresh object.

Beside it, in the same run, the floor: the same bytes appended with the same number of syncs, and read back with msgspec.
Prints medians; asserts nothing. Usage: roundtrip.py [ROUNDS]
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

import midturn as mt
from midturn.core.exchange import ModelRequest, TextPart, ToolCallPart
from midturn.core.json_value import Json

HISTORIES = (0, 100, 1_000)


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    region = await ctx.ask(mt.Question.select("region", "Which region?", ["eu-1", "us-2"]))
    return f"deployed {env} to {region}"


@mt.tool
async def deploy_twice(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service, after two questions."""
    sure = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    region = await ctx.ask(mt.Question.select("region", "Which region?", ["eu-1", "us-2"]))
    return f"deployed {env} to {region}: {sure}"


def model(tool: str) -> mt.FunctionModel:
    """Return a model that calls the tool once and then finishes: what a real one takes is not measured here."""
    call = ToolCallPart("call_1", tool, {"env": "staging"})

    def say(request: ModelRequest) -> ToolCallPart | TextPart:
        return TextPart("Done.") if request.events[-1].type == "tool_call_response" else call

    return mt.FunctionModel(say)


class Counted:
    """Counts what the disk is asked for while it stands in place of the real calls."""

    def __init__(self) -> None:
        self.syncs = 0
        self._fdatasync, self._fsync = os.fdatasync, os.fsync

    def __enter__(self) -> Self:
        os.fdatasync = self._counting(self._fdatasync)
        os.fsync = self._counting(self._fsync)
        return self

    def __exit__(self, *_: object) -> None:
        os.fdatasync, os.fsync = self._fdatasync, self._fsync

    def _counting(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def counting(fd: int) -> None:
            self.syncs += 1
            sync(fd)

        return counting


def history(events: int, moment: str = "2026-01-01T00:00:00.000000Z") -> bytes:
    """Return finished turns of earlier days, about 350 bytes an event."""
    lines: list[bytes] = []
    for turn in range(events // 4):
        filler = "x" * 280
        lines += [
            msgspec.json.encode({"type": "turn_start", "timestamp": moment, "event_id": f"a{turn}", "metadata": {"filler": filler}}),
            msgspec.json.encode({"type": "chat_request", "timestamp": moment, "event_id": f"b{turn}", "content": filler}),
            msgspec.json.encode({"type": "chat_response", "timestamp": moment, "event_id": f"c{turn}", "message": filler}),
            msgspec.json.encode({"type": "turn_end", "timestamp": moment, "event_id": f"d{turn}", "status": "completed"}),
        ]
    return b"".join(line + b"\n" for line in lines)


class Measured(msgspec.Struct):
    """One round: seconds, syncs and bytes."""

    seconds: float
    syncs: int
    written: int


async def turn(store: Path, conversation: str, tool: mt.Tool, answers: list[Json]) -> None:
    """Run until suspended, then answer and resume with fresh objects until the turn is done."""
    name = tool.definition.name
    result = await mt.Agent(model(name), tools=[tool], store=mt.open_store(store)).run("Ship it", conversation=conversation)
    for answer in answers:
        await mt.open_store(store).answer(result.pending[0].id, answer)
        result = await mt.Agent(model(name), tools=[tool], store=mt.open_store(store)).resume(conversation)
    if result.status != "completed":
        raise SystemExit(f"the turn ended {result.status}: {result.error}")


def prepared(root: Path, events: int) -> tuple[Path, str]:
    """Make a store with one conversation of that many events."""
    conversation = mt.open_store(root).new_sync("ship it")
    (path,) = root.glob(f"{conversation}-*")
    (path / "events.jsonl").write_bytes(history(events))
    return path, conversation


def measure(events: int, tool: mt.Tool, answers: list[Json]) -> tuple[Measured, bytes]:
    """Measure one round, and return what it wrote."""
    with tempfile.TemporaryDirectory() as directory:
        path, conversation = prepared(Path(directory), events)
        before = (path / "events.jsonl").stat().st_size
        with Counted() as counted:
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
        chunks = [written[i * len(written) // syncs : (i + 1) * len(written) // syncs] for i in range(syncs)]
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
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(f"{'history':>8} {'questions':>9} {'syncs':>6} {'bytes':>6} {'ms':>8} {'floor ms':>9} {'ratio':>6}")
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
