"""Ctrl-C, SIGTERM, SIGHUP and closed pipes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from midturn.cli.headless import with_signals
from support.cli import CommandLine, asks, calls


def slow(midturn: CommandLine) -> tuple[str, Path]:
    """Return a model that calls a slow tool, and the file that exists while the tool runs."""
    midturn.asker()
    note = midturn.root / "note"
    return midturn.script(calls("deploy", sleep=60, note=str(note))), note


def statuses(midturn: CommandLine) -> list[str]:
    """Return how each turn ended."""
    return [event["status"] for event in midturn.events() if event["type"] == "turn_end"]


def test_ctrl_c_at_a_prompt_ends_the_turn(midturn: CommandLine) -> None:
    midturn.asker()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=asks())), "Ship it"
    ) as terminal:
        terminal.wait_for("Deploy to staging?")
        terminal.wait_at(": ")
        terminal.send("\x03")
        assert terminal.wait_for_end() == 130
        assert terminal.read_settings() == terminal.settings

    assert statuses(midturn) == ["ended_by_user"]
    response = next(event for event in midturn.events() if event["type"] == "tool_call_response")
    assert response["content"] == "Tool input cancelled by user."


def test_ctrl_c_while_a_tool_runs_ends_the_turn_and_the_tool(midturn: CommandLine) -> None:
    model, note = slow(midturn)

    with midturn.on_a_terminal("query", "-m", model, "Ship it") as terminal:
        terminal.wait_until(note.exists, "the tool")
        terminal.send("\x03")
        assert terminal.wait_for_end() == 130

    assert statuses(midturn) == ["ended_by_user"]
    assert "midturn: the turn was ended." in terminal.text


def test_ctrl_c_during_a_model_answer_keeps_its_text(midturn: CommandLine) -> None:
    model = midturn.script({"text": "word " * 200, "chunk": 5, "delay_ms": 60_000})

    with midturn.on_a_terminal("query", "-m", model, "Speak") as terminal:
        terminal.wait_for("word word")
        terminal.send("\x03")
        assert terminal.wait_for_end() == 130

    said = next(event["message"] for event in midturn.events() if event["type"] == "chat_response")
    assert said.startswith("word word")
    assert len(said) < 1_000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_fatal_signal_at_a_prompt_restores_the_terminal_and_leaves_the_turn_open(
    midturn: CommandLine, number: signal.Signals
) -> None:
    midturn.asker()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=asks())), "Ship it"
    ) as terminal:
        terminal.wait_for("Deploy to staging?")
        terminal.wait_at(": ")
        assert terminal.read_settings() != terminal.settings
        terminal.child.kill(number)
        assert terminal.wait_for_end() == 128 + number
        assert terminal.read_settings() == terminal.settings

    assert statuses(midturn) == []
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal("resume") as terminal:
        terminal.wait_for("Deploy to staging?")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0
    assert statuses(midturn) == ["completed"]
    assert len([event for event in midturn.events() if event["type"] == "inquiry_request"]) == 1


def test_sigterm_while_a_tool_runs_leaves_the_turn_open_and_names_resume(
    midturn: CommandLine,
) -> None:
    model, note = slow(midturn)
    running = midturn.start("query", "-m", model, "Ship it")
    while not note.exists():
        assert running.poll() is None
    running.terminate()
    _, err = running.communicate(timeout=120)

    assert running.returncode == 128 + signal.SIGTERM
    assert "midturn: the turn is still open. To continue it: `midturn resume " in err
    assert statuses(midturn) == []


def test_ctrl_c_while_waiting_does_not_change_the_turn(midturn: CommandLine) -> None:
    midturn.asker()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "--wait", "Ship it"
    ) as terminal:
        terminal.wait_for("Waiting for answers. Press Ctrl-C to stop waiting; the turn stays open.")
        terminal.send("\x03")
        assert terminal.wait_for_end() == 3

    assert len(midturn.ok("inbox", "--json").json) == 1


def head(midturn: CommandLine, *arguments: str) -> tuple[int, str]:
    """Run a command whose reader closes the pipe after the first byte; return its status and
    stderr.
    """
    command = [sys.executable, "-m", "midturn", *arguments]
    with subprocess.Popen(
        command,
        cwd=midturn.root,
        env=midturn.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read().decode()
        return process.wait(timeout=120), err


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_acp_agent_reports_the_signal_that_ended_it(
    midturn: CommandLine, number: signal.Signals, status: int
) -> None:
    pytest.importorskip("acp")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", "midturn", "acp"],
        cwd=midturn.root,
        env=midturn.environment,
        stdin=pipe,
        stdout=pipe,
        start_new_session=True,
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(
            b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion":'
            b" 1}}\n"
        )
        agent.stdin.flush()
        assert b'"protocolVersion"' in agent.stdout.readline()
        agent.send_signal(number)
        assert agent.wait(timeout=120) == status


def test_ctrl_c_ends_an_mcp_server_with_an_idle_client(midturn: CommandLine) -> None:
    pytest.importorskip("mcp")
    pipe, hello = (
        subprocess.PIPE,
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    )
    with subprocess.Popen(
        [sys.executable, "-m", "midturn", "mcp"],
        cwd=midturn.root,
        env=midturn.environment,
        stdin=pipe,
        stdout=pipe,
        start_new_session=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(
            json.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            ).encode()
            + b"\n"
        )
        server.stdin.flush()
        assert b'"serverInfo"' in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=120) == -signal.SIGINT


def test_turn_completes_after_its_reader_closes_the_pipe(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script({"text": "word " * 50_000, "chunk": 1_000, **calls("deploy", say="x")})

    status, err = head(midturn, "query", "-m", model, "Speak")

    assert status == 0
    assert "Traceback" not in err
    assert statuses(midturn) == ["completed"]


def test_listing_ends_silently_after_its_reader_closes_the_pipe(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script({"text": "word " * 50_000}), "Speak")

    assert head(midturn, "conversation", "show") == (128 + signal.SIGPIPE, "")


def test_closed_stdout_is_no_error(midturn: CommandLine) -> None:
    command = [
        "/bin/sh",
        "-c",
        '"$@" >&-',
        "sh",
        sys.executable,
        "-m",
        "midturn",
        "query",
        "-m",
        midturn.script({"text": "Hello."}),
        "hi",
    ]

    finished = subprocess.run(
        command,
        cwd=midturn.root,
        env=midturn.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )

    assert (finished.returncode, finished.stderr) == (0, b"")
    assert statuses(midturn) == ["completed"]


def test_full_disk_is_reported_in_one_line(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "hi")
    with Path("/dev/full").open("wb") as full:
        finished = subprocess.run(
            [sys.executable, "-m", "midturn", "conversation", "show"],
            cwd=midturn.root,
            env=midturn.environment,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )

    assert finished.returncode == 1
    assert b"No space left on device" in finished.stderr
    assert b"Traceback" not in finished.stderr


def test_full_disk_during_help_is_reported_in_one_line(midturn: CommandLine) -> None:
    finished = from_a_shell(midturn, "</dev/null >/dev/full", "--help")

    assert finished.returncode == 1
    assert finished.stderr.startswith("midturn: No space left on device.")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "streams", "said"),
    [
        (
            ("acp",),
            "</dev/null",
            "Editors start this command and talk to it over pipes, but stdin is not a pipe.",
        ),
        (
            ("acp",),
            "<&-",
            "Editors start this command and talk to it over pipes, but stdin is not a pipe.",
        ),
        (
            ("mcp",),
            "<&-",
            (
                "An agent starts this command and talks to it over stdin and stdout, but one of"
                " them is closed."
            ),
        ),
        (
            ("mcp",),
            "</dev/null >&-",
            (
                "An agent starts this command and talks to it over stdin and stdout, but one of"
                " them is closed."
            ),
        ),
    ],
)
def test_server_without_streams_is_an_error(
    midturn: CommandLine, arguments: tuple[str, ...], streams: str, said: str
) -> None:
    pytest.importorskip(arguments[0])
    finished = from_a_shell(midturn, streams, *arguments)

    assert finished.returncode == 2
    assert finished.stderr.startswith(f"midturn: {said}\n")


def test_export_and_edit_work_with_closed_streams(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "hi")

    exported = from_a_shell(midturn, "</dev/null >&-", "conversation", "export")
    edited = from_a_shell(midturn, "<&-", "conversation", "edit")

    assert (exported.returncode, exported.stderr) == (0, "")
    assert edited.returncode == 2
    assert edited.stderr.startswith(
        "midturn: There is no terminal for an editor. Set EDITOR to a command that does not need"
        " one.\n"
    )


def from_a_shell(
    midturn: CommandLine, streams: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a command without a terminal, with streams redirected as in a shell: `</dev/null
    >&-`.
    """
    lost = {
        name: value
        for name, value in midturn.environment.items()
        if name not in {"EDITOR", "VISUAL"}
    }
    command = [
        "/bin/sh",
        "-c",
        f'exec "$@" {streams}',
        "sh",
        sys.executable,
        "-m",
        "midturn",
        *arguments,
    ]
    return subprocess.run(
        command,
        cwd=midturn.root,
        env=lost,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=120,
        check=False,
    )


def test_removed_working_directory_is_reported_in_one_line(midturn: CommandLine) -> None:
    gone = midturn.root / "gone"
    gone.mkdir()
    command = [
        "/bin/sh",
        "-c",
        'cd "$1" && rmdir "$1" && shift && exec "$@"',
        "sh",
        str(gone),
        sys.executable,
        "-m",
        "midturn",
        "inbox",
    ]

    finished = subprocess.run(
        command,
        env=midturn.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert finished.returncode == 1
    assert (
        finished.stderr
        == b"midturn: The working directory no longer exists. Change to another directory.\n"
    )


def test_internal_error_is_one_line_and_the_log_has_the_traceback(midturn: CommandLine) -> None:
    code = (
        "import sys, midturn.cli.inbox as inbox, midturn.cli.main as main; inbox.find_place = None;"
        " sys.exit(main.run(['inbox']))"
    )

    finished = subprocess.run(
        [sys.executable, "-c", code],
        cwd=midturn.root,
        env=midturn.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    log = midturn.state / "midturn.log"
    assert finished.returncode == 1
    assert finished.stderr.count("\n") == 1
    assert "TypeError" in finished.stderr
    assert "midturn.log" in finished.stderr
    assert "Traceback" in log.read_text()
    assert log.read_text().count("\n") == 1
    assert log.stat().st_mode & 0o777 == 0o600


def test_second_ctrl_c_exits_at_once(midturn: CommandLine) -> None:
    script = f"trap '' TERM; touch {midturn.root}/note; sleep 60"
    midturn.configure(
        f'[conversation.tools.stubborn]\ncommand = ["sh", "-c", "{script}"]\nrun = "unattended"\n'
    )

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("stubborn")), "Ship it"
    ) as terminal:
        terminal.wait_until((midturn.root / "note").exists, "the tool")
        terminal.send("\x03")
        terminal.send("\x03")
        assert terminal.wait_for_end() == 130


def test_debug_log_has_requests_and_responses(midturn: CommandLine) -> None:
    midturn.ok(
        "query",
        "-m",
        midturn.script({"text": "Hello."}),
        "Wie geht\x1b[31m's?",
        MIDTURN_LOG="debug",
        ANTHROPIC_API_KEY="sk-secret",
    )

    text = (midturn.state / "midturn.log").read_text()
    assert '"messages": [{"type": "chat_request", "content": "Wie geht' in text
    assert '"text": "Hello."' in text
    assert "\x1b" not in text
    assert "sk-secret" not in text


def test_an_unknown_level_is_a_usage_error(midturn: CommandLine) -> None:
    finished = midturn.run("inbox", MIDTURN_LOG="loud")

    assert finished.status == 2
    assert "expected debug, info, warning, error" in finished.stderr


def test_no_log_without_errors(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "hi")

    assert not (midturn.state / "midturn.log").exists()
    assert not [found for found in midturn.home.glob("state/*") if found != midturn.state]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_fatal_signal_at_the_end_of_a_turn_ends_the_command(number: signal.Signals) -> None:
    """A command that continues turn after turn would never end, because the signal is sent
    once.
    """
    found = [signal.getsignal(one) for one in (number, signal.SIGINT)]

    async def turn() -> None:
        signal.raise_signal(number)

    with pytest.raises(SystemExit) as left:
        asyncio.run(with_signals(turn, lambda: None))

    assert left.value.code == 128 + number
    assert [signal.getsignal(one) for one in (number, signal.SIGINT)] == found


def test_ctrl_c_at_the_end_of_a_turn_is_handled() -> None:
    heard: list[str] = []

    async def turn() -> str:
        signal.raise_signal(signal.SIGINT)
        return "over"

    assert asyncio.run(with_signals(turn, lambda: heard.append("Ctrl-C"))) == "over"
    assert heard == ["Ctrl-C"]
