"""Cut the power at many points of a run, and check that the file store keeps its promises.

    python tests/torture/power_cut.py
    python tests/torture/power_cut.py --conversations 20 --points 0 --file-system btrfs

The first process runs turns of several conversations at once, answers their questions, changes
titles and values, and copies and removes conversations. A preloaded library (`power_cut.c`) logs each change of a file,
each sync, and each acknowledgement of the store. The second process cuts the power: it computes
what a disk contains after a part of the log, writes these files into a new directory, opens the
store there, and compares it with the acknowledgements in that part of the log.

`power_cut_disk.py` has the models of file systems that define what a disk contains.

Prints one line of counts. `lost` are acknowledged events, answers and values that are missing or
changed, `twice` are events, answers and conversations that exist twice, `torn` are batches of
which only a part is visible, `unreadable` are conversations that cannot be read, and `stuck` are
turns that cannot be continued to their end. `returned` are removed conversations that exist again.
The exit status is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import itertools
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

from msgspec import Struct, field
from msgspec.json import decode, encode

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from power_cut_disk import FILE_SYSTEMS, FileSystem, Log, check_log, cut

import midturn as mt
from midturn.errors import AlreadyAnswered, MidturnError, NotOpen, StoreLocked
from midturn.events.types import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    TurnEnd,
    Vote,
)
from midturn.events.window import open_turn, parent_of
from midturn.stores import file_conversations
from midturn.stores.journal import Writer
from midturn.stores.nested_conversations import whole_family

LIBRARY: Final = HERE / "power_cut.c"
PROMISED: Final[tuple[FileSystem, ...]] = ("journal", "btrfs")


class Plan(Struct, frozen=True):
    """The parameters of a run.

    `points` is the maximum number of power cuts. 0 cuts at every record, once for each file system.
    `sync` is the maximum
    duration of a sync in milliseconds. With `holes`, sectors in the middle of an unsynced write
    may be zeros. One turn is continued after each of `continued` cuts.
    """

    conversations: int = 6
    points: int = 200
    file_systems: tuple[FileSystem, ...] = PROMISED
    seed: int = 1
    sync: float = 4.0
    holes: bool = False
    continued: int = 2


class Counts(Struct):
    """The results of a run."""

    records: int = 0
    syncs: int = 0
    overlapping: int = 0
    acknowledged: int = 0
    answers: int = 0
    queued: int = 0
    points: int = 0
    continued: int = 0
    lost: int = 0
    twice: int = 0
    torn: int = 0
    unreadable: int = 0
    stuck: int = 0
    returned: int = 0
    examples: list[str] = field(default_factory=list[str])

    @property
    def is_clean(self) -> bool:
        """Return whether no promise was broken."""
        return not (
            self.lost or self.twice or self.torn or self.unreadable or self.stuck or self.returned
        )

    def __str__(self) -> str:
        names = [name for name in self.__struct_fields__ if name != "examples"]
        return ", ".join(f"{name} {getattr(self, name)}" for name in names)


# --------------------------------------------------------------------------------------------------
# The first process: turns whose changes of files are logged


PEOPLE: Final = ("person-0", "person-1")
REPLIES: Final[dict[str, Any]] = {
    "sure": True,
    "region": "us-2",
    "go": True,
    "why": "because",
    "left": True,
    "right": "yes",
}


class Mark(Struct, frozen=True, omit_defaults=True):
    """A record of this test in the log. `id` is a conversation, the address of a question, or the
    name of a value. `text` is a title or a value.
    """

    what: str
    id: str = ""
    batch: int = 0
    events: list[str] = []
    user: str = ""
    text: str | None = None


def mark(said: Mark) -> None:
    """Add a record to the log."""
    data = encode(said)
    ctypes.CDLL(None).power_cut_mark(data, ctypes.c_size_t(len(data)))


def record_acknowledgements() -> None:
    """Log each begun and each acknowledged append, queued answer and copied conversation."""
    numbers = itertools.count()
    append, files = Writer.append, file_conversations.FileConversations
    queue_answer, add = files.queue_answer, files.add

    async def append_marked(
        self: Writer, batch: Sequence[Event], recorded: Callable[[tuple[Event, ...]], None]
    ) -> None:
        number = next(numbers)
        ids = [event.event_id for event in batch]
        mark(Mark("begun", self.conversation, number, ids))
        await append(self, batch, recorded)
        mark(Mark("appended", self.conversation, number))

    async def queue_answer_marked(self: Any, held: Any, answer: Any) -> bool:
        is_queued = await queue_answer(self, held, answer)
        if is_queued:
            mark(Mark("queued", f"{held.conversation}-{answer.event_id}"))
        return is_queued

    async def add_marked(self: Any, lines: Iterable[bytes], metadata: Any, id: Any = None) -> str:
        copied = list(lines)
        ids = [json.loads(line)["event_id"] for line in copied]
        mark(Mark("adding", events=ids))
        number = await add(self, copied, metadata, id)
        mark(Mark("added", number, events=ids))
        return number

    mock.patch.object(Writer, "append", append_marked).start()
    mock.patch.object(files, "queue_answer", queue_answer_marked).start()
    mock.patch.object(files, "add", add_marked).start()


class Subject:
    """The program whose power is cut: a worker, two people, and some housekeeping."""

    def __init__(self, store: str, conversations: int, seed: int) -> None:
        from subject import agent

        self._agent = agent.with_store(mt.open_store(store))
        self._store = self._agent.store
        self._conversations = conversations
        self._random = random.Random(seed)
        self._ids: list[str] = []

    async def run(self) -> None:
        """Begin all turns at once, answer all questions, and return when all turns have ended."""
        others = [asyncio.create_task(self._agent.work(at_once=self._conversations))]
        others += [asyncio.create_task(self._answer(name)) for name in PEOPLE]
        others += [asyncio.create_task(self._keep_values())]
        await asyncio.gather(*(self._begin(number) for number in range(self._conversations)))
        await self._wait_for_the_end()
        await self._tidy_up()
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _begin(self, number: int) -> None:
        await asyncio.sleep(self._random.uniform(0, 0.1))
        id = (await self._agent.run("Ship it.")).conversation
        self._ids.append(id)
        title = f"Title {number}"
        mark(Mark("describing", id, text=title))
        await self._store.port.describe(id, title=title)
        mark(Mark("described", id, text=title))

    async def _answer(self, name: str) -> None:
        while True:
            for question in await self._store.pending():
                voted = question.whose is not None and name in question.whose.voters
                if voted or (question.whose is None and self._random.random() < 0.5):
                    continue
                try:
                    receipt = await answer(self._store, question, name)
                except (AlreadyAnswered, NotOpen):
                    continue
                mark(Mark("answered", receipt.id, user=name))
            await asyncio.sleep(0.005)

    async def _keep_values(self) -> None:
        for number in itertools.count():
            name = f"value/{number % 3}"
            value = f"{number}" if number % 5 else None
            mark(Mark("keeping", name, text=value))
            await self._store.port.beside.keep(name, value.encode() if value else None)
            mark(Mark("kept", name, text=value))
            await asyncio.sleep(0.05)

    async def _wait_for_the_end(self) -> None:
        while set(self._ids) & await self._store.open_turns():
            await self._store.port.wait_for_work()

    async def _tidy_up(self) -> None:
        """Copy one conversation, remove another one, and begin a second turn in a third one."""
        copied, removed, continued = self._ids[0], self._ids[-1], self._ids[1]
        await self._store.fork(copied)
        family = await whole_family(self._store.port, removed)
        for each in family:
            mark(Mark("removing", each))
        await unlocked(lambda: self._store.remove(removed))
        for each in family:
            mark(Mark("removed", each))
        await unlocked(lambda: self._agent.run("Again.", conversation=continued))


async def unlocked(work: Callable[[], Awaitable[object]]) -> None:
    """Repeat `work` until the worker has released the conversation of an ended turn."""
    while True:
        try:
            await work()
        except StoreLocked:
            await asyncio.sleep(0.01)
        else:
            return


async def answer(store: mt.ConversationStore, question: mt.OpenQuestion, user: str) -> mt.Receipt:
    """Answer a question, or approve a call."""
    if isinstance(question.request, InquiryRequest):
        value = REPLIES[question.request.question_id or ""]
        return await store.answer(question.id, value, user=user)
    return await store.answer(question.id, approve=True, user=user, digest=question.digest)


def run_subject(directory: Path, plan: Plan) -> Path:
    """Run the subject with the preloaded library; return the log."""
    library, log, root = directory / "power_cut.so", directory / "log", directory / "disk"
    command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(LIBRARY)]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    root.mkdir()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "POWER_CUT_ROOT": str(root),
        "POWER_CUT_LOG": str(log),
        "POWER_CUT_SYNC_MS": str(plan.sync),
        "POWER_CUT_SEED": str(plan.seed),
    }
    given = ["--subject", str(root / "store"), "--conversations", str(plan.conversations)]
    ended = subprocess.run(
        [sys.executable, __file__, *given, "--seed", str(plan.seed)],
        env=environment,
        stderr=subprocess.PIPE,
        check=False,
        timeout=600,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return log


# --------------------------------------------------------------------------------------------------
# The acknowledgements before a power cut


Marks: TypeAlias = Sequence[tuple[int, Mark]]
"""The records of this test, and their points in the log."""


class Expected:
    """What the store has acknowledged, and what it may have written in addition."""

    def __init__(self, marks: Marks, point: int) -> None:
        self.events: defaultdict[str, list[str]] = defaultdict(list)
        """The events of all begun batches, by conversation."""
        self.ends: defaultdict[str, list[int]] = defaultdict(lambda: [0])
        """The number of events after each begun batch."""
        self.least: defaultdict[str, int] = defaultdict(int)
        """The number of acknowledged events."""
        self.copies: list[list[str]] = []
        """The events of begun copies, whose conversations may exist before they are acknowledged."""
        self.answers: dict[tuple[str, str], None] = {}
        """Address and user of the acknowledged answers and votes. The user is empty for a queued
        answer, because a later answer of another user may be recorded first."""
        self.titles: dict[str, list[str]] = {}
        self.values: dict[str, list[str | None]] = {}
        """The acknowledged title or value, and the one that is being written."""
        self.removed: set[str] = set()
        """Conversations whose removal has begun."""
        self.gone: set[str] = set()
        """Conversations whose removal was acknowledged."""
        self._batches: dict[int, int] = {}
        for at, said in marks:
            if at >= point:
                break
            self._add(said)

    def _add(self, said: Mark) -> None:
        id = said.id
        match said.what:
            case "begun":
                self.events[id] += said.events
                self._batches[said.batch] = len(self.events[id])
                self.ends[id].append(len(self.events[id]))
            case "appended":
                self.least[id] = max(self.least[id], self._batches[said.batch])
            case "adding":
                self.copies.append(said.events)
            case "added":
                self.events[id] = [*said.events]
                self.ends[id] = [len(said.events)]
                self.least[id] = len(said.events)
            case "answered" | "queued":
                self.answers[id, said.user] = None
            case "describing":
                self.titles.setdefault(id, [""]).append(said.text or "")
            case "described":
                self.titles[id] = [said.text or ""]
            case "keeping":
                self.values.setdefault(id, [None]).append(said.text)
            case "kept":
                self.values[id] = [said.text]
            case "removing":
                self.removed.add(id)
            case "removed":
                self.gone.add(id)
            case _:
                raise AssertionError(said)


# --------------------------------------------------------------------------------------------------
# Checks of a store after a power cut


class Check:
    """The checks of one disk."""

    def __init__(self, path: Path, expected: Expected, counts: Counts, where: str) -> None:
        from subject import agent

        self._agent = agent.with_store(mt.open_store(path))
        self._store = self._agent.store
        self._open: set[str] = set()
        self._expected = expected
        self._counts = counts
        self._where = where

    async def check(self) -> None:
        """Compare the store with the acknowledgements."""
        listed, self._open = await self._store.ids(), await self._store.open_turns()
        self._fail("twice", [id for id, times in Counter(listed).items() if times > 1], "listed")
        for id in {*self._expected.events, *listed}:
            await self._check_conversation(id, listed)
        await self._check_answers(self._expected.answers)
        await self._check_values()

    async def _check_conversation(self, id: str, listed: Sequence[str]) -> None:
        least, removed = self._expected.least[id], id in self._expected.removed
        if id not in listed:
            if least and not removed:
                self._fail("lost", [id], f"conversation with {least} events is not listed")
            return
        self._fail("returned", [id] if id in self._expected.gone else [], "was removed")
        try:
            conversation = await self._store.read(id)
        except MidturnError as error:
            self._fail("unreadable", [id], str(error))
            return
        if problems := [text for text in conversation.problems if "not a whole batch" not in text]:
            self._fail("unreadable", [id], f"{problems}")
        found = [event.event_id for event in conversation.events]
        begun = self._expected.events[id]
        if not begun and found in self._expected.copies:
            return
        if found[:least] != begun[:least]:
            self._fail("lost", [id], f"{least} events acknowledged, {len(found)} read")
        elif found != begun[: len(found)] or len(found) not in self._expected.ends[id]:
            self._fail("torn", [id], f"{len(found)} events read, batches {self._expected.ends[id]}")
        self._check_doubles(id, conversation.events)
        if (
            open_turn(conversation.events)
            and id not in self._open
            and parent_of(conversation.events) is None
        ):
            self._fail("lost", [id], "its open turn is not listed")
        titles = self._expected.titles.get(id, [])
        # the first title, which is not synced, may be empty after a power cut
        if "" not in titles and titles and conversation.metadata.title not in titles:
            self._fail("lost", [id], f"title {conversation.metadata.title!r} instead of {titles}")

    def _check_doubles(self, id: str, events: Sequence[Event]) -> None:
        ids = Counter(event.event_id for event in events)
        answered = Counter(event.id for event in events if isinstance(event, InquiryAnswered))
        doubles = [each for each, times in (ids + answered).items() if times > 1]
        self._fail("twice", [id] if doubles else [], f"{doubles}")

    async def _check_answers(self, answers: Iterable[tuple[str, str]]) -> None:
        by_conversation: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for address, user in answers:
            id, _, event = address.partition("-")
            if id not in self._expected.removed:
                by_conversation[id].append((event, user))
        for id, given in by_conversation.items():
            try:
                events = (await self._store.read(id)).events
                handed = (await self._store.port.look(id)).turn.handed
            except MidturnError:
                self._fail("lost", [id], "has acknowledged answers, but cannot be read")
                continue
            known = {*_decisions(events), *((one.event_id, one.by.user) for one in handed)}
            known |= {(event, "") for event, _ in known}
            for event, user in given:
                if (event, user) not in known:
                    self._fail("lost", [f"{id}-{event}"], f"answer of {user}")

    async def _check_values(self) -> None:
        kept = await self._store.port.beside.kept("value/")
        for name, values in self._expected.values.items():
            found = content.decode() if (content := kept.get(name)) is not None else None
            if found not in values:
                self._fail("lost", [name], f"value {found!r} instead of {values}")

    async def continue_one(self, chance: random.Random) -> None:
        """Continue an open turn to its end, and check that acknowledged answers are used."""
        before = {
            id: (await self._store.read(id)).events
            for id in sorted(await self._store.open_turns())
            if id not in self._expected.removed
        }
        roots = [id for id, events in before.items() if parent_of(events) is None]
        if not roots:
            return
        id = chance.choice(roots)
        self._counts.continued += 1
        try:
            await asyncio.wait_for(self._until_ended(id), 60)
            after = (await self._store.read(id)).events
        except (MidturnError, TimeoutError) as error:
            self._fail("stuck", [id], f"{type(error).__name__}: {error}")
            return
        if after[: len(before[id])] != before[id] or not isinstance(after[-1], TurnEnd):
            self._fail("stuck", [id], f"{len(before[id])} events, then {len(after)}")
        self._check_doubles(id, after)
        await self._check_answers(
            (address, user)
            for address, user in self._expected.answers
            if address.partition("-")[0] == id
        )

    async def _until_ended(self, id: str) -> None:
        result = await self._agent.resume(id)
        while result.pending:
            for question in result.pending:
                for user in PEOPLE if question.whose else ("later",):
                    if question.whose is None or user not in question.whose.voters:
                        await answer(self._store, question, user)
            result = await self._agent.resume(id)

    def _fail(self, count: str, found: Sequence[str], why: str) -> None:
        if found:
            setattr(self._counts, count, getattr(self._counts, count) + len(found))
            self._counts.examples.append(f"{count}: {', '.join(found)}: {why} ({self._where})")


def _decisions(events: Sequence[Event]) -> Iterator[tuple[str, str | None]]:
    """Yield the request and the user of each recorded answer, decision and vote."""
    requests: defaultdict[str, list[str]] = defaultdict(list)
    for event in events:
        if isinstance(event, InquiryRequest) or (
            isinstance(event, Approval) and event.state == "waiting"
        ):
            requests[event.id].append(event.event_id)
        elif isinstance(event, InquiryAnswered | InquiryCancelled | Approval | Vote):
            by = getattr(event, "answered_by", None)
            for request in requests[event.id]:
                yield request, by.user if by else None


# --------------------------------------------------------------------------------------------------
# All power cuts


def points_of(log: Log, marks: Marks, plan: Plan, chance: random.Random) -> list[int]:
    """Return the points at which the power is cut: a third after acknowledgements other than those
    of appends, a third before and after syncs and after all records of the test, and others.
    """
    if not plan.points or plan.points >= log.length:
        return list(range(log.length + 1))
    rare = {at + 1 for at, said in marks if said.what not in {"begun", "appended"}}
    groups = (rare, {*log.boundaries, log.length}, {*range(log.length + 1)})
    chosen: set[int] = set()
    for number, group in enumerate(groups, 1):
        left = sorted(group - chosen)
        chosen |= {*chance.sample(left, min(len(left), plan.points * number // 3 - len(chosen)))}
    return sorted(chosen)


async def check_points(log: Log, plan: Plan, directory: Path) -> Counts:
    """Cut the power at all points, and return the counts."""
    chance = random.Random(plan.seed)
    marks = [(at, decode(data, type=Mark)) for at, data in log.marks]
    times = Counter(said.what for _, said in marks)
    counts = Counts(log.length, len(log.syncs), log.overlapping)
    counts.acknowledged = times["appended"] + times["added"]
    counts.answers, counts.queued = times["answered"], times["queued"]
    points = points_of(log, marks, plan, chance)
    systems = plan.file_systems
    cuts: list[tuple[int, FileSystem]]
    if plan.points:
        cuts = [(point, systems[number % len(systems)]) for number, point in enumerate(points)]
    else:
        cuts = [(point, system) for point in points for system in systems]
    for number, (point, file_system) in enumerate(cuts):
        seed = chance.randrange(1 << 32)
        path = directory / f"cut-{number}"
        disk = cut(log, point, file_system, random.Random(seed), holes=plan.holes)
        disk.write(log.root, path)
        where = f"{file_system}, point {point}"
        check = Check(path / "store", Expected(marks, point), counts, where)
        boot = f"boot {number}"
        with (
            mock.patch("midturn.stores.folder.boot_id", lambda boot=boot: boot),
            mock.patch("midturn.stores.lock.boot", lambda boot=boot: boot),
        ):
            await _checked(check.check(), counts, where)
            if number % plan.continued == 0:
                await _checked(check.continue_one(random.Random(seed)), counts, where)
        counts.points += 1
        shutil.rmtree(path)
    return counts


async def _checked(work: Awaitable[None], counts: Counts, where: str) -> None:
    try:
        await work
    except MidturnError as error:
        counts.unreadable += 1
        counts.examples.append(f"unreadable: {error} ({where})")


def run_power_cuts(plan: Plan) -> Counts:
    """Run the subject and cut its power."""
    logging.disable(logging.WARNING)  # reports of queued answers that exist again
    memory = "/dev/shm"  # syncs of the checks take no time there
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="midturn-power-", dir=place) as name:
        directory = Path(name)
        log = Log(run_subject(directory, plan), directory / "disk")
        check_log(log, directory / "disk")
        return asyncio.run(check_points(log, plan, directory))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    plan = Plan()
    parser.add_argument("--conversations", type=int, default=plan.conversations)
    parser.add_argument("--points", type=int, default=plan.points, help="0: all points")
    parser.add_argument("--file-system", choices=FILE_SYSTEMS, action="append")
    parser.add_argument("--seed", type=int, default=plan.seed)
    parser.add_argument("--sync", type=float, default=plan.sync, help="Milliseconds of a sync")
    parser.add_argument("--continued", type=int, default=plan.continued, metavar="N")
    parser.add_argument("--holes", action="store_true", help="Also lose sectors inside a write")
    parser.add_argument("--subject", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.conversations < 3:
        parser.error("--conversations must be 3 or more: one is copied, one continued, one removed")
    if given.subject:
        record_acknowledgements()
        asyncio.run(Subject(given.subject, given.conversations, given.seed).run())
        return 0
    counts = run_power_cuts(
        Plan(
            conversations=given.conversations,
            points=given.points,
            file_systems=tuple(given.file_system or PROMISED),
            seed=given.seed,
            sync=given.sync,
            holes=given.holes,
            continued=given.continued,
        )
    )
    print(f"power cuts: {counts}")
    for example in counts.examples[:20]:
        print(f"  {example}")
    return 0 if counts.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
