"""Forks the processes of a torture run from a preloaded process, so that a killed one is replaced
within milliseconds.

Reads one command per line and answers with a line. `start worker ENGINE`, `start person NAME
COUNT` and `start intruder` fork a process and print its PID. `reap PID` waits for its end and
prints its status.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import random
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import UNSET, UnsetType

import midturn as mt
from midturn.cli.main import run
from midturn.errors import AlreadyAnswered, AnswerError, NotAllowed, NotOpen, StoreError
from midturn.events.types import InquiryRequest
from midturn.question.json_value import Json

RIVALS = 0.1
EDITS, REASSIGNMENTS, WITHDRAWALS = 0.1, 0.05, 0.1
"""Probabilities that a voter does something other than saying yes."""
_LARGEST = 500  # larger numbers are edits and are not edited again
VALUES: dict[str, Json] = {
    "sure": True,
    "region": "us-2",
    "go": True,
    "why": "because",
    "left": True,
    "right": "yes",
}
Decision: TypeAlias = tuple[Json | UnsetType, bool | None]


def main() -> None:
    """Serve commands until stdin is closed."""
    loaded = [
        "subject",
        "midturn.cli.worker",
        *(["midturn.agent.dbos"] if "dbos" in sys.argv[1:] else []),
    ]
    for name in loaded:
        importlib.import_module(name)  # opens no connection and starts no thread
    gc.freeze()
    living: set[int] = set()
    for line in sys.stdin:
        what, *given = line.split()
        if what == "start":
            living.add(answer := _start(given))
        else:
            living.discard(int(given[0]))
            answer = os.waitstatus_to_exitcode(os.waitpid(int(given[0]), 0)[1])
        print(answer, flush=True)
    for process in living:  # the torture process has died
        os.kill(process, signal.SIGKILL)


def _start(given: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        status = _live(given)
    finally:
        os._exit(status)


def _live(given: list[str]) -> int:
    match given:
        case ["worker", engine]:
            os.dup2(
                os.open(
                    os.environ["TORTURE_ERRORS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
                ),
                2,
            )
            return run(["worker", "subject:agent", "--at-once", "8", "--engine", engine])
        case ["person", number, persons]:
            asyncio.run(Person(int(number), int(persons)).answer())
            return 0
        case ["intruder"]:
            asyncio.run(Intruder().intrude())
            return 0
        case _:
            return 2


class Person:
    """Answers open questions forever, except those that are to stay open.

    Sometimes votes for another person.

    The results are written to a file of its own.
    """

    def __init__(self, number: int, persons: int) -> None:
        self._name = f"person-{number}"
        self._number = number
        self._persons = persons
        self._chance = random.Random(time.time_ns())
        self._store = mt.open_store(os.environ["TORTURE_STORE"])
        path = Path(os.environ["TORTURE_ACKNOWLEDGED"]) / f"{self._name}.{os.getpid()}.jsonl"
        self._said = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._after = os.environ.get("TORTURE_AFTER")
        self._given: set[str] = set()

    async def answer(self) -> None:
        while True:
            found = await self._store.pending(after=self._after)
            for question in self._chance.sample(found, len(found)):
                mine = zlib.crc32(question.id.encode()) % self._persons == self._number
                if is_vote(question):
                    await self._vote(question)
                elif question.id not in self._given and (mine or self._chance.random() < RIVALS):
                    await self._give(question)
            await asyncio.sleep(0.05)

    async def _vote(self, question: mt.OpenQuestion) -> None:
        """Vote on the current arguments, edit them, reassign the question to the other voter, or
        withdraw a vote.
        """
        voted = question.whose is not None and self._name in question.whose.voters
        chance = self._chance.random()
        arguments = question.to_json().get("arguments")
        number = arguments.get("number") if isinstance(arguments, dict) else None
        try:
            if voted and chance < WITHDRAWALS:
                await self._store.withdraw_vote(question.id, user=self._name)
            elif voted:
                return
            elif chance < EDITS and isinstance(number, int) and number < _LARGEST:
                edited = {"number": number + _LARGEST}
                await self._store.answer(
                    question.id, arguments=edited, user=self._name, digest=question.digest
                )
                self._say("edited", question.id, question.digest)
            elif chance < EDITS + REASSIGNMENTS:
                await self._store.reassign(question.id, ["person-0", "person-1"], user=self._name)
            else:
                await self._store.answer(
                    question.id, approve=True, user=self._name, digest=question.digest
                )
                self._say("voted", question.id, question.digest)
        except (AlreadyAnswered, NotOpen, NotAllowed, AnswerError):
            pass  # another process was first or changed the arguments; the next poll shows it
        except StoreError:
            pass  # not acknowledged; the question is listed again

    async def _give(self, question: mt.OpenQuestion) -> None:
        value, decision = reply(question, self._chance)
        try:
            receipt = await self._store.answer(
                question.id, value, approve=decision, user=self._name
            )
        except (AlreadyAnswered, NotOpen):
            self._say("rival", question.id)
        except AnswerError as error:
            self._say("refused", question.id, str(error))
        except StoreError:
            pass  # not acknowledged; the question is listed again
        else:
            del receipt
            self._say("acknowledged", question.id)
            self._given.add(question.id)

    def _say(self, what: str, id: str, why: str = "") -> None:
        os.write(self._said, json.dumps([what, id, self._name, why]).encode() + b"\n")


class Intruder:
    """Keeps trying to make decisions reserved for others, and reports if it ever succeeds."""

    def __init__(self) -> None:
        self._chance = random.Random(time.time_ns())
        self._store = mt.open_store(os.environ["TORTURE_STORE"])
        self._after = os.environ.get("TORTURE_AFTER")
        path = Path(os.environ["TORTURE_ACKNOWLEDGED"]) / f"intruder.{os.getpid()}.jsonl"
        self._said = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def intrude(self) -> None:
        while True:
            for question in filter(is_vote, await self._store.pending(after=self._after)):
                await self._try(question)
            await asyncio.sleep(0.1)

    async def _try(self, question: mt.OpenQuestion) -> None:
        ways: list[dict[str, Json]] = [
            {"approve": True},
            {"approve": False},
            {"cancel": True},
            {"arguments": {"number": 666}},
        ]
        way = self._chance.choice(ways)
        try:
            await self._store.answer(
                question.id, user="intruder", digest=question.digest, **cast("Any", way)
            )
        except (AlreadyAnswered, NotOpen, NotAllowed, AnswerError, StoreError):
            return
        os.write(
            self._said,
            json.dumps(["intruded", question.id, "intruder", json.dumps(way)]).encode() + b"\n",
        )


def is_vote(question: mt.OpenQuestion) -> bool:
    """Return whether certain people have to allow a call."""
    return question.kind == "run" and question.whose is not None


def reply(question: mt.OpenQuestion, chance: random.Random) -> Decision:
    """Choose an answer: a whole form at once, or one question of it."""
    if not isinstance(question.request, InquiryRequest):
        return UNSET, True
    if question.form is not None and chance.random() < 0.5:
        return {"go": True, "why": "because"}, None
    return VALUES[question.request.question_id or ""], None


if __name__ == "__main__":
    main()
