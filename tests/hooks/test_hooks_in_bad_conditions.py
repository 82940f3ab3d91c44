"""Hooks under bad conditions: each agent gets a safe decision, a true message and an exit
status it understands.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Thread
from typing import Any, TextIO

import pytest

from hooks.test_unexpected_input import ALONE, EVENT, FAILS_OPEN, GIVEN, SHELL, allows
from midturn.cli import hook_run
from midturn.cli.command_context import place_in
from midturn.events.open_question import OpenQuestion
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.claude_deferring import DeferringClaude
from midturn.integrations.hooks.clients import AGENTS
from midturn.integrations.hooks.hook_agent import HookAgent
from midturn.stores.opening import FileStore
from support.cli import CommandLine
from support.hook_runs import HookRuns
from support.hooks import Session, answers, stored, until, wait_for

pytestmark = pytest.mark.timeout(600)
DEFERRED = "claude, deferring"
KINDS: Mapping[str, HookAgent] = {**AGENTS, DEFERRED: DeferringClaude()}
CLOSED = FAILS_OPEN | {DEFERRED}
"""Agents that run a call if the hook prints nothing. For a deferred call, Claude Code then
applies its own rules.
"""
STOPS = {"gemini": "AfterAgent"}


class Agent:
    """An agent without a terminal (unless it has one), and the input of its hook."""

    def __init__(
        self,
        kind: str,
        midturn: CommandLine,
        patch: pytest.MonkeyPatch,
        captured: pytest.CaptureFixture[str],
    ) -> None:
        self.kind = kind
        self.midturn = midturn
        self.patch = patch
        self._captured = captured
        self.given = GIVEN.get(kind, "")
        for name, value in (midturn.environment | ALONE).items():
            patch.setenv(name, value)
        patch.chdir(midturn.root)
        patch.setattr(hook_agent, "_ancestors", self._above)
        patch.setattr(
            hook_run, "mark_agent", _forget
        )  # it would mark the parent of the test run as an agent's process

    def _above(self, names: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
        if self.kind.split(",")[0] in names:
            yield os.getppid(), [names[0], self.given]

    def at_a_terminal(self) -> None:
        """Put the agent at a terminal."""
        self.given = ""
        self.patch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "1")

    def call(self, **changes: Any) -> dict[str, Any]:
        """Return the hook input for a call that needs a permission."""
        event = "PreToolUse" if self.kind == DEFERRED else EVENT[self.kind]
        said = {
            "session_id": "s1",
            "cwd": str(self.midturn.root),
            "hook_event_name": event,
            "tool_use_id": "c1",
            **SHELL,
        }
        if self.kind == "copilot":
            said = {
                "sessionId": "s1",
                "cwd": said["cwd"],
                "hookName": event,
                "toolName": "bash",
                "toolInput": SHELL["tool_input"],
            }
        return {**said, **changes}

    def stop(self) -> dict[str, Any]:
        """Return the hook input at the end of a turn."""
        if self.kind == "copilot":
            return {"sessionId": "s1", "cwd": str(self.midturn.root), "stopReason": "end_turn"}
        return {
            "session_id": "s1",
            "cwd": str(self.midturn.root),
            "hook_event_name": STOPS.get(self.kind, "Stop"),
        }

    def waiting(self) -> Sequence[OpenQuestion]:
        """Return the open questions in this user's inbox."""
        return asyncio.run(place_in(self.midturn.root, None).store.pending())

    def runs(
        self, said: Mapping[str, Any] | bytes | None, *, closes: bool = True
    ) -> tuple[int, str, str]:
        """Run the hook without waiting for an answer; return the status and the output."""
        content = (
            said if isinstance(said, bytes) else b"" if said is None else json.dumps(said).encode()
        )
        reading, writing = os.pipe()
        feeding = Thread(target=_feed, args=(writing, content, closes))
        feeding.start()
        with os.fdopen(reading) as stdin:
            ended = self.runs_on(stdin)
            feeding.join()
        if not closes:
            os.close(writing)
        return ended

    def runs_on(self, stdin: TextIO | None) -> tuple[int, str, str]:
        """Run the hook on a standard input; return the status and the output."""
        self.patch.setattr("sys.stdin", stdin)
        status = hook_run.run_hook(KINDS[self.kind], 0, None)
        printed, errors = self._captured.readouterr()
        return status, printed, errors


def _forget(*_: object) -> None: ...


def _feed(writing: int, content: bytes, closes: bool) -> None:  # noqa: FBT001
    view = memoryview(content)
    while view:
        view = view[os.write(writing, view) :]
    if closes:
        os.close(writing)


@pytest.fixture(params=KINDS)
def agent(
    request: pytest.FixtureRequest,
    midturn: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Agent:
    return Agent(request.param, midturn, monkeypatch, capsys)


def is_understood(status: int, printed: str, errors: str) -> bool:
    """Return whether every agent understands the result: one document and status 0, or text
    and status 2.
    """
    if status == 2:
        return bool(errors) and not printed
    return status == 0 and not errors and (not printed or isinstance(json.loads(printed), dict))


# Conditions with a question
# --------------------------------------------------------------------------------------------------

Spoiled = Callable[[Agent], Any]


def newer(agent: Agent) -> dict[str, Any]:
    return agent.call(
        version=99,
        protocol={"name": "next"},
        permission_suggestions=[{"type": "fromTheFuture"}],
        a=None,
    )


def other_kinds(agent: Agent) -> dict[str, Any]:
    return agent.call(
        cwd="/a\0b",
        session_id=["s"],
        sessionId=7,
        tool_use_id={},
        tool_input="all of it",
        toolInput=[1],
        tool_name="Bash",
    )


def no_utf8(agent: Agent) -> bytes:
    return json.dumps(agent.call()).encode().replace(b"rm -r build", b"rm -r \xff\xfe")


def half_a_character(agent: Agent) -> bytes:
    return json.dumps(agent.call()).encode().replace(b"rm -r build", b"rm -r \\ud83d\\ude00\\ud800")


def beside_damage(agent: Agent) -> dict[str, Any]:
    """Add a damaged conversation to the store, and one written by a later version."""
    agent.runs(agent.call(session_id="s0", sessionId="s0", tool_use_id="c0"))
    (file,) = (agent.midturn.home / "data").rglob("events.jsonl")
    for number, line in (
        (7, "this is no JSON"),
        (8, '{"type":"from_the_future","event_id":"aaaaaaaaaaaa","x":{"y":[1]}}'),
    ):
        folder = file.parent.with_name(f"{int(file.parent.name.split('-')[0]) + number}-copy")
        shutil.copytree(file.parent, folder)
        (folder / "events.jsonl").write_text(f"{file.read_text()}{line}\n{line}\n")
    shutil.rmtree(file.parent)
    shutil.rmtree(
        file.parents[1] / "open"
    )  # the index of open questions is created again from the logs
    return agent.call()


def set_back(agent: Agent) -> dict[str, Any]:
    """Ask once, then set the clock back by a year."""
    agent.runs(agent.call(session_id="s0", sessionId="s0", tool_use_id="c0"))
    real = time.time_ns
    agent.patch.setattr(time, "time_ns", lambda: real() - 365 * 86_400 * 10**9)
    return agent.call()


@pytest.mark.parametrize(
    "spoiled", [newer, other_kinds, no_utf8, half_a_character, beside_damage, set_back]
)
def test_askable_conditions_create_an_open_question(agent: Agent, spoiled: Spoiled) -> None:
    status, printed, errors = agent.runs(spoiled(agent))

    assert is_understood(status, printed, errors)
    if agent.kind == DEFERRED:
        assert json.loads(printed)["hookSpecificOutput"]["permissionDecision"] == "defer"
    else:
        assert model_messages.NOBODY in printed
    waiting = [
        question
        for question in agent.waiting()
        if question.asker and question.asker.session != "s0"
    ]
    assert len(waiting) == 1


def test_document_is_complete_without_end_of_stdin(agent: Agent) -> None:
    said = json.dumps(agent.call()).encode()
    status, printed, errors = agent.runs(said, closes=False)

    assert is_understood(status, printed, errors)
    assert printed
    assert model_messages.FAILED not in printed
    assert len(agent.waiting()) == 1


# Conditions without a question
# --------------------------------------------------------------------------------------------------


def nothing(agent: Agent) -> None:
    del agent


def half_a_document(agent: Agent) -> bytes:
    return json.dumps(agent.call()).encode()[:-20]


def far_too_much(agent: Agent) -> bytes:
    return json.dumps(agent.call()).encode().replace(b"rm -r build", b"x" * 10_000_000)


def no_home(agent: Agent) -> dict[str, Any]:
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        agent.patch.delenv(name)
    agent.patch.setenv(
        "HOME", "/proc/nowhere"
    )  # nobody, not even root, can create a directory there
    return agent.call()


def unknown_home(agent: Agent) -> dict[str, Any]:
    """Run as a user who is unknown to the system, without HOME."""
    nobody: dict[int, Any] = {}
    agent.patch.setattr(pwd, "getpwuid", nobody.__getitem__)
    for name in [name for name in os.environ if name.startswith("XDG_") or name == "HOME"]:
        agent.patch.delenv(name)
    return agent.call()


def nowhere(agent: Agent) -> dict[str, Any]:
    """Remove the agent's working directory."""
    folder = agent.midturn.root / "gone"
    folder.mkdir()
    agent.patch.chdir(folder)
    folder.rmdir()
    return agent.call(cwd=str(folder))


def file_in_the_way(agent: Agent) -> dict[str, Any]:
    (agent.midturn.home / "data").write_text("in the way")
    return agent.call()


@pytest.mark.parametrize(
    "spoiled",
    [nothing, half_a_document, far_too_much, no_home, unknown_home, nowhere, file_in_the_way],
)
def test_unaskable_call_is_denied_for_fail_open_agents(agent: Agent, spoiled: Spoiled) -> None:
    status, printed, errors = agent.runs(spoiled(agent))

    assert is_understood(status, printed, errors)
    is_read = spoiled not in (nothing, half_a_document)
    assert agent.kind not in (CLOSED if is_read else FAILS_OPEN) or not allows(status, printed)
    assert "The user said no" not in printed + errors
    assert model_messages.NOBODY not in printed + errors, "nobody finds it in the inbox"
    if printed or errors:
        assert model_messages.FAILED in printed + errors
    assert stored(agent.midturn) == []


@pytest.mark.parametrize("how", ["closed", "missing", "silent"])
def test_missing_input_is_not_waited_for_and_denied(agent: Agent, how: str) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w"):
        agent.patch.setattr(hook_run, "_INPUT_TIMEOUT", 0.05)
        if how == "closed":
            stdin.close()
        status, printed, errors = agent.runs_on(None if how == "missing" else stdin)

    assert is_understood(status, printed, errors)
    assert agent.kind not in FAILS_OPEN or not allows(status, printed)
    assert stored(agent.midturn) == []


@pytest.mark.parametrize("spoiled", [no_home, nowhere, file_in_the_way])
def test_at_a_terminal_the_agents_dialog_decides(agent: Agent, spoiled: Spoiled) -> None:
    agent.at_a_terminal()
    said = spoiled(agent)
    if agent.kind == "codex":
        said["hook_event_name"] = "PermissionRequest"
    if agent.kind == "gemini":  # it asks at its own terminal
        said["tool_name"] = "read_file"
        agent.given = "-i"

    assert agent.runs(said) == (0, "", "")


@pytest.mark.parametrize("spoiled", [no_home, unknown_home, nowhere, file_in_the_way])
def test_turn_ends_if_the_store_is_unreadable(agent: Agent, spoiled: Spoiled) -> None:
    """An error that prevented the end of a turn would prevent it forever."""
    spoiled(agent)
    assert agent.runs(agent.stop()) == (0, "", "")


@pytest.mark.parametrize("kind", ["codex", "qwen"])
def test_unprintable_denial_is_still_a_denial(
    kind: str,
    midturn: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = Agent(kind, midturn, monkeypatch, capsys)
    monkeypatch.setattr("sys.stdout", None)
    assert agent.runs(agent.call())[0] == 2


def test_concurrent_hooks_with_one_id_both_get_the_decision(agent: Agent) -> None:
    store = FileStore(agent.midturn.home / "together")
    hooks = HookRuns(store, KINDS[agent.kind], ALONE)

    async def both() -> tuple[Any, Any]:
        return await asyncio.gather(
            hooks.run(agent.call(), wait=0), hooks.run(agent.call(), wait=0)
        )

    first, second = asyncio.run(both())

    assert first == second
    assert ('"defer"' if agent.kind == DEFERRED else model_messages.NOBODY) in json.dumps(first)
    assert len(asyncio.run(store.pending())) in (1, 2)


# Real processes
# --------------------------------------------------------------------------------------------------


def _no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("kind", AGENTS)
def test_full_disk_is_not_an_answer(
    midturn: CommandLine,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = Agent(kind, midturn, monkeypatch, capsys).call()
    command = [sys.executable, "-m", "midturn", "hook", kind]
    under = [
        "/bin/bash",
        "-c",
        'exec -a "$0" /bin/bash -c "\\"\\${@:2}\\"; exit \\$?" _ "$@"',
        kind,
        GIVEN[kind],
        *command,
    ]
    done = subprocess.run(
        under if GIVEN[kind] else command,
        input=json.dumps(said),
        capture_output=True,
        text=True,
        cwd=midturn.root,
        env=midturn.environment | ALONE,
        preexec_fn=_no_room,
        timeout=120,
        check=False,
    )

    assert not allows(done.returncode, done.stdout), done
    assert "nobody has decided" in done.stdout + done.stderr
    assert [answers(events) for events in stored(midturn)] in ([], [[]])


STARTED = {"PYTHONSAFEPATH": "1"}
"""Start the hook instead of forking it. The tests also kill it during start-up."""

PHASES: Mapping[str, Callable[[CommandLine], bool]] = {
    "at once": lambda _: True,
    "when it looks for the store": lambda midturn: (midturn.home / "data").exists(),
    "when it has begun to write": lambda midturn: any(
        (midturn.home / "data").rglob("events.jsonl")
    ),
    "while it waits": lambda midturn: len(midturn.ok("inbox", "--json").json) == 1,
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_hook_decides_nothing_and_the_next_takes_over(
    midturn: CommandLine, phase: str, number: int
) -> None:
    session = Session(midturn, "codex", given="exec", **STARTED)
    said: dict[str, Any] = {"tool_use_id": "c1", **SHELL}
    killed = session.start("PreToolUse", **said)
    until(lambda: PHASES[phase](midturn), bool)
    os.killpg(killed.process.pid, number)
    printed, _ = killed.process.communicate(timeout=120)

    assert printed == ""
    assert [answers(events) for events in stored(midturn)] in ([], [[]])
    resumed = session.start("PreToolUse", **said)
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], "n", "--reason", "Keep it.")
    assert "The user said no: Keep it." in json.dumps(resumed.decision())
