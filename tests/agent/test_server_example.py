"""The server example in three processes: one asks, one records the answer, one resumes the
turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import midturn as mt
from midturn.events.types import InquiryAnswered
from midturn.testing.tool_run import assert_answers
from support.processes import kill

WORKER = Path(__file__).parents[2] / "examples" / "server" / "worker.py"


class Running:
    """A worker subprocess."""

    def __init__(self, store: Path) -> None:
        command = [sys.executable, "-W", "error", str(WORKER), str(store)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, **request: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def next(self) -> dict[str, Any]:
        """Wait for the next message to the browser."""
        assert self.process.stdout
        return json.loads(self.process.stdout.readline() or "null") or {
            "died": self.process.communicate()[1]
        }

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its response."""
        self.send(**request)
        return self.next()


@contextmanager
def worker(store: Path) -> Generator[Running]:
    """Start a worker; check at the end that it wrote nothing to stderr."""
    running = Running(store)
    try:
        yield running
        _, errors = running.process.communicate(timeout=120)
        assert (running.process.returncode, errors) == (0, "")
    finally:
        running.process.kill()
        running.process.wait()


def test_suspend_answer_and_resume_in_three_processes(tmp_path: Path) -> None:
    with worker(tmp_path) as first:
        asked = first.ask(do="run", text="Ship it", user="u1")
    assert (asked["status"], asked["text"]) == ("suspended", "I will deploy it.")
    (question,) = asked["questions"]
    assert question["question"] == {
        "text": "Deploy to staging?",
        "answer_type": {"type": "boolean"},
        "exclusive": True,
    }
    assert (question["tool"], question["arguments"]) == ("deploy", {"env": "staging"})

    with worker(tmp_path) as second:
        assert second.ask(do="questions")["questions"] == [question]
        refused = second.ask(do="answer", id=question["id"], value=True, user="u2")
        assert (refused["error"], "may not answer" in refused["message"]) == ("NotAllowed", True)
        misfit = second.ask(do="answer", id=question["id"], value="yes", user="rm-7")
        assert misfit["error"] == "AnswerError"
        answered = second.ask(do="answer", id=question["id"], value=True, user="rm-7")
        assert answered == {"answered": question["id"], "conversation": asked["conversation"]}
        assert (
            second.ask(do="answer", id=question["id"], value=False, user="rm-8")["error"]
            == "AlreadyAnswered"
        )

    with worker(tmp_path) as third:
        again = third.ask(do="resume", conversation=asked["conversation"])
        assert (again["status"], [q["question"]["text"] for q in again["questions"]]) == (
            "suspended",
            ["Which region?"],
        )
        third.ask(do="answer", id=again["questions"][0]["id"], value="us-2", user="u2")
        done = third.ask(do="resume", conversation=asked["conversation"])
        assert (done["status"], done["text"], done["questions"]) == (
            "completed",
            "I will deploy it.\n\nThat is all.",
            [],
        )
        assert third.ask(do="resume", conversation=asked["conversation"])["error"] == "NotOpen"

    conversation = mt.open_store(tmp_path).read_sync(asked["conversation"])
    assert_answers(conversation, {"deploy.confirm": True, "deploy.region": "us-2"})
    by = [event.answered_by for event in conversation.events if isinstance(event, InquiryAnswered)]
    assert [(who.by, who.via, who.user) for who in by if who] == [
        ("user", "web", "rm-7"),
        ("user", "web", "u2"),
    ]


def test_answered_in_a_second_process_while_the_first_still_runs(tmp_path: Path) -> None:
    """The first process holds the lock.

    The answer is queued, the prompt closes, and the page shows the responder.
    """
    with worker(tmp_path) as first, worker(tmp_path) as second:
        asked = first.ask(do="run", text="Ship it", stay=True)
        assert asked["text"] == "Deploy to staging?"
        locked = second.ask(
            do="resume", conversation=second.ask(do="questions")["questions"][0]["conversation"]
        )
        assert locked["error"] == "StoreLocked"
        assert str(first.process.pid) in locked["message"]

        assert (
            second.ask(do="answer", id=asked["asked"], value=True, user="rm-7")["answered"]
            == asked["asked"]
        )
        heard = [first.next(), first.next()]
        assert {"withdrawn": asked["asked"], "by": "rm-7"} in heard
        region = next(message for message in heard if "asked" in message)
        second.send(do="answer", id=region["asked"], value="eu-1", user="u2")
        assert first.next() == {"withdrawn": region["asked"], "by": "u2"}
        assert first.next()["status"] == "completed"
        assert second.next()["answered"] == region["asked"]
        assert not list(tmp_path.glob("*/answers/*.json")), "what was handed over has been taken"


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    first = Running(tmp_path)
    asked = first.ask(do="run", text="Ship it", stay=True)
    kill(first.process)
    with worker(tmp_path) as second:
        assert (
            second.ask(do="answer", id=asked["asked"], value=True, user="rm-7")["answered"]
            == asked["asked"]
        )
        (conversation,) = mt.open_store(tmp_path).ids_sync()
        again = second.ask(do="resume", conversation=conversation)
        assert [question["question"]["text"] for question in again["questions"]] == [
            "Which region?"
        ]


def test_one_of_many_concurrent_answers_counts(tmp_path: Path) -> None:
    workers = 8
    with worker(tmp_path) as first:
        asked = first.ask(do="run", text="Ship it")
        (question,) = asked["questions"]
        for number in range(workers):
            first.send(do="answer", id=question["id"], value=number % 2 == 0, user=f"rm-{number}")
        said = [first.next() for _ in range(workers)]
    assert sorted(message.get("error", "taken") for message in said) == ["AlreadyAnswered"] * (
        workers - 1
    ) + ["taken"]
