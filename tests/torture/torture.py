"""Kill workers repeatedly while two people answer, and check from the logs that nothing was lost.

    python tests/torture/torture.py files --kills 200
    python tests/torture/torture.py postgres --kills 100 --crashes 5
    python tests/torture/torture.py files --kills 200 --waiting 10000

With `--waiting`, this many additional conversations wait for an answer the whole time.

Prints one line of counts. `inside` are turns of agents inside tools. `handed over` are queued
answers whose lock holder was killed; they count as recorded. The exit status is 1 if an
acknowledged answer is lost, a question was asked twice or has two answers, a turn is stuck, or an
effect was repeated with another idempotency key.

Two people have to allow one of the calls. They vote, edit, reassign and withdraw votes, while an
intruder tries to decide. `votes lost` are acknowledged votes for the decided arguments that are
not recorded, `counted twice` are decisions by fewer than two people, `undecided` are calls that
ran without a decision.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import UNSET, Struct, field

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import midturn as mt
from midturn.errors import StoreLocked
from midturn.events.open_question import arguments_sha256
from midturn.events.types import (
    Approval,
    Child,
    Event,
    InquiryAnswered,
    InquiryRequest,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    Vote,
)
from midturn.events.window import parent_of
from midturn.question.json_value import members
from midturn.stores.metadata import Metadata

PATIENCE = 90.0
PERSONS = 2
PERSON_KILL_SHARE = 0.15  # share of the kills
PROGRESS_INTERVAL = 60.0  # seconds between two progress lines


class Plan(Struct, frozen=True):
    """The parameters of a run."""

    store: str
    kills: int
    crashes: int = 0
    conversations: int = 60
    workers: int = 2
    seed: int = 1
    every: tuple[float, float] = (0.1, 0.5)
    engine: str = "none"
    minutes: float = 1e9
    waiting: int = 0
    patience: float = PATIENCE


class Counts(Struct):
    """The results of a run."""

    kills: int = 0
    of_persons: int = 0
    crashes: int = 0
    conversations: int = 0
    inside: int = 0
    acknowledged: int = 0
    rivals: int = 0
    refused: int = 0
    handed_over: int = 0
    lost: int = 0
    asked_twice: int = 0
    two_answers: int = 0
    stuck: int = 0
    effects: int = 0
    repeated: int = 0
    other_key: int = 0
    votes: int = 0
    edits: int = 0
    votes_lost: int = 0
    counted_twice: int = 0
    intruded: int = 0
    undecided: int = 0
    examples: list[str] = field(default_factory=list[str])

    @property
    def is_clean(self) -> bool:
        """Return whether no promise was broken."""
        broken = (
            self.lost
            or self.asked_twice
            or self.two_answers
            or self.stuck
            or self.other_key
            or self.refused
        )
        return not (
            broken or self.votes_lost or self.counted_twice or self.intruded or self.undecided
        )

    def __str__(self) -> str:
        names = [name for name in self.__struct_fields__ if name != "examples"]
        return ", ".join(f"{name.replace('_', ' ')} {getattr(self, name)}" for name in names)


class Forker:
    """The process that forks workers and people and reports how they ended."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def begin(cls, environment: dict[str, str], engine: str) -> Forker:
        """Start the process and preload the modules."""
        command = [sys.executable, str(HERE / "forker.py"), engine]
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, cwd=HERE, env=environment, stdin=pipe, stdout=pipe
            )
        )

    async def ask(self, *words: str) -> int:
        """Send a command and return its answer."""
        assert self._process.stdin, self._process.stdout
        self._process.stdin.write(f"{' '.join(words)}\n".encode())
        assert self._process.stdout
        return int(await self._process.stdout.readline())

    async def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        await self._process.wait()


class Torture:
    """One run: kill workers and people, then check the logs."""

    def __init__(self, plan: Plan, directory: Path, crash: object = None) -> None:
        self.plan = plan
        self.counts = Counts()
        self._crash = crash
        self._random = random.Random(plan.seed)
        self._effects = directory / "effects"
        self._errors = directory / "errors"
        self._said = directory / "said"
        self._said.mkdir()
        self._environment = {
            **os.environ,
            "TORTURE_STORE": plan.store,
            "TORTURE_EFFECTS": str(self._effects),
            "TORTURE_ERRORS": str(self._errors),
            "TORTURE_ACKNOWLEDGED": str(self._said),
            "PYTHONPATH": str(HERE),
        }
        self._workers: list[int] = []
        self._persons: list[int] = []
        self._ids: list[str] = []
        self._waiting: list[str] = []
        self._after: str | None = None
        self._unanswered: list[bytes] = []
        self._over = False
        self._decided: dict[str, str] = {}  # digest of the decided arguments, by question
        self._voted: set[tuple[str, str, str]] = set()  # question, person, digest
        self._ran: set[tuple[str, str]] = set()  # conversation, number of the decided call

    async def run(self) -> Counts:
        from subject import agent

        self._agent = agent.with_store(mt.open_store(self.plan.store))
        await self._agent.store.ids(limit=1)  # the tables exist now
        await self._create_waiting_conversations()
        self._forker = await Forker.begin(self._environment, self.plan.engine)
        self._workers = [await self._worker() for _ in range(self.plan.workers)]
        self._persons = [await self._person(number) for number in range(PERSONS)]
        intruder = await self._forker.ask("start", "intruder")
        beginning, telling = asyncio.create_task(self._begin()), asyncio.create_task(self._tell())
        await self._kill()
        self._over = True
        await beginning
        await self._wait_for_the_end()
        telling.cancel()
        for process in (*self._workers, *self._persons, intruder):
            if not await self._ended(process):
                self.counts.stuck += 1
        await self._forker.end()
        await self._judge()
        return self.counts

    async def _create_waiting_conversations(self) -> None:
        """Create the conversations whose question is never answered, as copies of one.

        They are older than all others.
        """
        if not self.plan.waiting:
            return
        (question,) = (await self._agent.run("Ship it.")).pending
        asked = question.conversation
        self._unanswered = await self._agent.store.port.lines(asked)
        copies = [
            await self._agent.store.port.add(self._unanswered, Metadata(title="Wait"))
            for _ in range(self.plan.waiting - 1)
        ]
        self._waiting = [asked, *copies]
        self._after = self._waiting[-1]
        self._environment["TORTURE_AFTER"] = question.id.replace(asked, self._after)

    # Actions ------------------------------------------------------------------------------------
    # ---------------------------

    async def _worker(self) -> int:
        return await self._forker.ask("start", "worker", self.plan.engine)

    async def _person(self, number: int) -> int:
        return await self._forker.ask("start", "person", str(number), str(PERSONS))

    async def _ended(self, process: int) -> bool:
        """Kill a process; return whether the kill ended it."""
        os.kill(process, signal.SIGKILL)
        status = await self._forker.ask("reap", str(process))
        if status != -signal.SIGKILL:
            self.counts.examples.append(
                f"a process ended by itself: {status}; {self._errors.read_text()[-2000:]}"
            )
        return status == -signal.SIGKILL

    async def _begin(self) -> None:
        """Keep the planned number of conversations in progress until the last kill."""
        while not self._over:
            waiting = len(self._ids) - self.counts.conversations
            for _ in range(min(5, self.plan.conversations - waiting)):
                try:
                    self._ids.append((await self._agent.run("Ship it.")).conversation)
                except StoreLocked:  # taken over during a server outage and continued elsewhere
                    self._ids = await self._agent.store.ids(after=self._after)
            await self._count_ended()
            await asyncio.sleep(0.1)

    async def _count_ended(self) -> None:
        unfinished = set(await self._agent.store.port.ids(which="open", after=self._after))
        self.counts.conversations = sum(id not in unfinished for id in self._ids)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            print(f"{time.strftime('%H:%M:%S')} so far: {self.counts}", file=sys.stderr, flush=True)

    async def _kill(self) -> None:
        crashes = set(
            self._random.sample(range(self.plan.kills), min(self.plan.crashes, self.plan.kills))
        )
        until = time.monotonic() + self.plan.minutes * 60
        for number in range(self.plan.kills):
            await asyncio.sleep(self._random.uniform(*self.plan.every))
            if time.monotonic() > until:
                return
            if self._random.random() < PERSON_KILL_SHARE:
                await self._kill_person(self._random.randrange(PERSONS))
            else:
                await self._kill_worker(self._random.randrange(len(self._workers)))
            self.counts.kills += 1
            if number in crashes and callable(self._crash):
                await asyncio.to_thread(self._crash)
                self.counts.crashes += 1

    async def _kill_worker(self, index: int) -> None:
        if not await self._ended(self._workers[index]):
            self.counts.stuck += 1
        self._workers[index] = await self._worker()

    async def _kill_person(self, number: int) -> None:
        if not await self._ended(self._persons[number]):
            self.counts.stuck += 1
        self.counts.of_persons += 1
        self._persons[number] = await self._person(number)

    async def _wait_for_the_end(self) -> None:
        """Wait until all turns are complete, as long as there is progress."""
        deadline, ended = time.monotonic() + self.plan.patience, -1
        while self.counts.conversations < len(self._ids) and time.monotonic() < deadline:
            if self.counts.conversations > ended:
                deadline, ended = time.monotonic() + self.plan.patience, self.counts.conversations
            await asyncio.sleep(0.1)
            await self._count_ended()

    # Checks -------------------------------------------------------------------------------------
    # ---------------------------

    async def _judge(self) -> None:
        answered: dict[str, str | None] = {}
        begun: Counter[tuple[str, str, str, int]] = Counter()
        for id in self._waiting:
            if await self._agent.store.port.lines(id) != self._unanswered:
                self.counts.lost += 1
                self.counts.examples.append(f"changed while it waited: {id}")
        for id in await self._agent.store.ids(after=self._after):
            events = (await self._agent.store.read(id)).events
            parent = parent_of(events)
            if parent:
                around = (await self._agent.store.read(parent.conversation)).events
                named = next(
                    event
                    for event in around
                    if event.event_id == parent.child and isinstance(event, Child)
                )
                begun[named.call, named.agent, named.text_sha256, named.occurrence] += 1
            if events and not any(isinstance(event, TurnEnd) for event in events):
                self.counts.stuck += 1
                inside = f" inside {parent.conversation}" if parent else ""
                last = ", ".join(event.type for event in events[-4:])
                self.counts.examples.append(f"stuck: {id}{inside}, last {last or 'nothing'}")
            requests = {event.id: event for event in events if isinstance(event, InquiryRequest)}
            asked = Counter((event.call, event.question_id) for event in requests.values())
            self.counts.asked_twice += sum(times - 1 for times in asked.values())
            responses = [event for event in events if isinstance(event, InquiryAnswered)]
            self.counts.two_answers += len(responses) - len({event.id for event in responses})
            for response in responses:
                by = response.answered_by
                answered[f"{id}-{requests[response.id].event_id}"] = by.user if by else None
            waiting = {
                event.id: event.event_id
                for event in events
                if isinstance(event, Approval) and event.state == "waiting"
            }
            for event in events:
                if (
                    isinstance(event, Approval)
                    and event.state != "waiting"
                    and event.id in waiting
                    and event.answered_by
                ):
                    answered[f"{id}-{waiting[event.id]}"] = event.answered_by.user
            self._judge_votes(id, events)
            # a queued answer is not lost: the next lock holder records it
            for handed in (await self._agent.store.port.look(id)).turn.handed:
                self.counts.handed_over += 1
                answered.setdefault(f"{id}-{handed.event_id}", handed.submission.user)
        self.counts.inside = len(begun)
        self.counts.asked_twice += sum(times - 1 for times in begun.values())
        self._judge_acknowledged(answered)
        self._judge_effects()

    def _judge_votes(self, id: str, events: Sequence[Event]) -> None:
        """Check that each decision about a guarded call was made by two people about the
        arguments that ran.
        """
        votes = {event.event_id: event for event in events if isinstance(event, Vote)}
        self.counts.votes += len(votes)
        guarded = {
            event.event_id: event
            for event in events
            if isinstance(event, ToolCallRequest) and event.name == "guarded"
        }
        asked = {
            event.id: event.event_id
            for event in events
            if isinstance(event, Approval) and event.state == "waiting"
        }
        for decision in events:
            by = getattr(decision, "answered_by", None) or getattr(decision, "ended_by", None)
            if by is not None and by.user == "intruder":
                self.counts.intruded += 1
                self.counts.examples.append(f"intruder on record: {id} {decision}")
            if (
                not isinstance(decision, Approval)
                or decision.call not in guarded
                or decision.state not in ("approved", "edited")
            ):
                continue
            arguments = (
                guarded[decision.call].arguments
                if decision.arguments is UNSET
                else decision.arguments
            )
            digest = arguments_sha256(cast("Any", arguments))
            counted = [votes[vote] for vote in decision.votes if vote in votes]
            people = {
                vote.answered_by.user
                for vote in counted
                if vote.answered_by and vote.answer and not vote.withdrawn
            }
            if people != {"person-0", "person-1"} or any(vote.sha256 != digest for vote in counted):
                self.counts.counted_twice += 1
                self.counts.examples.append(f"not by two people: {id} {decision.votes} {people}")
            self._decided[f"{id}-{asked[decision.id]}"] = digest
            self._ran.add((id, str(members(cast("Any", arguments)).get("number"))))
        for vote in votes.values():
            if vote.answered_by and vote.id in asked:
                self._voted.add(
                    (f"{id}-{asked[vote.id]}", vote.answered_by.user or "", vote.sha256)
                )
        results = [
            event
            for event in events
            if isinstance(event, ToolCallResponse) and event.call in guarded and not event.is_error
        ]
        for result in results:
            if (id, result.content.rpartition("guarded ")[2]) not in self._ran:
                self.counts.undecided += 1
                self.counts.examples.append(f"ran without a decision: {id} {result.content}")

    def _judge_acknowledged(self, answered: dict[str, str | None]) -> None:
        """Compare the acknowledged answers with the recorded ones."""
        told: dict[str, str] = {}
        for what, id, person, why in self._reported_results():
            match what:
                case "intruded":
                    self.counts.intruded += 1
                    self.counts.examples.append(f"intruded: {id} {why}")
                case "edited":
                    self.counts.edits += 1
                case "voted":  # a vote for arguments that were edited later is void
                    if self._decided.get(id) == why and (id, person, why) not in self._voted:
                        self.counts.votes_lost += 1
                        self.counts.examples.append(f"vote lost: {id} by {person}")
                case "rival":
                    self.counts.rivals += 1
                case "refused":
                    self.counts.refused += 1
                    self.counts.examples.append(f"refused {id}: {why}")
                case _:
                    self.counts.acknowledged += 1
                    if id in told:
                        self.counts.two_answers += 1
                        self.counts.examples.append(
                            f"acknowledged twice: {id} by {told[id]} and {person}"
                        )
                    told[id] = person
                    if answered.get(id) != person:
                        self.counts.lost += 1
                        self.counts.examples.append(
                            f"lost: {id} by {person}, recorded {answered.get(id)}"
                        )

    def _reported_results(self) -> Iterator[tuple[str, str, str, str]]:
        for file in self._said.iterdir():
            for line in file.read_text().splitlines():
                what, id, person, why = json.loads(line)
                yield what, id, person, why

    def _judge_effects(self) -> None:
        keys: dict[str, set[str]] = defaultdict(set)
        lines = self._effects.read_text().splitlines() if self._effects.exists() else []
        for line in lines:
            key, _, what = line.partition(" ")
            keys[f"{key.partition('.')[0]} {what}"].add(key)
        self.counts.effects = len(lines)
        self.counts.repeated = len(lines) - len(keys)
        self.counts.other_key = sum(len(each) - 1 for each in keys.values())


async def run_torture(plan: Plan, crash: object = None) -> Counts:
    """Run a plan with its effects in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        return await Torture(plan, Path(directory), crash).run()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", choices=["files", "postgres", "dbos"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--crashes", type=int, default=0)
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--waiting", type=int, default=0)
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        help="Seconds without progress after which a turn counts as stuck.",
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="Stop killing after so long.")
    given = parser.parse_args()
    common = {name: value for name, value in vars(given).items() if name != "store"}
    if given.store == "files":
        with tempfile.TemporaryDirectory() as directory:
            counts = asyncio.run(run_torture(Plan(store=directory, **common)))
    else:
        from support.postgres import Cluster

        cluster = Cluster("max_connections=200")
        try:
            engine = "dbos" if given.store == "dbos" else "none"
            # its workers take longer to start
            every = (0.8, 2.0) if engine == "dbos" else (0.1, 0.5)
            counts = asyncio.run(
                run_torture(
                    Plan(store=cluster.url, engine=engine, every=every, **common), cluster.crash
                )
            )
        finally:
            cluster.remove()
    print(f"{given.store}: {counts}")
    for example in itertools.islice(
        sorted(counts.examples, key=lambda each: each.startswith("stuck")), 20
    ):
        print(f"  {example}")
    return 0 if counts.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
