"""`midturn trust`, and the limits of an untrusted workspace."""

from __future__ import annotations

import hashlib

import pytest

from support.cli import CommandLine, calls
from support.golden import assert_golden, golden

FILE = '[conversation.tools.hello]\ncommand = ["echo", "hi"]\nrun = "unattended"\n'


def test_untrusted_keys_have_no_effect_and_are_a_usage_error_when_detached(
    midturn: CommandLine,
) -> None:
    midturn.workspace_file(FILE)

    finished = midturn.run("query", "-m", midturn.script(calls("hello")), "hi")

    assert finished.status == 2
    assert finished.stderr.startswith(
        "midturn: .midturn/config.toml is not trusted, so `conversation.tools.hello.command`"
    )
    assert "`midturn trust`" in finished.stderr
    assert midturn.conversations() == []


def test_trust_shows_the_enabled_keys_and_approves_the_file(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    shown = midturn.ok("trust", "--yes").stdout

    assert "conversation.tools.hello.command" in shown
    assert "runs a program" in shown
    assert ".midturn/config.toml:2" in shown
    assert hashlib.sha256(FILE.encode()).hexdigest() in shown
    assert (
        midturn.ok("query", "-m", midturn.script(calls("hello")), "hi").stderr
        == "· hello\n· hello: ok\n"
    )
    assert "Nothing needs your approval." in midturn.ok("trust").stdout


MANY = """
[assistant]
model.id = "anthropic/claude-sonnet-4-5"
system_prompt = "You are careful."
[conversation.tools.deploy]
command = ["make", "deploy", "--environment", "production"]
parameters.environment = { type = "string", enum = ["staging", "production"], required = true }
[conversation.tools.build]
command = ["make"]
"""


@pytest.mark.parametrize(("mode", "ready"), [("plain", "help:"), ("rich", "all keys")])
@pytest.mark.parametrize("columns", [80, 40])
def test_trust_wraps_between_words(
    midturn: CommandLine, columns: int, mode: str, ready: str
) -> None:
    midturn.workspace_file(MANY)
    midturn.accept_keys_at_once()
    name = f"{mode}_{columns}/trust"

    with midturn.on_a_terminal("trust", size=(columns, 60), plain=mode == "plain") as terminal:
        terminal.wait_for(ready)
        drawn = terminal.framed_as(golden(name), "trust")
        terminal.send("\x03")
        assert terminal.wait_for_end() == 130

    assert_golden(name, drawn)


def test_many_untrusted_keys_are_listed_by_effect(midturn: CommandLine) -> None:
    midturn.workspace_file(MANY)

    finished = midturn.run("query", "hi")

    assert finished.status == 2
    assert (
        finished.stderr
        == "midturn: .midturn/config.toml is not trusted, so 7 keys have no effect:\n  selects the"
        " model, which reads the conversation: assistant.model.id\n  gives instructions to a"
        " model: assistant.system_prompt\n  runs a program: conversation.tools.deploy.command,"
        " conversation.tools.build.command\n  changes the arguments of a tool:"
        " conversation.tools.deploy.parameters.environment.type,"
        " conversation.tools.deploy.parameters.environment.enum,"
        " conversation.tools.deploy.parameters.environment.required\nTo review and approve it:"
        " `midturn trust`\n"
    )


def test_a_change_needs_a_new_approval(midturn: CommandLine) -> None:
    file = midturn.workspace_file(FILE)
    midturn.ok("trust", "--yes")
    file.write_text(FILE.replace("hi", "ho"))

    assert midturn.run("query", "-m", midturn.script(), "hi").status == 2


def test_trust_without_a_terminal_does_not_ask(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    finished = midturn.run("trust")

    assert finished.status == 2
    assert "To approve without confirmation: `midturn trust --yes`" in finished.stderr


def test_a_hash_in_the_environment_trusts_a_file(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    midturn.ok(
        "query",
        "-m",
        midturn.script(calls("hello")),
        "hi",
        MIDTURN_TRUST=hashlib.sha256(FILE.encode()).hexdigest(),
    )


def test_trust_is_asked_for_at_the_terminal(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)
    midturn.accept_keys_at_once()

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

    assert "Answer: (no answer)" in terminal.text
    assert midturn.run("query", "--dry-run", "hi").status == 2


def test_attached_run_reports_ignored_keys_and_continues(midturn: CommandLine) -> None:
    midturn.workspace_file(FILE)

    with midturn.on_a_terminal("query", "-m", midturn.script(), "hi") as terminal:
        assert terminal.wait_for_end() == 0

    assert "is not trusted, so" in terminal.text
    assert "Done." in terminal.text


def test_linked_workspace_does_not_inherit_trust(midturn: CommandLine) -> None:
    """The approval of the other workspace would run this clone's scripts."""
    midturn.workspace_file(
        '[conversation.tools.hello]\ncommand = ["./hello"]\nrun = "unattended"\n'
    )
    midturn.ok("trust", "--yes")
    clone = midturn.root.parent / "clone"
    clone.mkdir()
    (clone / ".midturn").symlink_to(midturn.root / ".midturn")
    (clone / "hello").write_text("#!/bin/sh\ntouch ran\n")
    (clone / "hello").chmod(0o755)
    model = midturn.script(calls("hello"))
    midturn.root = clone

    finished = midturn.run("query", "-m", model, "hi")

    assert finished.status != 0
    assert "is a symbolic link. A workspace must contain the directory itself" in finished.stderr
    assert not (clone / "ran").exists()


def test_the_script_behind_a_command_is_shown_and_approved_with_it(midturn: CommandLine) -> None:
    midturn.workspace_file(
        '[conversation.tools.hello]\ncommand = ["./hello"]\nrun = "unattended"\n'
    )
    script = midturn.root / "hello"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)

    assert (
        f"hello  0755 {hashlib.sha256(script.read_bytes()).hexdigest()}"
        in midturn.ok("trust", "--yes").stdout
    )
    script.write_text("#!/bin/sh\ntouch ran\n")

    assert midturn.run("query", "-m", midturn.script(calls("hello")), "hi").status == 2
    assert not (midturn.root / "ran").exists()


def test_repository_cannot_script_the_model(midturn: CommandLine) -> None:
    model = midturn.script(calls("hello"))
    midturn.configure(
        '[conversation.tools.hello]\ncommand = ["touch", "ran"]\nrun = "unattended"\n'
    )
    midturn.workspace_file(f'assistant.model.id = "{model}"\n')

    finished = midturn.run("query", "hi")

    assert finished.status == 2
    assert "`assistant.model.id` has no effect" in finished.stderr
    assert not (midturn.root / "ran").exists()


def test_files_written_by_init_and_config_set_are_approved(midturn: CommandLine) -> None:
    (midturn.root / ".midturn").rmdir()
    midturn.ok("init")
    midturn.ok("config", "set", "conversation.tools.hello.command", '["./hello"]')

    assert "conversation.tools.hello" in midturn.ok("config", "show").stdout
    assert midturn.ok("trust").stdout.startswith(".midturn/config.toml (approved)\n")
