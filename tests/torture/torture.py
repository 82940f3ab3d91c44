"""Kill workers without end, while people answer from two sides, and find out from the logs alone whether anything was lost.

    python tests/torture/torture.py files --kills 200
    python tests/torture/torture.py postgres --kills 100 --crashes 5

Prints one line of counts. The status is 1 if an acknowledged answer is lost, a question was asked twice or has two answers, a turn is
stuck, or an effect was repeated under another idempotency key.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType, field

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import midturn as mt
from midturn.core.events import Approval, InquiryAnswered, InquiryRequest, TurnEnd
from midturn.core.json_value import Json
from midturn.errors import AlreadyAnswered, AnswerError, NotOpen, StoreError

PATIENCE = 90.0  # seconds after the last kill until what is not done counts as stuck
RIVALS = 0.2
VALUES: dict[str, Json] = {"sure": True, "region": "us-2", "go": True, "why": "because"}


class Plan(Struct, frozen=True):
    """What is to be done to whom."""

    store: str
    kills: int
    crashes: int = 0
    conversations: int = 60
    workers: int = 2
    seed: int = 1
    every: tuple[float, float] = (0.3, 1.0)
    engine: str = "none"


class Counts(Struct):
    """What came of it."""

    kills: int = 0
    crashes: int = 0
    conversations: int = 0
    acknowledged: int = 0
    rivals: int = 0
    refused: int = 0
    lost: int = 0
    asked_twice: int = 0
    two_answers: int = 0
    stuck: int = 0
    effects: int = 0
    repeated: int = 0
    other_key: int = 0
    examples: list[str] = field(default_factory=list[str])

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.asked_twice or self.two_answers or self.stuck or self.other_key or self.refused)

    def __str__(self) -> str:
        names = [name for name in self.__struct_fields__ if name != "examples"]
        return ", ".join(f"{name.replace('_', ' ')} {getattr(self, name)}" for name in names)


class Torture:
    """One run: workers that are killed, people that answer, and a verdict."""

    def __init__(self, plan: Plan, effects: Path, crash: object = None) -> None:
        self.plan = plan
        self.counts = Counts()
        self._crash = crash
        self._random = random.Random(plan.seed)
        self._effects = effects
        self._environment = {**os.environ, "TORTURE_STORE": plan.store, "TORTURE_EFFECTS": str(effects), "PYTHONPATH": str(HERE)}
        self._workers: list[asyncio.subprocess.Process] = []
        self._given: dict[str, str] = {}
        self._ids: list[str] = []
        self._over = False

    async def run(self) -> Counts:
        """Do it all."""
        from subject import agent

        self._agent = agent.with_store(mt.open_store(self.plan.store))
        self._workers = [await self._worker() for _ in range(self.plan.workers)]
        answering = [asyncio.create_task(self._answer(mt.open_store(self.plan.store), f"person {number}")) for number in (1, 2)]
        beginning = asyncio.create_task(self._begin())
        await self._kill()
        self._over = True
        await beginning
        await self._wait_for_the_end()
        for task in answering:
            task.cancel()
        for error in await asyncio.gather(*answering, return_exceptions=True):
            if isinstance(error, Exception):
                raise error
        for worker in self._workers:
            if worker.returncode is not None:
                self.counts.stuck += 1
                self.counts.examples.append(f"a worker ended by itself: {worker.returncode}")
            else:
                worker.kill()
                await worker.wait()
        await self._judge()
        return self.counts

    # What happens -----------------------------------------------------------------------------------------------------------

    async def _worker(self) -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", "midturn", "worker", "subject:agent", "--at-once", "8", "--engine", self.plan.engine]
        return await asyncio.create_subprocess_exec(*command, cwd=HERE, env=self._environment, stderr=asyncio.subprocess.DEVNULL)

    async def _begin(self) -> None:
        """Keep as many conversations in flight as planned, until the last kill."""
        while not self._over:
            waiting = len(self._ids) - self.counts.conversations
            for _ in range(min(5, self.plan.conversations - waiting)):
                result = await self._agent.run("Ship it.")
                self._ids.append(result.conversation)
            await self._count_ended()
            await asyncio.sleep(0.1)

    async def _count_ended(self) -> None:
        unfinished = set(await self._agent.store.port.ids(which="open"))
        self.counts.conversations = sum(id not in unfinished for id in self._ids)

    async def _answer(self, store: mt.ConversationStore, person: str) -> None:
        """Answer whatever is open, forever; of two people, one is first."""
        chance = random.Random(f"{self.plan.seed} {person}")
        while True:
            for question in chance.sample(found := await store.pending(), len(found)):
                if question.id not in self._given or chance.random() < RIVALS:
                    await self._give(store, question, person)
            await asyncio.sleep(0.02)

    async def _give(self, store: mt.ConversationStore, question: mt.OpenQuestion, person: str) -> None:
        value, decision = _reply(question, self._random)
        try:
            await store.answer(question.id, value, approve=decision, user=person)
        except (AlreadyAnswered, NotOpen):
            self.counts.rivals += 1
        except AnswerError as error:
            self.counts.refused += 1
            self.counts.examples.append(f"refused {question.id}: {error}")
        except StoreError:
            pass  # not acknowledged: it is asked for again
        else:
            self.counts.acknowledged += 1
            self._given[question.id] = person

    async def _kill(self) -> None:
        crashes = set(self._random.sample(range(self.plan.kills), min(self.plan.crashes, self.plan.kills)))
        for number in range(self.plan.kills):
            await asyncio.sleep(self._random.uniform(*self.plan.every))
            index = self._random.randrange(len(self._workers))
            self._workers[index].send_signal(signal.SIGKILL)
            await self._workers[index].wait()
            self.counts.kills += 1
            if number in crashes and callable(self._crash):
                await asyncio.to_thread(self._crash)
                self.counts.crashes += 1
            self._workers[index] = await self._worker()

    async def _wait_for_the_end(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            await self._count_ended()
            if self.counts.conversations == len(self._ids):
                return
            await asyncio.sleep(0.1)

    # What became of it ------------------------------------------------------------------------------------------------------

    async def _judge(self) -> None:
        answered: dict[str, str | None] = {}
        for id in self._ids:
            events = (await self._agent.store.read(id)).events
            if not any(isinstance(event, TurnEnd) for event in events):
                self.counts.stuck += 1
                self.counts.examples.append(f"stuck: {id}")
            requests = {event.id: event for event in events if isinstance(event, InquiryRequest)}
            asked = Counter((event.call, event.question_id) for event in requests.values())
            self.counts.asked_twice += sum(times - 1 for times in asked.values())
            responses = [event for event in events if isinstance(event, InquiryAnswered)]
            self.counts.two_answers += len(responses) - len({event.id for event in responses})
            for response in responses:
                by = response.answered_by
                answered[f"{id}-{requests[response.id].event_id}"] = by.user if by else None
            waiting = {event.id: event.event_id for event in events if isinstance(event, Approval) and event.state == "waiting"}
            for event in events:
                if isinstance(event, Approval) and event.state != "waiting" and event.id in waiting and event.answered_by:
                    answered[f"{id}-{waiting[event.id]}"] = event.answered_by.user
        for id, person in self._given.items():
            if answered.get(id) != person:
                self.counts.lost += 1
                self.counts.examples.append(f"lost: {id} by {person}, recorded {answered.get(id)}")
        self._judge_effects()

    def _judge_effects(self) -> None:
        keys: dict[str, set[str]] = defaultdict(set)
        lines = self._effects.read_text().splitlines() if self._effects.exists() else []
        for line in lines:
            key, _, what = line.partition(" ")
            keys[f"{key.partition('.')[0]} {what}"].add(key)
        self.counts.effects = len(lines)
        self.counts.repeated = len(lines) - len(keys)
        self.counts.other_key = sum(len(each) - 1 for each in keys.values())


def _reply(question: mt.OpenQuestion, chance: random.Random) -> tuple[Json | UnsetType, bool | None]:
    if not isinstance(question.request, InquiryRequest):
        return UNSET, True
    if question.form is not None and chance.random() < 0.5:
        return {"go": True, "why": "because"}, None
    return VALUES[question.request.question_id or ""], None


async def tortured(plan: Plan, crash: object = None) -> Counts:
    """Run a plan, with its effects in a file of its own."""
    with tempfile.TemporaryDirectory() as directory:
        return await Torture(plan, Path(directory) / "effects", crash).run()


def main() -> int:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", choices=["files", "postgres", "dbos"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--crashes", type=int, default=0)
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    common = {"kills": given.kills, "crashes": given.crashes, "conversations": given.conversations, "seed": given.seed}
    if given.store == "files":
        with tempfile.TemporaryDirectory() as directory:
            counts = asyncio.run(tortured(Plan(store=directory, **common)))
    else:
        from support.postgres import Cluster

        cluster = Cluster("max_connections=200")
        try:
            engine = "dbos" if given.store == "dbos" else "none"
            every = (2.0, 4.0) if engine == "dbos" else (0.3, 1.0)  # its workers take longer to start
            counts = asyncio.run(tortured(Plan(store=cluster.url, engine=engine, every=every, **common), cluster.crash))
        finally:
            cluster.remove()
    print(f"{given.store}: {counts}")
    for example in itertools.islice(counts.examples, 20):
        print(f"  {example}")
    return 0 if counts.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
