"""Agent settings in a repository that are not regular files: links to the user's files, pipes,
devices, directories, loops.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import CommandLine

CANARY = "canary-of-a-secret"
OURS = {
    "hooks": {
        "PermissionRequest": [
            {"hooks": [{"type": "command", "command": "midturn hook claude", "timeout": 60}]}
        ]
    }
}


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def victim(midturn: CommandLine) -> Path:
    """Return a settings file of the user with midturn hooks."""
    file = midturn.home / "victim.json"
    if not file.exists():
        file.write_text(json.dumps({**OURS, "token": CANARY}))
    return file


def settings(midturn: CommandLine) -> Path:
    folder = midturn.root / ".claude"
    folder.mkdir(exist_ok=True)
    return folder / "settings.json"


def _folder_elsewhere(midturn: CommandLine) -> None:
    elsewhere = midturn.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "settings.json").hardlink_to(victim(midturn))
    (midturn.root / ".claude").symlink_to(elsewhere)


def _link_twice(midturn: CommandLine) -> None:
    (midturn.root / "inner").symlink_to(victim(midturn))
    settings(midturn).symlink_to("../inner")


def _loop(midturn: CommandLine) -> None:
    settings(midturn).symlink_to("settings.json")


def _deep(midturn: CommandLine) -> None:
    settings(midturn).write_text('{"hooks":' * 100_000)


def _sparse(midturn: CommandLine) -> None:
    with settings(midturn).open("wb") as file:
        file.truncate(1 << 40)


ATTACKS: dict[str, Callable[[CommandLine], object]] = {
    "a link to the user's own": lambda midturn: settings(midturn).symlink_to(victim(midturn)),
    "a link by way of another": _link_twice,
    "a folder that is a link": _folder_elsewhere,
    "a second name of the user's own": lambda midturn: settings(midturn).hardlink_to(
        victim(midturn)
    ),
    "a link to what is not there yet": lambda midturn: settings(midturn).symlink_to(
        midturn.home / "new.json"
    ),
    "a link to itself": _loop,
    "a link to a device that never ends": lambda midturn: settings(midturn).symlink_to("/dev/zero"),
    "a link to the terminal": lambda midturn: settings(midturn).symlink_to("/dev/tty"),
    "a link to the memory of a process": lambda midturn: settings(midturn).symlink_to(
        "/proc/self/environ"
    ),
    "a pipe": lambda midturn: os.mkfifo(settings(midturn)),
    "a folder": lambda midturn: settings(midturn).mkdir(),
    "a file of a terabyte": _sparse,
    "nesting without end": _deep,
}
COMMANDS = [
    ("hook", "status"),
    ("hook", "status", "--project"),
    ("hook", "install", "claude", "--project", "--print"),
    ("hook", "install", "claude", "--project"),
    ("hook", "uninstall", "claude", "--project"),
    ("doctor",),
    ("mcp", "--print-config", "claude"),
]


@pytest.mark.parametrize("name", ATTACKS)
def test_special_files_as_settings_are_not_read_written_or_waited_for(
    midturn: CommandLine, name: str
) -> None:
    before = victim(midturn).read_bytes()
    ATTACKS[name](midturn)

    for command in COMMANDS:
        finished = midturn.run(*command, KEY=CANARY)
        said = finished.stdout + finished.stderr
        assert "Traceback" not in said, (command, finished)
        assert "midturn: unexpected error (" not in said, (command, finished)
        assert CANARY not in said, (command, finished)

    assert victim(midturn).read_bytes() == before
    assert not (midturn.home / "new.json").exists()


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "copilot"])
def test_linked_agent_directory_cannot_leave_the_project(midturn: CommandLine, agent: str) -> None:
    outside = midturn.home / "outside"
    outside.mkdir()
    for folder in (".claude", ".codex", ".gemini", ".qwen", ".github", ".copilot"):
        (midturn.root / folder).symlink_to(outside)

    finished = midturn.run("hook", "install", agent, "--project")

    assert finished.status == 2, finished
    assert "symbolic link" in finished.stderr
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "./midturn hook claude",
        "sh evil.sh; midturn hook claude",
        "/tmp/x/midturn hook claude",
        "midturn hook claude; touch ran",
        "PATH=. midturn hook claude",
    ],
)
def test_hook_that_resembles_ours_is_not_reported_as_ours(
    midturn: CommandLine, command: str
) -> None:
    """For example a link next to it, or a script before it."""
    (midturn.root / "midturn").symlink_to("/bin/true")
    midturn.ok("hook", "install", "claude", "--project")
    file = settings(midturn)
    file.write_text(file.read_text().replace("midturn hook claude", command))

    finished = midturn.run("hook", "status", "claude", "--project")

    assert finished.status == 1, finished
    assert "outdated" in finished.stdout
    midturn.ok("hook", "install", "claude", "--project")
    assert command not in file.read_text()


def test_users_own_settings_link_is_kept(midturn: CommandLine) -> None:
    dotfiles = midturn.home / "dotfiles.json"
    dotfiles.write_text('{"model": "mine"}')
    dotfiles.chmod(0o640)
    own = midturn.home / ".claude" / "settings.json"
    own.parent.mkdir()
    own.symlink_to(dotfiles)

    midturn.ok("hook", "install", "claude")
    assert own.is_symlink()
    assert dotfiles.stat().st_mode & 0o777 == 0o640
    midturn.ok("hook", "uninstall", "claude")

    assert own.is_symlink()
    assert dotfiles.read_text() == '{"model": "mine"}'


def _runs(midturn: CommandLine, command: str) -> None:
    midturn.ok("hook", "install", "claude", "--project")
    file = settings(midturn)
    file.write_text(file.read_text().replace("midturn hook claude", f"{command} hook claude"))


def _at_home(make: Callable[[Path], object]) -> Callable[[CommandLine], object]:
    """Return a function that replaces the user's own settings."""

    def attack(midturn: CommandLine) -> None:
        (midturn.home / ".claude").mkdir()
        make(midturn.home / ".claude" / "settings.json")

    return attack


def _folder_at_home(to: str) -> Callable[[CommandLine], object]:
    return lambda midturn: (midturn.home / ".claude").symlink_to(to)


def _program(make: Callable[[Path], object]) -> Callable[[CommandLine], object]:
    """Return a function that replaces the program that a project's hooks run."""

    def attack(midturn: CommandLine) -> None:
        make(midturn.root / "midturn")
        _runs(midturn, "./midturn")

    return attack


def _linked_pipe(place: Path) -> None:
    os.mkfifo(place.with_name("pipe"), 0o755)
    place.symlink_to("pipe")


def _run_by_itself(place: Path) -> None:
    place.write_text(f"#!{place}\n")
    place.chmod(0o755)


def _linked_to_nothing(midturn: CommandLine) -> None:
    """The directory is a dangling link; nothing is created at its target."""
    (midturn.home / ".claude").symlink_to(midturn.home / "nowhere" / "deep")


BEHIND: dict[str, Callable[[CommandLine], object]] = {
    "own settings that are a pipe": _at_home(os.mkfifo),
    "own settings that lead to a pipe": _at_home(_linked_pipe),
    "own settings that lead to a device": _at_home(lambda place: place.symlink_to("/dev/zero")),
    "own settings that lead to themselves": _at_home(lambda place: place.symlink_to(place.name)),
    "own settings that lead to a folder": _at_home(lambda place: place.symlink_to("/etc")),
    "own settings that lead to a terminal": _at_home(lambda place: place.symlink_to("/dev/tty")),
    "an own folder that leads to itself": _folder_at_home(".claude"),
    "an own folder that is a device": _folder_at_home("/dev/null"),
    "an own folder that leads nowhere": _linked_to_nothing,
    "an own folder that is of the system": _folder_at_home("/proc/self"),
    "a program that is a pipe": _program(lambda place: os.mkfifo(place, 0o755)),
    "a program that leads to a pipe": _program(_linked_pipe),
    "a program that leads to a device": _program(lambda place: place.symlink_to("/dev/zero")),
    "a program that leads to itself": _program(lambda place: place.symlink_to(place.name)),
    "a program that is a folder": _program(lambda place: place.mkdir()),
    "a program that is run by itself": _program(_run_by_itself),
    "a program with a name that acts on a terminal": lambda midturn: _runs(
        midturn, "./\\u001b]52;c;aGk=\\u0007midturn"
    ),
}


@pytest.mark.parametrize("name", BEHIND)
def test_special_files_behind_links_are_not_waited_for(midturn: CommandLine, name: str) -> None:
    BEHIND[name](midturn)

    for command in (
        ("hook", "status"),
        ("hook", "status", "claude", "--project"),
        ("doctor",),
        ("hook", "uninstall", "claude"),
    ):
        finished = midturn.run(*command)
        said = finished.stdout + finished.stderr
        assert "Traceback" not in said, (command, finished)
        assert "midturn: unexpected error (" not in said, (command, finished)
        assert "\x1b" not in said, (command, finished)
    assert not (midturn.home / "nowhere").exists()
    assert midturn.run("hook", "uninstall", "claude", "--project").status == 0
    assert "hook claude" not in (
        settings(midturn).read_text() if settings(midturn).exists() else ""
    )
