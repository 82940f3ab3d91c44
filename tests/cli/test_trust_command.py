"""`midturn trust`, and what an untrusted workspace may do."""

from __future__ import annotations

import hashlib

from support.cli import CommandLine, calls

FILE = '[conversation.tools.hello]\ncommand = ["echo", "hi"]\nrun = "unattended"\n'


def test_what_needs_approval_has_no_effect_and_detached_it_is_a_usage_error(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    finished = midturn.run("query", "-m", midturn.script(calls("hello")), "hi")

    assert finished.status == 2
    assert finished.stderr.startswith("midturn: .midturn/config.toml is not trusted, so `conversation.tools.hello.command`")
    assert "`midturn trust`" in finished.stderr
    assert midturn.conversations() == []


def test_trust_shows_what_a_file_enables_and_approves_it(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    shown = midturn.ok("trust", "--yes").stdout

    assert "conversation.tools.hello.command" in shown
    assert "runs a program" in shown
    assert ".midturn/config.toml:2" in shown
    assert hashlib.sha256(FILE.encode()).hexdigest() in shown
    assert midturn.ok("query", "-m", midturn.script(calls("hello")), "hi").stderr == "· hello\n· hello: ok\n"
    assert "Nothing waits for your approval." in midturn.ok("trust").stdout


def test_a_change_needs_a_new_approval(midturn: CommandLine) -> None:
    file = midturn.workspace_file(FILE)
    midturn.ok("trust", "--yes")
    file.write_text(FILE.replace("hi", "ho"))

    assert midturn.run("query", "-m", midturn.script(), "hi").status == 2


def test_without_a_terminal_trust_asks_nobody(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    finished = midturn.run("trust")

    assert finished.status == 2
    assert "`midturn trust --yes` approves without asking." in finished.stderr


def test_a_hash_in_the_environment_trusts_a_file(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    midturn.ok("query", "-m", midturn.script(calls("hello")), "hi", MIDTURN_TRUST=hashlib.sha256(FILE.encode()).hexdigest())


def test_trust_is_asked_for_at_the_terminal(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)
    midturn.hasty()

    with midturn.on_a_terminal("trust") as terminal:
        terminal.wait_at(": ")
        terminal.send("n\r")
        assert terminal.wait_for_end() == 1
    with midturn.on_a_terminal("trust") as terminal:
        terminal.wait_for("Approve this file?")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert midturn.ok("trust").stdout.startswith(".midturn/config.toml (approved)\n")


def test_ctrl_c_approves_nothing(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    with midturn.on_a_terminal("trust") as terminal:
        terminal.wait_at(": ")
        terminal.send("\x03")
        assert terminal.wait_for_end() == 130

    assert midturn.run("query", "--dry-run", "hi").status == 2


def test_attached_what_is_ignored_is_said_and_the_turn_goes_on(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    with midturn.on_a_terminal("query", "-m", midturn.script(), "hi") as terminal:
        assert terminal.wait_for_end() == 0

    assert "is not trusted, so" in terminal.text
    assert "Done." in terminal.text
