"""Checks figures that are the same on every machine: bytes, syncs, opened files, calls of our
functions, imported modules.

They are compared with `figures.json` in this directory. A worse figure is an error. A better one
is reported and can be recorded with `python benchmarks/check.py --write`. Exact figures may not
grow at all. Counts of calls and modules may grow by a few percent, because versions of Python and
of libraries differ.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

import midturn as mt
from counted import Calls, Disk, Imports, modules
from midturn.question.json_value import Json
from midturn.stores import disk_threads
from startup import NAMES, TURN
from turns import QUESTIONS, Replayed, deploy, deploy_twice, interviewed, model, prepared, turn

RECORDED = Path(__file__).with_name("figures.json")
RUNS = 3
OPEN = 300
PLAY = {
    "replies": [
        {
            "calls": [
                {"name": "ask_user", "arguments": {"question": "Sure?", "answer_type": "boolean"}}
            ]
        },
        {"text": "Done."},
    ]
}
STATEMENTS = "in PostgreSQL, statements of the"
EVENT = {
    "hook_event_name": "PostToolUse",
    "session_id": "s",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
}
"""Input of a Claude Code hook after a call that needed no question."""
COMMAND = "from midturn.__main__ import main; main()"


class Figure(msgspec.Struct, frozen=True):
    """A figure with the tolerated relative increase."""

    value: float
    slack: float = 0.0


def write_in_the_loop() -> None:
    """Let every write to the disk run in the event loop, as on a fast disk. Otherwise the number of
    calls would depend on the speed of the disk.
    """
    always_fast = {"_FAST": float("inf"), "_FAST_JOBS": 0}
    for name, value in always_fast.items():
        setattr(disk_threads, name, value)


def counted(
    events: int, tool: mt.Tool, answers: list[Json], folder: str = "store"
) -> tuple[Disk, Calls, Imports, int]:
    """Run a turn to its end; return the counters and the bytes that it wrote."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, folder)
        path, conversation = prepared(root, events)
        before = (path / "events.jsonl").stat().st_size
        with Disk() as disk, Imports() as imports, Calls() as calls:
            asyncio.run(turn(root, conversation, tool, answers))
        return disk, calls, imports, (path / "events.jsonl").stat().st_size - before


def turns() -> dict[str, Figure]:
    """Count the cost of a turn, by the length of its history."""
    found: dict[str, Figure] = {}
    counted(100, deploy, ["eu-1"])  # objects that are loaded once are not a cost of a turn
    for events in (0, 1_000):
        disk, calls, imports, written = min(
            (counted(events, deploy, ["eu-1"]) for _ in range(RUNS)), key=lambda each: each[1].count
        )
        what = f"a turn of one question after {events:,} events"
        found[f"{what}: bytes"] = Figure(written)
        found[f"{what}: syncs"] = Figure(disk.syncs)
        found[f"{what}: files and directories opened"] = Figure(disk.opened)
        found[f"{what}: looks at files and directories"] = Figure(disk.looked)
        found[f"{what}: calls"] = Figure(calls.count, 0.05)
        found[f"{what}: import statements"] = Figure(imports.count)
    disk, _, _, written = counted(0, deploy_twice, [True, "eu-1"])
    found["a turn of two questions: bytes"] = Figure(written)
    found["a turn of two questions: syncs"] = Figure(disk.syncs)
    return found


def many_questions() -> dict[str, Figure]:
    """Count the cost of the first and of the last ten of many questions in one turn."""
    with Calls() as calls:
        first, last = interviewed(lambda: calls.count)
    return {
        "a question, the first of a hundred in a turn: calls": Figure(round(first / 10), 0.05),
        "a question, the last of a hundred in a turn: calls": Figure(round(last / 10), 0.05),
    }


def replayed_answers() -> dict[str, Figure]:
    """Count the cost of a recorded answer in each run of its call."""
    counted: list[float] = []
    for answers in (0, QUESTIONS):
        with tempfile.TemporaryDirectory() as directory:
            replayed = Replayed(directory, answers)
            with Calls() as calls:
                counted.append(replayed.go_on(lambda calls=calls: calls.count)[0])
    return {
        "an answer that is replayed: calls": Figure(
            round((counted[1] - counted[0]) / QUESTIONS), 0.05
        )
    }


def many_conversations() -> dict[str, Figure]:
    """Count the cost of an answer and of a list in a store with hundreds of waiting
    conversations.
    """
    with tempfile.TemporaryDirectory() as directory:
        store = mt.open_store(directory)
        agent = mt.Agent(model("deploy"), tools=[deploy], store=store)
        asked = [agent.run_sync("Ship it").pending[0].id for _ in range(OPEN)]
        return {
            f"an answer among {OPEN}": _disk(
                lambda: mt.open_store(directory).answer_sync(asked[7], "eu-1")
            ),
            f"the open questions of {OPEN}, again": _disk(
                store.pending_sync, before=store.pending_sync
            ),
            f"a page of ids among {OPEN}, again": _disk(
                lambda: store.ids_sync(limit=50), before=store.ids_sync
            ),
        }


def _disk(work: Callable[[], object], before: Callable[[], object] = str) -> Figure:
    """Count opened files and listed directories."""
    before()
    with Disk() as disk:
        work()
    return Figure(disk.opened + disk.listed)


def statements() -> dict[str, Figure]:
    """Count the SQL statements of a turn with two questions. Empty without PostgreSQL."""
    if shutil.which("pg_ctl") is None:
        print("there is no PostgreSQL here: its statements are not counted")
        return {}
    from machines import statements_of_a_turn  # it needs the driver
    from support.postgres import Cluster

    cluster = Cluster("fsync=off")
    try:
        begun, answered, again = asyncio.run(
            statements_of_a_turn(f"{cluster.url}&midturn_schema=counted")
        )
    finally:
        cluster.remove()
    return {
        f"{STATEMENTS} {what}": Figure(count)
        for what, count in (
            ("first question", begun),
            ("answer", answered),
            ("next question", again),
        )
    }


def imports() -> dict[str, Figure]:
    """Count the modules that commands import."""
    found: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("COV", "PYTHON", "XDG_", "MIDTURN"))
        }
        environment = {**kept, "HOME": directory, "PYTHONHASHSEED": "0"}
        (root / "play.json").write_text(json.dumps(PLAY))

        def run(*arguments: str) -> None:
            loaded = modules(COMMAND, *arguments, environment=environment, cwd=root)
            note(f"`midturn {arguments[0]}`" if arguments else "", loaded)

        def note(what: str, loaded: set[str]) -> None:
            ours = sum(name.partition(".")[0] == "midturn" for name in loaded)
            found[f"{what}: modules of ours"] = Figure(ours, 0.02)
            found[f"{what}: modules of others"] = Figure(len(loaded) - ours, 0.1)

        for what, program in (
            ("`import midturn`", "import midturn"),
            ("what a program begins with", NAMES),
            ("a program's first turn", TURN),
        ):
            note(what, modules(program, environment=environment))
        run("init")
        note(
            "a hook with nothing to ask",
            modules(
                COMMAND,
                "hook",
                "claude",
                environment=environment,
                cwd=root,
                given=json.dumps(EVENT),
            ),
        )
        note(
            "`midturn inbox` in which nothing waits",
            modules(COMMAND, "inbox", environment=environment, cwd=root),
        )
        for arguments in (
            ("--version",),
            ("--help",),
            ("query", "-m", "scripted:play.json", "--defer", "hello"),
            ("inbox",),
        ):
            run(*arguments)
        note(
            "`midturn conversation ls`",
            modules(COMMAND, "conversation", "ls", environment=environment, cwd=root),
        )
        from support.places import workspace_store  # only importable after the path is set

        (waiting,) = mt.open_store(
            workspace_store(root, root / ".local" / "share"), trusted=True
        ).pending_sync()
        run("answer", waiting.id, "yes", "--resume")
    return found


def compared(recorded: dict[str, float], found: dict[str, Figure]) -> tuple[list[str], list[str]]:
    """Return the figures that got worse, and the other figures that differ from the recorded
    ones.
    """
    worse: list[str] = []
    gone = [name for name in recorded if name not in found and not name.startswith(STATEMENTS)]
    other = [f"{name}: {recorded[name]:g} is recorded, and nothing is measured" for name in gone]
    for name, figure in found.items():
        before = recorded.get(name)
        said = f"{name}: {figure.value:g}" + ("" if before is None else f", {before:g} before")
        if before is not None and figure.value > before * (1 + figure.slack):
            worse.append(said)
        elif before is None or figure.value < before * (1 - figure.slack):
            other.append(said)
    return worse, other


def main() -> None:
    write_in_the_loop()
    recorded = json.loads(RECORDED.read_text())
    found = (
        turns()
        | many_questions()
        | replayed_answers()
        | many_conversations()
        | statements()
        | imports()
    )
    if "--write" in sys.argv:
        kept = {name: value for name, value in recorded.items() if name.startswith(STATEMENTS)}
        found = {name: Figure(value) for name, value in kept.items()} | found
        RECORDED.write_text(
            json.dumps({name: figure.value for name, figure in found.items()}, indent=2) + "\n"
        )
        return
    worse, other = compared(recorded, found)
    for row in other:
        print(f"not as recorded: {row}")
    for row in worse:
        print(f"worse: {row}")
    if worse:
        raise SystemExit(
            "Make it as it was, or say in the commit why it is worth its price: `python"
            " benchmarks/check.py --write`."
        )


if __name__ == "__main__":
    main()
