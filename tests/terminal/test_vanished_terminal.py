"""A closed terminal is not an answer. Nothing is recorded, and the question stays open.

`MIDTURN_HANGUPS=<n>` tries every combination `n` times (`make hangups`). Otherwise, each
prompt is tried once in each mode, with alternating ways to hang up and to start.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias

import pytest

from midturn.question.json_value import Json
from support.cli import CommandLine, calls
from support.pty_session import PtySession

Way: TypeAlias = Literal["close", "SIGHUP", "close, SIGHUP", "SIGHUP, close"]
Start: TypeAlias = Literal["directly", "under bash"]

WAYS: tuple[Way, ...] = ("close", "SIGHUP", "close, SIGHUP", "SIGHUP, close")
STARTS: tuple[Start, ...] = ("directly", "under bash")
TYPES: dict[str, Any] = {
    "boolean": {"type": "boolean"},
    "select": {"type": "select", "options": ["main", "backup"], "allow_other": True},
    "long select": {"type": "select", "options": [f"host-{number:03}" for number in range(60)]},
    "multi_select": {"type": "multi_select", "options": ["lint", "types", "tests"]},
    "text": {"type": "text"},
    "schema": {
        "type": "schema",
        "schema": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}},
            "required": ["replicas"],
        },
    },
    "secret": {"type": "secret"},
}
REDRAWN = b"\x1b[?25h"


class Scenario(NamedTuple):
    """The questions, the keys typed before the hang-up, and the number of answers in them."""

    questions: tuple[dict[str, Any], ...] = ()
    rich: str = ""
    plain: str = ""
    answered: int = 0
    run: str = "unattended"
    shows: str = "Which of them?"


def _one(kind: str, **fields: Any) -> dict[str, Any]:
    return {"id": "it", "text": "Which of them?", "answer_type": TYPES[kind], **fields}


FORM = (
    _one("boolean", id="first", text="Is it the first?"),
    _one("text", id="second", text="Where is it?"),
    _one("secret", id="third"),
)
ASKINGS: dict[str, Scenario] = {
    **{kind: Scenario((_one(kind),)) for kind in TYPES},
    "half a text": Scenario((_one("text"),), rich="half a li", plain="half a li"),
    "half a secret": Scenario((_one("secret"),), rich="hunt", plain="hunt"),
    "menu": Scenario((_one("select"),), rich="\x1b", plain="?\r"),
    "reply": Scenario((_one("boolean"),), rich="r", plain="r\r"),
    "pager": Scenario(
        (_one("boolean", context="\n".join(f"row {number}" for number in range(200))),),
        rich="v",
        plain="v\r",
    ),
    "editor": Scenario((_one("text"),), rich="\x18", plain=":e\r"),
    "form": Scenario(FORM, rich="y", plain="y\r", answered=1),
    "approval": Scenario(run="ask", shows="Run deploy?"),
}
TIMES = int(os.environ.get("MIDTURN_HANGUPS", "0"))


class Try(NamedTuple):
    """One run during which the terminal is closed."""

    name: str
    plain: bool
    way: Way
    start: Start


def _tries() -> list[Try]:
    modes = list(itertools.product(ASKINGS, (False, True)))
    if TIMES:
        return [
            Try(*mode, way, start) for mode in modes for way in WAYS for start in STARTS
        ] * TIMES
    turns = itertools.cycle(itertools.product(STARTS, WAYS))
    return [Try(*mode, way, start) for mode, (start, way) in zip(modes, turns, strict=False)]


def _name(one: Try) -> str:
    return f"{one.name}-{'plain' if one.plain else 'rich'}-{one.way}-{one.start}".replace(" ", "_")


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=f"{number}-{_name(one)}") for number, one in enumerate(_tries())]
)
def test_nothing_is_recorded_when_the_terminal_goes_away(midturn: CommandLine, one: Try) -> None:
    asking = ASKINGS[one.name]
    _configure(midturn, asking)

    with _started(midturn, one, asking) as session:
        _reach(session, one, asking)
        jobs = _hang_up(session, one.way)
        status = _wait_for_end(session, jobs)

    assert one.start == "under bash" or status in (128 + signal.SIGHUP, -signal.SIGHUP)
    _check_nobody_answered(midturn, asking)


@pytest.mark.parametrize("plain", [True, False])
def test_sigterm_leaves_the_turn_open_with_its_own_exit_status(
    midturn: CommandLine, *, plain: bool
) -> None:
    asking = ASKINGS["half a text"]
    _configure(midturn, asking)

    with _started(midturn, Try("half a text", plain, "close", "directly"), asking) as session:
        _reach(session, Try("half a text", plain, "close", "directly"), asking)
        session.child.kill(signal.SIGTERM)
        assert session.wait_for_end() == 128 + signal.SIGTERM

    _check_nobody_answered(midturn, asking)


@pytest.mark.parametrize("plain", [True, False])
def test_a_half_filled_form_is_kept_after_the_window_was_closed(
    midturn: CommandLine, *, plain: bool
) -> None:
    asking = ASKINGS["form"]
    _configure(midturn, asking)
    one = Try("form", plain, "close", "directly")
    with _started(midturn, one, asking) as session:
        _reach(session, one, asking)
        jobs = _hang_up(session, "close")
        _wait_for_end(session, jobs)

    inbox = midturn.ok("inbox", "--json").json
    assert [question["question"]["text"] for question in inbox] == ["Where is it?"]
    with midturn.on_a_terminal("resume") as session:
        session.wait_for("question 2 of 3")
        session.wait_at("> ")
        session.send("here it is\r")
        session.wait_at(": ")
        session.send("hunter2\r")
        assert session.wait_for_end() == 0
    answers = [
        event["answer"]
        for event in midturn.events()
        if event["type"] == "inquiry_response" and "answer" in event
    ]
    assert answers == [True, "here it is"]


@pytest.mark.parametrize("command", [("trust",), ("conversation", "rm", "1")])
def test_a_question_of_a_command_ends_with_the_same_exit_status(
    midturn: CommandLine, command: tuple[str, ...]
) -> None:
    midturn.ok("query", "-m", midturn.script({"text": "Hello."}), "hi")
    midturn.workspace_file('[conversation.tools.greet]\ncommand = ["echo", "hello"]\n')

    with midturn.on_a_terminal(*command) as session:
        session.wait_at(": ")
        jobs = _hang_up(session, "close")
        status = _wait_for_end(session, jobs)

    assert status in (128 + signal.SIGHUP, -signal.SIGHUP)
    assert len(midturn.conversations()) == 1


def test_an_unfinished_inbox_answer_does_not_count(midturn: CommandLine) -> None:
    _configure(midturn, ASKINGS["text"])
    model = midturn.script(calls("deploy", ask=[*ASKINGS["text"].questions]))
    assert midturn.run("query", "-m", model, "--defer", "Go").status == 3
    (question,) = midturn.ok("inbox", "--json").json

    with midturn.on_a_terminal("answer", question["id"]) as session:
        session.wait_at("> ")
        session.send("half a li")
        jobs = _hang_up(session, "close")
        _wait_for_end(session, jobs)

    assert [one["id"] for one in midturn.ok("inbox", "--json").json] == [question["id"]]


def test_a_terminal_closed_before_the_question_counts_as_nobody(midturn: CommandLine) -> None:
    """This also holds if the process continues.

    Otherwise, a model would answer instead of the person who was there.
    """
    _configure(midturn, ASKINGS["boolean"])
    gate = midturn.root / "note"
    model = midturn.script(
        calls("deploy", sleep=2, note=str(gate), ask=[*ASKINGS["boolean"].questions])
    )
    ignoring = "import signal; signal.signal = signal.signal; "
    code = (
        f"{ignoring}import asyncio, sys; from midturn.cli.headless import DEADLY; import"
        " midturn.cli.headless as s; s.DEADLY = (); "
    )
    code += (
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); from midturn.cli.main import run;"
        " sys.exit(run())"
    )

    with midturn.on_a_terminal_run("python", "-c", code, "query", "-m", model, "Go") as session:
        session.wait_until(gate.exists, "the tool")
        jobs = _hang_up(session, "close")
        assert _wait_for_end(session, jobs) == 128 + signal.SIGHUP

    _check_nobody_answered(midturn, ASKINGS["boolean"])


def _configure(midturn: CommandLine, asking: Scenario) -> None:
    midturn.asker(run=asking.run)
    midturn.accept_keys_at_once()


def _started(midturn: CommandLine, one: Try, asking: Scenario) -> PtySession:
    editor = midturn.root / "editor.py"
    editor.write_text("import time\nprint('editing now', flush=True)\ntime.sleep(60)\n")
    model = midturn.script(calls("deploy", ask=list(asking.questions)))
    query = ["query", "-m", model, "Go"]
    opens = f"{sys.executable} -I -S {editor}"
    if one.start == "directly":
        return midturn.on_a_terminal(*query, plain=one.plain, EDITOR=opens)
    shell = ["/bin/bash", "-c", '"$@"; true', "bash", *midturn.program, *query]
    return midturn.on_a_terminal_run(
        *shell, TERM="dumb" if one.plain else "xterm-256color", EDITOR=opens
    )


def _reach(session: PtySession, one: Try, asking: Scenario) -> None:
    """Wait for the prompt, and type the keys."""
    _wait_until_asked(session, one, "Is it the first?" if asking.answered else asking.shows)
    session.send(asking.plain if one.plain else asking.rich)
    match one.name:
        case "editor":
            session.wait_for("editing now")
        case "form":
            _wait_until_asked(session, one, "question 2 of 3" if one.plain else "[2/3]")
        case "half a text":
            session.wait_for("half a li")
        case _:
            pass


def _wait_until_asked(session: PtySession, one: Try, text: str) -> None:
    session.wait_for(text)
    if one.plain:
        session.wait_until(lambda: session.raw.endswith((b": ", b"> ")), "question")
    else:
        at = session.raw.rfind(text.encode())
        session.wait_until(lambda: REDRAWN in session.raw[at:], "prompt")


def _hang_up(session: PtySession, way: Way) -> int:
    """Close the terminal, and return the process group that used it."""
    jobs = os.tcgetpgrp(session.child.child_fd)
    steps: dict[str, Callable[[], None]] = {
        "close": session.hang_up,
        "SIGHUP": lambda: _signal(jobs, session.child.pid or jobs),
    }
    for step in way.split(", "):
        steps[step]()
    return jobs


def _signal(jobs: int, leader: int) -> None:
    """Send the signals of the system: to the foreground job and to the session leader.

    An editor may be a job of its own.
    """
    for group in dict.fromkeys((jobs, leader)):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGHUP)


def _wait_for_end(session: PtySession, jobs: int) -> int:
    """Wait until the job has ended, and return the status of its first process."""
    deadline = time.monotonic() + 120
    while session.child.isalive() or _lives(jobs):
        assert time.monotonic() < deadline, "it did not end"
        time.sleep(0.02)
    return (
        -session.child.signalstatus if session.child.signalstatus else session.child.exitstatus or 0
    )


def _lives(jobs: int) -> bool:
    try:
        os.killpg(jobs, 0)
    except ProcessLookupError:
        return False
    found = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    return any(
        line.split()[0] == str(jobs) and not line.split()[1].startswith("Z")
        for line in found.splitlines()
    )


def _check_nobody_answered(midturn: CommandLine, asking: Scenario) -> None:
    events: list[dict[str, Json]] = midturn.events()
    types = [str(event["type"]) for event in events]
    requests = types.count("inquiry_request")
    assert types.count("inquiry_response") == asking.answered, types
    assert requests == (asking.answered + 1 if asking.questions else 0), types
    assert not {"tool_call_response", "turn_end"} & set(types), types
    assert {str(event["state"]) for event in events if event["type"] == "approval"} <= {
        "waiting"
    }, "somebody was asked, and nobody decided"
