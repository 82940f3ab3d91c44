"""`kill -9` of `query` and `resume` at random times: acknowledged answers are recorded, nobody
is asked twice, every turn ends.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from midturn.events.codec import decode_lines
from midturn.events.types import Approval, Event, InquiryAnswered
from midturn.stores.conversation import Conversation
from midturn.turn.view import pairs
from support.depth import tries
from support.places import workspace_store
from support.pty_session import PtySession, terminal_environment
from support.warm_commands import Command

KILLS = int(os.environ.get("MIDTURN_KILLS") or tries(40))
PARTS = 2
ANSWERS = {
    "Ship to staging?": "y",
    "Which region?": "1",
    "Run audit?": "y",
    "Who may read it?": "1",
}
ENDS_BATCH = (
    "chat_request",
    "tool_call_request",
    "inquiry_request",
    "inquiry_response",
    "approval",
    "tool_call_response",
)
"""Durable events at which a process is killed; every run of kills covers each. Not `turn_end`:
the process has ended by then.
"""
PAUSE_MS = 60

SHIP = """
document=$(cat); sleep 0.04
ask() { printf '{"type":"needs_input","question":%s}' "$1"; exit; }
case $document in *'"confirm"'*) ;; *) ask '{"id":"confirm","text":"Ship to staging?","answer_type":{"type":"boolean"}}';; esac
case $document in *'"checked"'*) ;; *) ask '{"id":"checked","text":"Is the checksum right?","answer_type":{"type":"boolean"}}';; esac
region='{"id":"region","text":"Which region?","answer_type":{"type":"select","options":["eu-1","us-2"]}}'
case $document in *'"region"'*) ;; *) ask "$region";; esac
printf '{"type":"success","content":"shipped"}'
"""
WHO = {
    "question": "Who may read it?",
    "answer_type": "select",
    "options": ["team", "all"],
    "allow_other": False,
}
SCRIPT = {
    "replies": [
        {"text": "I will ship it.", "delay_ms": PAUSE_MS, "calls": [{"name": "ship"}]},
        {"delay_ms": PAUSE_MS, "calls": [{"name": "audit"}]},
        {
            "delay_ms": PAUSE_MS,
            "calls": [
                {
                    "name": "ask_user",
                    "arguments": {
                        "question": "Who may read it?",
                        "answer_type": "select",
                        "options": ["team", "all"],
                        "allow_other": False,
                    },
                }
            ],
        },
        {"text": "Done.", "delay_ms": PAUSE_MS},
    ],
    "inquiries": [
        {
            "tool": "ship",
            "question": "checked",
            "answers": [{"reason": "It is.", "answer": True, "delay_ms": PAUSE_MS}],
        }
    ],
}
CONFIG = """
assistant.model.id = "scripted:play.json"
prompt.settle_ms = 0
[conversation.tools.ship]
source = "local"
command = ["/bin/sh", "ship.sh"]
protocol = "outcome"
run = "unattended"
questions.checked.target = "assistant"
[conversation.tools.audit]
source = "local"
command = ["/bin/sh", "-c", "sleep 0.05; echo clean"]
"""


class Watched:
    """A workspace in which turns are started, killed and resumed, with a person at a terminal."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root = root
        self.dice = dice
        self.killed: Counter[str] = Counter()
        self.earlier: set[Path] = set()
        config = root / "config" / "midturn"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(CONFIG)
        (config / "play.json").write_text(json.dumps(SCRIPT))
        (root / "ship.sh").write_text(SHIP)
        (root / ".midturn").mkdir(mode=0o700)

    def run_until_killed(self, *arguments: str, lines: int) -> bool:
        """Run a command and kill it shortly after the log has `lines` lines. Return False if
        it ended earlier.
        """
        environment = {
            name: str(self.root / name.lower()[4:-5])
            for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
        }
        environment |= {"TERM": "dumb", "PWD": str(self.root), "CI": ""}
        with PtySession(
            Command(arguments, self.root, terminal_environment(environment))
        ) as session:
            person = Person(self, session)
            kill_at: float | None = None
            while session.read(0.005):
                person.look()
                if kill_at is None and self.count() >= lines:
                    kill_at = time.monotonic() + self.dice.uniform(0, PAUSE_MS / 1_500)
                if kill_at is not None and time.monotonic() >= kill_at:
                    session.child.kill(signal.SIGKILL)
                    session.child.wait()
                    person.check_acknowledged()
                    return session.child.signalstatus == signal.SIGKILL
            session.child.wait()
            person.check_acknowledged()
            assert session.child.exitstatus == 0, session.text
            return False

    @property
    def log(self) -> Path | None:
        """The log of the current conversation."""
        found = (
            set(workspace_store(self.root, self.root / "data").glob("[0-9]*/events.jsonl"))
            - self.earlier
        )
        return max(found, default=None)

    def events(self) -> list[Event]:
        """The durable events: complete lines of complete batches."""
        lines = self.log.read_bytes().split(b"\n")[:-1] if self.log else []
        events = decode_lines(lines, "events.jsonl")
        while events and events[-1].more:
            events.pop()
        return events

    def count(self) -> int:
        """Number of lines."""
        return self.log.read_bytes().count(b"\n") if self.log else 0

    def answered(self) -> set[str]:
        """The texts of the questions with a durable answer."""
        events = self.events()
        answered = {
            request.question.text
            for request, response in pairs(events)
            if isinstance(response, InquiryAnswered)
        }
        approved = any(
            isinstance(event, Approval) and event.state == "approved" for event in events
        )
        return answered | {"Run audit?"} if approved else answered


class Person:
    """Answers every prompt of one process. An answer is acknowledged if the process continues
    after it.
    """

    def __init__(self, watched: Watched, session: PtySession) -> None:
        self._watched = watched
        self._session = session
        self._seen = 0
        self._given: list[str] = []
        self._acknowledged: list[str] = []

    def look(self) -> None:
        """Answer the prompt on the screen, if there is one."""
        new = self._session.raw[self._seen :].decode("utf-8", "replace")
        asked = next(
            (text for text in ANSWERS if text in new and new.rstrip(" ").endswith(":")), None
        )
        if asked is None:
            return
        self._acknowledged += self._given
        assert asked not in self._watched.answered(), (
            f"{asked!r} was asked although its answer is on record"
        )
        self._given = [asked]
        self._seen = len(self._session.raw)
        time.sleep(self._watched.dice.uniform(0, 0.02))
        self._session.send(f"{ANSWERS[asked]}\r")

    def check_acknowledged(self) -> None:
        """Every acknowledged answer must be recorded."""
        missing = set(self._acknowledged) - self._watched.answered()
        assert not missing, f"lost: {missing}"


@pytest.mark.parametrize("part", range(PARTS))
def test_turn_survives_sigkill_at_any_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: int
) -> None:
    dice = random.Random(20_260_101 + part)
    watched = Watched(tmp_path, dice)
    turns = 0
    while watched.killed.total() < KILLS // PARTS or not _hit_everything(watched):
        _play_one_turn(watched)
        turns += 1

    with capsys.disabled():
        print(  # noqa: T201  which moments were hit
            f"\nkill -9: {watched.killed.total()} kills in {turns} turns; last durable event:"
            f" {dict(watched.killed)}"
        )


def _hit_everything(watched: Watched) -> bool:
    """Return whether processes were killed after every kind of event. Otherwise the test runs
    until its timeout.
    """
    return all(watched.killed[kind] for kind in ENDS_BATCH)


def _play_one_turn(watched: Watched) -> None:
    while True:
        done = watched.events()
        if done and done[-1].type == "turn_end":
            break
        if not done and watched.log:
            watched.earlier.add(watched.log)  # the person was not asked anything in it
        if watched.run_until_killed(
            *(["resume"] if done else ["query", "Ship it"]), lines=_target(watched, done)
        ):
            events = watched.events()
            watched.killed[events[-1].type if events else "nothing"] += 1
    _check(watched)
    if watched.log:
        watched.earlier.add(watched.log)


def _target(watched: Watched, done: list[Event]) -> int:
    """Choose the line after which to kill: one of the next five, so that all parts of a turn
    (20 lines) are hit equally often.
    """
    return len(done) + watched.dice.randint(1, 5)


def _check(watched: Watched) -> None:
    assert watched.log is not None
    conversation = Conversation.open(watched.log.parent)
    assert not conversation.problems
    asked = [request.question.text for request, _ in conversation.pairs()]
    assert sorted(asked) == sorted(
        ["Ship to staging?", "Is the checksum right?", "Which region?", "Who may read it?"]
    )
    assert all(response is not None for _, response in pairs(conversation.events))
    assert [
        e.to_json()["content"] for e in conversation.events if e.type == "tool_call_response"
    ] == [
        "shipped",
        "clean\n",
        '{"answer_type": "select", "answer": "team"}',
    ]
