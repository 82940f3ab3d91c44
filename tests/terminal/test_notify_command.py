"""The user's notification command, run when a question needs an answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from midturn.question.json_value import Json
from midturn.terminal.notify import NotifyCommand, question_of
from support.prompt_catalogue import BOOLEAN, RUN, SECRET
from support.waiting import until

KEEP = (
    "import sys; open(sys.argv[1] + '.part', 'w').write(sys.stdin.read()); import os;"
    " os.rename(sys.argv[1] + '.part', sys.argv[1])"
)


def program(code: str, *arguments: object) -> tuple[str, ...]:
    """Return a command that runs a few lines of Python."""
    return (sys.executable, "-c", code, *map(str, arguments))


def run(
    command: tuple[str, ...],
    question: dict[str, Json],
    told: list[str],
    *,
    heard: Path | None = None,
    times: int = 1,
) -> list[str | None]:
    """Run the command, wait for its output or a message, and return the start errors."""

    async def start() -> list[str | None]:
        notify = NotifyCommand(command, told.append)
        problems = [notify.run(question) for _ in range(times)]
        if heard:
            await until(heard.exists)
        elif not any(problems):
            await until(lambda: told)
            await asyncio.sleep(0.3 if times > 1 else 0)
        return problems

    return asyncio.run(start())


def test_the_command_reads_the_question_as_json(tmp_path: Path) -> None:
    heard = tmp_path / "heard"

    assert run(program(KEEP, heard), question_of(BOOLEAN), [], heard=heard) == [None]

    assert json.loads(heard.read_text()) == question_of(BOOLEAN) | {
        "asked_at": json.loads(heard.read_text())["asked_at"]
    }


def test_a_question_can_be_larger_than_a_pipe(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    question = replace(RUN, arguments={"patch": "本" * 300_000})

    run(program(KEEP, heard), question_of(question), [], heard=heard)

    assert json.loads(heard.read_text())["arguments"] == {"patch": "本" * 300_000}


def test_a_command_that_does_not_read_is_no_problem() -> None:
    assert run(
        program("import sys; sys.exit(3)"),
        question_of(replace(RUN, arguments="x" * 1_000_000)),
        told := [],
    ) == [None]

    assert told == [f"notify.command: {sys.executable} exited with status 3"]


def test_an_error_is_reported_once() -> None:
    run(program("import sys; sys.exit(3)"), question_of(BOOLEAN), told := [], times=3)

    assert len(told) == 1


def test_a_killed_command_is_reported() -> None:
    run(program("import os; os.kill(os.getpid(), 9)"), question_of(BOOLEAN), told := [])

    assert told == [f"notify.command: {sys.executable} was ended by signal 9"]


@pytest.mark.parametrize("command", [("/nowhere/notify",), ("",), ("a\0b",), ("/",)])
def test_a_command_that_cannot_be_started_is_reported(command: tuple[str, ...]) -> None:
    (problem,) = run(command, question_of(BOOLEAN), [])

    assert problem is not None
    assert problem.startswith(f"notify.command: {command[0]} cannot be run: ")


def test_a_start_failure_is_reported_once() -> None:
    assert [
        bool(problem) for problem in run(("/nowhere/notify",), question_of(BOOLEAN), [], times=3)
    ] == [True, False, False]


def test_without_a_command_nothing_happens() -> None:
    assert asyncio.run(_nothing()) is None


async def _nothing() -> str | None:
    return NotifyCommand((), print).run(question_of(BOOLEAN))


def test_the_command_has_its_own_session_and_leaves_no_zombie(tmp_path: Path) -> None:
    """It has no controlling terminal, so it cannot read keys or be ended by the terminal."""
    heard = tmp_path / "heard"
    code = (
        "import os, sys; file = open(sys.argv[1] + '.part', 'w');print(os.getpid(), os.getsid(0),"
        " [os.isatty(fd) for fd in range(3)], file=file, sep=';');"
        " file.close();os.rename(sys.argv[1] + '.part', sys.argv[1])"
    )

    async def start() -> None:
        NotifyCommand(program(code, heard), print).run(question_of(BOOLEAN))
        await until(heard.exists)
        pid = int(heard.read_text().split(";")[0])
        await until(lambda: not Path(f"/proc/{pid}").exists())

    asyncio.run(start())

    pid, session, terminals = heard.read_text().strip().split(";")
    assert pid == session != str(os.getsid(0))
    assert terminals == "[False, False, False]"


def test_a_prompt_outside_a_turn_has_the_same_format() -> None:
    """The keys are those of an open question. An answer is never included."""
    question = question_of(replace(SECRET, prefill="hunter2"))

    keys = (
        "id conversation kind source question_id question answer_schema form tool arguments"
        " asked_at"
    )
    assert question.keys() == {*keys.split()}
    assert "hunter2" not in json.dumps(question)


@pytest.mark.parametrize(
    ("asked_by", "tool", "source"),
    [
        ("Assistant", "ask_user", {"source": "assistant"}),
        ("Assistant", "Assistant", {"source": "tool", "name": "Assistant"}),
        ("deploy", "deploy", {"source": "tool", "name": "deploy"}),
        ("midturn", "", {"source": "other", "name": "midturn"}),
    ],
)
def test_the_question_includes_the_asker(asked_by: str, tool: str, source: dict[str, Json]) -> None:
    assert question_of(replace(BOOLEAN, asked_by=asked_by, tool=tool))["source"] == source


def test_the_command_gets_no_api_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "my_password", "DISPLAY"):
        monkeypatch.setenv(name, "value")
    heard = tmp_path / "heard"

    run(
        program(KEEP.replace("sys.stdin.read()", "' '.join(__import__('os').environ)"), heard),
        question_of(BOOLEAN),
        [],
        heard=heard,
    )

    assert {"DISPLAY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "my_password"} & set(
        heard.read_text().split()
    ) == {"DISPLAY"}
