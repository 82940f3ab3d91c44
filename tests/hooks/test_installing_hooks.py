"""`midturn hook install | uninstall | status`: an agent's settings are somebody else's file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.hooks.clients import OURS
from midturn.integrations.hooks.installing import HookFound, install, installed, wanted
from midturn.integrations.hooks.registering import faults
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

    assert settings.read_text() == json.dumps(THEIRS)
    assert installed["hooks"]["Stop"][0] == THEIRS["hooks"]["Stop"][0]
    assert installed["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"] == 86_400
    assert json.loads(settings.read_text()) == THEIRS


def test_installing_twice_is_installing_once(midturn: CommandLine, settings: Path) -> None:
    midturn.ok("hook", "install", "claude")
    before = settings.read_text()

    again = midturn.ok("hook", "install", "claude")

    assert "already" in again.stdout
    assert settings.read_text() == before


def test_of_a_group_that_holds_a_hook_of_somebody_else_too_only_ours_is_taken(midturn: CommandLine, settings: Path) -> None:
    theirs = {"type": "command", "command": "say"}
    mixed = {"hooks": {"Stop": [{"matcher": "x", "hooks": [{"type": "command", "command": "midturn hook claude"}, theirs, 7]}]}}
    settings.write_text(json.dumps(mixed))

    midturn.ok("hook", "uninstall", "claude")

    assert json.loads(settings.read_text()) == {"hooks": {"Stop": [{"matcher": "x", "hooks": [theirs, 7]}]}}


@pytest.mark.parametrize("content", ["{ not json", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}'])
def test_a_file_that_does_not_hold_settings_is_not_touched(midturn: CommandLine, settings: Path, content: str) -> None:
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
    assert "killed" not in before, "there is no hook"
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


# Whose file it is ------------------------------------------------------------------------------------------------------------

COMMENTED = b"""\xef\xbb\xbf{
    // how I like it
    "model": "opus", /* not "haiku" */
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "say // done"}]}, // mine
        ],
        "PermissionRequest": [],
    },
}
"""


@pytest.mark.parametrize(
    "content",
    [COMMENTED, COMMENTED.replace(b"\n", b"\r\n"), b"{}", b"{\n}\n", b"", json.dumps(THEIRS).encode(), b'{ "hooks": {"Stop": []} }'],
)
def test_settings_are_read_as_the_agent_does_and_become_what_they_were(midturn: CommandLine, settings: Path, content: bytes) -> None:
    settings.write_bytes(content)

    midturn.ok("hook", "install", "claude")
    between = settings.read_bytes()
    midturn.ok("hook", "install", "claude", "--policy", "defer")
    status = midturn.ok("hook", "status", "claude").stdout
    midturn.ok("hook", "uninstall", "claude")

    assert "asks through midturn" in status
    assert settings.read_bytes() == content
    if content.startswith(COMMENTED[:3]):
        lines = between.splitlines()
        assert [line for line in lines if b"//" in line or b"/*" in line] == [line for line in content.splitlines() if b"/" in line]
        assert all(line.endswith(b"\r") for line in between.split(b"\n")[:-1]) == (b"\r" in content)


def test_a_file_that_was_touched_since_loses_our_lines_and_nothing_else(midturn: CommandLine, settings: Path) -> None:
    settings.write_bytes(COMMENTED)
    midturn.ok("hook", "install", "claude")
    settings.write_bytes(settings.read_bytes().replace(b"opus", b"haiku"))

    midturn.ok("hook", "uninstall", "claude")

    assert settings.read_bytes() == COMMENTED.replace(b"opus", b"haiku")


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize("agent", ["claude", "copilot"])
def test_a_file_that_we_made_is_removed(midturn: CommandLine, agent: str, touched: bool) -> None:  # noqa: FBT001
    file = OURS[agent].installation(midturn.home, None, {}).file
    midturn.ok("hook", "install", agent)
    if touched:
        file.write_text(file.read_text() + "\n")

    midturn.ok("hook", "uninstall", agent)

    assert not file.exists()


def test_what_cannot_be_written_is_printed(midturn: CommandLine, settings: Path) -> None:
    settings.write_text("{ not json")

    refused = midturn.run("hook", "install", "claude")
    printed = midturn.ok("hook", "install", "claude", "--print")

    assert "`midturn hook install AGENT --print` prints what to add" in " ".join(refused.stderr.split())
    assert set(printed.json["hooks"]) == {entry.event for entry in OURS["claude"].installation(midturn.home, None, {}).entries}
    assert str(settings) in printed.stderr.replace("\n", "")
    assert settings.read_text() == "{ not json"


@pytest.mark.parametrize("agent", OURS)
def test_a_projects_settings_name_the_command_and_no_path_of_this_machine(midturn: CommandLine, agent: str) -> None:
    midturn.ok("hook", "install", agent, "--project")
    file = OURS[agent].installation(midturn.home, midturn.root, {}).file

    assert f'"midturn hook {agent}"' in file.read_text()
    assert sys.prefix not in file.read_text()
    midturn.ok("hook", "uninstall", agent, "--project")
    assert not file.exists()


def test_a_hook_imports_nothing_of_the_directory_that_an_agent_works_in(midturn: CommandLine, settings: Path) -> None:
    clone = midturn.root
    for name in ("click", "asyncio", "msgspec"):
        (clone / f"{name}.py").write_text("import pathlib; pathlib.Path('loaded').touch()\n")
    midturn.ok("hook", "install", "claude", PATH="/usr/bin:/bin")  # no script on the path: hooks name the interpreter
    (clone / "loaded").unlink(missing_ok=True)

    (hooks,) = json.loads(settings.read_text())["hooks"]["Stop"]
    ran = subprocess.run(hooks["hooks"][0]["command"], shell=True, input=b"{}", cwd=clone, env=midturn.environment, check=False)

    assert ran.returncode == 0
    assert not (clone / "loaded").exists()


# What is outdated -----------------------------------------------------------------------------------------------------------

HERE = f"{sys.executable} -P -m midturn hook"


@pytest.fixture(params=OURS)
def key(request: pytest.FixtureRequest) -> str:
    return request.param


def found_of(key: str, home: Path, *, project: bool) -> tuple[Path, list[HookFound], list[HookFound]]:
    """Return where an agent's hooks are, those that are there, and those that this midturn writes."""
    installation = OURS[key].installation(home, home / "project" if project else None, {})
    return installation.file, [*installed(installation, key)], [*wanted(installation, f"{HERE} {key}")]


@pytest.mark.parametrize("project", [False, True])
def test_what_is_installed_is_what_would_be_installed(key: str, tmp_path: Path, project: bool) -> None:  # noqa: FBT001
    installation = OURS[key].installation(tmp_path, tmp_path / "project" if project else None, {})
    assert install(installation, f"{HERE} {key}", key)

    _, found, expected = found_of(key, tmp_path, project=project)

    assert found == expected
    assert faults(found, expected) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/usr/bin/env midturn hook {key}", "they run `/usr/bin/env midturn hook {key}`, and not this midturn's"),
        ("/gone/bin/python -m midturn hook {key}", "they run /gone/bin/python, which is gone"),
        ("'/gone/my bin/midturn' hook {key}", "they run /gone/my bin/midturn, which is gone"),
        ("midturn hook {key} 'x", "they run midturn hook {key} 'x, which is gone"),
    ],
)
def test_hooks_of_another_midturn_are_outdated_and_installing_again_replaces_them(
    key: str, tmp_path: Path, command: str, said: str
) -> None:
    installation = OURS[key].installation(tmp_path, None, {})
    install(installation, command.format(key=key), key)
    _, found, expected = found_of(key, tmp_path, project=False)

    (why,) = faults(found, expected)
    again = install(installation, f"{HERE} {key}", key)

    assert why.startswith(said.format(key=key))
    assert again
    assert found_of(key, tmp_path, project=False)[1] == expected


def test_how_long_a_hook_waits_may_be_changed_by_hand(key: str, tmp_path: Path) -> None:
    installation = OURS[key].installation(tmp_path, None, {})
    install(installation, f"{HERE} {key} --wait 1.5", key)
    _, found, expected = found_of(key, tmp_path, project=False)

    assert found != expected
    assert faults(found, expected) == []


def test_a_script_whose_interpreter_is_gone_is_gone(tmp_path: Path) -> None:
    script = tmp_path / "midturn"
    script.write_text("#!/gone/venv/bin/python\n")
    script.chmod(0o700)
    entry = OURS["codex"].installation(tmp_path, None, {}).entries[0]

    assert faults([HookFound(entry, f"{script} hook codex")], [HookFound(entry, f"{HERE} codex")]) == [
        "they run /gone/venv/bin/python, which is gone"
    ]


def test_events_that_are_missing_twice_there_or_set_up_otherwise_are_named_and_set_right(key: str, tmp_path: Path) -> None:
    installation = OURS[key].installation(tmp_path, None, {})
    install(installation, f"{HERE} {key}", key)
    settings = json.loads(installation.file.read_text())
    first, second, *_ = (entry.event for entry in installation.entries)
    hooks = settings["hooks"]
    hooks["OfLongAgo"] = hooks.pop(first)
    hooks[second] = [{**hooks[second][0], "matcher": "Nothing"}, *hooks[second], {"command": "theirs"}]
    installation.file.write_text(json.dumps(settings))
    _, found, expected = found_of(key, tmp_path, project=False)

    said = faults(found, expected)
    install(installation, f"{HERE} {key}", key)

    assert said == [
        f"{first} is missing",
        "OfLongAgo is not ours any more",
        f"{second} is there twice",
        f"{second} has another matcher or time-out",
    ]
    assert sorted(map(str, found_of(key, tmp_path, project=False)[1])) == sorted(map(str, expected))
    assert json.loads(installation.file.read_text())["hooks"][second][0] == {"command": "theirs"}


def test_status_says_what_to_do_about_outdated_hooks_wherever_they_are(midturn: CommandLine, settings: Path) -> None:
    midturn.ok("hook", "install", "claude")
    midturn.ok("hook", "install", "claude", "--project", "--policy", "defer")
    for file in (settings, midturn.root / ".claude" / "settings.json"):
        file.write_text(file.read_text().replace(sys.executable, "/gone/python").replace('"midturn hook', '"/gone/python -m midturn hook'))

    outdated = midturn.run("hook", "status", "claude")
    for again in ((), ("--project", "--policy", "defer")):
        assert f"`{' '.join(['midturn hook install claude', *again])}` replaces them." in outdated.stdout
        midturn.ok("hook", "install", "claude", *again)
    named = midturn.home / "bin" / "midturn"
    named.parent.mkdir()
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    mended = midturn.ok("hook", "status", "claude", PATH=f"{named.parent}:{midturn.environment['PATH']}").stdout

    assert outdated.status == 1
    assert outdated.stdout.count("its hooks are outdated: they run /gone/python, which is gone") == 2
    assert mended.count("asks through midturn") == 2


def test_settings_that_cannot_be_read_hide_no_other_agent(midturn: CommandLine, settings: Path) -> None:
    settings.write_text("{ not json")
    midturn.ok("hook", "install", "codex")

    status = midturn.run("hook", "status")

    assert status.status == 2
    assert str(settings) in status.stderr
    assert "Codex: asks through midturn" in status.stdout


def test_who_wants_to_install_opencodes_is_told_what_carries_its_questions(midturn: CommandLine) -> None:
    refused = midturn.run("hook", "install", "opencode")

    assert refused.status == 2
    assert "opencode has no hooks to install. Run `midturn hook opencode` beside it" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("agent", "off", "named"),
    [
        ("claude", {"disableAllHooks": True}, "disableAllHooks"),
        ("gemini", {"hooksConfig": {"enabled": False}}, "hooksConfig.enabled"),
        ("claude", {"disableAllHooks": False}, ""),
    ],
)
def test_hooks_that_are_turned_off_are_said_to_be(midturn: CommandLine, agent: str, off: dict[str, Any], named: str) -> None:
    file = midturn.home / f".{agent}" / "settings.json"
    midturn.ok("hook", "install", agent)
    file.write_text(json.dumps({**json.loads(file.read_text()), **off}))

    status = midturn.run("hook", "status", agent)

    assert status.status == (1 if named else 0)
    assert (f"runs no hooks: `{named}` turns all of them off in {file}" in status.stdout) == bool(named)
    assert ("asks through midturn" in status.stdout) != bool(named)
