"""Cost of a file store: creating conversations, answering one, listing open questions.

Prints figures; asserts nothing.

$ python benchmarks/store.py [conversations] [of them open]
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import midturn as mt
from midturn.events.codec import encode_event
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    InquiryRequest,
    Source,
    ToolCallRequest,
    TurnEnd,
    TurnStart,
)
from midturn.stores.file_conversations import FileConversations
from midturn.stores.metadata import conversation_number
from midturn.stores.sync_forms import drive

BURST = 10_000
ROUNDS = 200
QUESTION = mt.Question.boolean("confirm", "Deploy?").persisted()
STAMP = "2026-11-21T10:00:00.000000Z"
FINISHED = b"".join(
    encode_event(event) + b"\n"
    for event in (
        TurnStart(event_id="a", timestamp=STAMP),
        ChatRequest(event_id="b", timestamp=STAMP, content="Hello"),
        ChatResponse(event_id="c", timestamp=STAMP, message="Hello yourself"),
        TurnEnd(event_id="d", timestamp=STAMP, status="completed"),
    )
)
OPEN = b"".join(
    encode_event(event) + b"\n"
    for event in (
        TurnStart(event_id="a", timestamp=STAMP),
        ChatRequest(event_id="b", timestamp=STAMP, content="Ship it"),
        ToolCallRequest(
            event_id="c", timestamp=STAMP, id="call_1", name="deploy", arguments={"env": "staging"}
        ),
        InquiryRequest(
            event_id="d",
            timestamp=STAMP,
            id="call_1.confirm.1",
            call="c",
            source=Source.tool("deploy"),
            question_id="confirm",
            question=QUESTION,
        ),
    )
)


def timed(work: Callable[[], object]) -> float:
    """Return the duration in milliseconds."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def made(files: FileConversations) -> float:
    """Create one conversation with its first batch; return the duration."""

    def make() -> None:
        journal = drive(files.create("Ship it"))
        drive(journal.append([TurnStart(), ChatRequest(content="Ship it")]))
        journal.close()

    return timed(make)


def burst(root: Path, conversations: int) -> tuple[float, float]:
    """Create conversations in a large store and in an empty one; return the time per conversation
    in each.

    The last twentieth of the large store and the first conversations of the other one are created
    alternately, so that a slow phase of the disk affects both.
    """
    many, few = FileConversations(root / "many"), FileConversations(root / "few")
    last = conversations // 20
    for _ in range(conversations - last):
        made(many)
    took = [(made(few), made(many)) for _ in range(last)]
    return statistics.median(of_few for of_few, _ in took), statistics.median(
        of_many for _, of_many in took
    )


def fill(root: Path, conversations: int, open_ones: int) -> list[str]:
    """Create conversations as another program would, with links and the index; return the IDs of
    the open questions.
    """
    root.mkdir(parents=True)
    (root / "open").mkdir()
    first = conversation_number() - conversations
    every = conversations // open_ones
    asked: list[str] = []
    for number in range(first, first + conversations):
        name = f"{number}-ship-it"
        (root / name).mkdir()
        (root / f".{number}").symlink_to(name)
        is_open = (number - first) % every == 0
        (root / name / "events.jsonl").write_bytes(OPEN if is_open else FINISHED)
        if is_open:
            (root / "open" / str(number)).touch()
            asked.append(f"{number}-d")
    return asked


def append_against_write(root: Path) -> tuple[float, float]:
    """Return the times of an append, and of a plain `write` with `fdatasync` of as many bytes,
    measured alternately.
    """
    journal = drive(FileConversations(root).create("Ship it"))
    drive(journal.append([TurnStart()]))
    line = encode_event(ChatResponse(event_id="c" * 12, timestamp=STAMP, message="x" * 250)) + b"\n"
    fd = os.open(root / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ours: list[float] = []
    bare: list[float] = []

    def plain() -> None:
        os.write(fd, line)
        os.fdatasync(fd)

    event = ChatResponse(event_id="c" * 12, timestamp=STAMP, message="x" * 250)
    for _ in range(ROUNDS):
        ours.append(timed(lambda: drive(journal.append([event]))))
        bare.append(timed(plain))
    os.close(fd)
    journal.close()
    return statistics.median(ours), statistics.median(bare)


def percentiles(times: list[float]) -> str:
    """Return the median and the 99th percentile."""
    ordered = sorted(times)
    return (
        f"p50 {statistics.median(ordered):.2f} ms, p99 {ordered[int(len(ordered) * 0.99)]:.2f} ms"
    )


async def answered(store: mt.ConversationStore, ids: list[str]) -> list[float]:
    """Answer questions in sequence; return the time of each."""
    times: list[float] = []
    for id in ids:  # noqa: A001  the wire's word
        start = time.perf_counter()
        await store.answer(id, True, user="u42")
        times.append((time.perf_counter() - start) * 1e3)
    return times


def main(conversations: int, open_ones: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("MIDTURN_BENCH_DIR")) as directory:
        root = Path(directory)
        ours, bare = append_against_write(root / "append")
        print(
            f"append of one event:            {ours:.3f} ms; write + fdatasync of the same bytes:"
            f" {bare:.3f} ms"
        )

        first, last = burst(root / "burst", BURST)
        print(
            f"{BURST:,} conversations in a burst: one of the first {first:.2f} ms, one of the last"
            f" {last:.2f} ms, ratio {last / first:.2f}"
        )

        asked = fill(root / "many", conversations, open_ones)
        store = mt.open_store(root / "many")
        print(f"{conversations:,} conversations, {len(asked):,} open:")
        print(
            f"  the one scan of a store without an index: {timed(store.pending_sync) / 1e3:.2f} s"
        )
        cold = timed(mt.open_store(root / "many").pending_sync)
        print(f"  pending, in a new process:                {cold:.1f} ms")
        print(
            "  pending, warm:                           "
            f" {percentiles([timed(store.pending_sync) for _ in range(20)])}"
        )
        print(
            "  ready:                                   "
            f" {percentiles([timed(store.ready_sync) for _ in range(5)])}"
        )
        print(
            "  answer by id:                            "
            f" {percentiles(asyncio.run(answered(store, asked[:ROUNDS])))}"
        )
        print(
            "  a page of 50 ids:                        "
            f" {percentiles([timed(lambda: store.ids_sync(limit=50)) for _ in range(3)])}"
        )


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given if len(given) == 2 else (100_000, 1_000)))
