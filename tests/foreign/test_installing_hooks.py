"""`midturn hook install | uninstall | status`: an agent's settings are somebody else's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine

THEIRS: dict[str, Any] = {
    "model": "opus",
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], "PreToolUse": []},
    "permissions": {"allow": ["Bash(ls:*)"]},
}


@pytest.fixture
def settings(midturn: CommandLine) -> Path:
    file = midturn.home / ".claude" / "settings.json"
    file.parent.mkdir()
    return file


def test_installing_keeps_what_is_there_and_can_be_undone(midturn: CommandLine, settings: Path) -> None:
    settings.write_text(json.dumps(THEIRS))

    midturn.ok("hook", "install", "claude")
    installed = json.loads(settings.read_text())
    midturn.ok("hook", "uninstall", "claude")

    assert installed["hooks"]["Stop"][0] == THEIRS["hooks"]["Stop"][0]
    assert installed["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"] == 86_400
    assert json.loads(settings.read_text()) == THEIRS


def test_installing_twice_is_installing_once(midturn: CommandLine, settings: Path) -> None:
    midturn.ok("hook", "install", "claude")
    before = settings.read_text()

    again = midturn.ok("hook", "install", "claude")

    assert "already" in again.stdout
    assert settings.read_text() == before


def test_a_group_that_holds_a_hook_of_somebody_else_too_is_left_alone(midturn: CommandLine, settings: Path) -> None:
    mixed = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "midturn hook claude"}, {"type": "command", "command": "say"}]}]}}
    settings.write_text(json.dumps(mixed))

    midturn.ok("hook", "uninstall", "claude")

    assert json.loads(settings.read_text()) == mixed


@pytest.mark.parametrize("content", ["{ not json", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}'])
def test_settings_that_are_none_are_not_touched(midturn: CommandLine, settings: Path, content: str) -> None:
    settings.write_text(content)

    refused = midturn.run("hook", "install", "claude")

    assert refused.status == 2
    assert str(settings) in refused.stderr.replace("\n", "")
    assert settings.read_text() == content


def test_status_says_what_happens_where_a_hook_is_killed(midturn: CommandLine, settings: Path) -> None:
    before = midturn.ok("hook", "status").stdout
    midturn.ok("hook", "install", "claude")
    after = midturn.ok("hook", "status", "claude").stdout

    assert "Claude Code: asks by itself" in before
    assert f"by {settings}" in after
    assert "If the hook is killed, Claude Code's own dialog decides" in after


def test_a_projects_settings_are_its_own(midturn: CommandLine, settings: Path) -> None:
    midturn.ok("hook", "install", "claude", "--project")

    assert (midturn.root / ".claude" / "settings.json").exists()
    assert not settings.exists()


def test_a_link_of_somebodys_dotfiles_stays_one(midturn: CommandLine, settings: Path) -> None:
    real = midturn.home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    settings.symlink_to(real)

    midturn.ok("hook", "install", "claude")

    assert settings.is_symlink()
    assert "PermissionRequest" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_an_agent_that_there_is_not_is_a_usage_error(midturn: CommandLine) -> None:
    assert midturn.run("hook", "install", "clode").status == 2
