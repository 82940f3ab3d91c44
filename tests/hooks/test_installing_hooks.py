"""`midturn hook install | uninstall | status`: editing the settings files of other programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.hooks.clients import BUILT_IN
from midturn.integrations.hooks.installing import InstalledHook, install, installed, wanted
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


def test_install_keeps_existing_settings_and_can_be_undone(
    midturn: CommandLine, settings: Path
) -> None:
    settings.write_text(json.dumps(THEIRS))

    midturn.ok("hook", "install", "claude")
    installed = json.loads(settings.read_text())
    midturn.ok("hook", "uninstall", "claude")

    assert settings.read_text() == json.dumps(THEIRS)
    assert installed["hooks"]["Stop"][0] == THEIRS["hooks"]["Stop"][0]
    assert installed["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"] == 86_400
    assert json.loads(settings.read_text()) == THEIRS


def test_install_is_idempotent(midturn: CommandLine, settings: Path) -> None:
    midturn.ok("hook", "install", "claude")
    before = settings.read_text()

    again = midturn.ok("hook", "install", "claude")

    assert "already" in again.stdout
    assert settings.read_text() == before


def test_uninstall_keeps_other_hooks_of_a_group(midturn: CommandLine, settings: Path) -> None:
    theirs = {"type": "command", "command": "say"}
    mixed = {
        "hooks": {
            "Stop": [
                {
                    "matcher": "x",
                    "hooks": [{"type": "command", "command": "midturn hook claude"}, theirs, 7],
                }
            ]
        }
    }
    settings.write_text(json.dumps(mixed))

    midturn.ok("hook", "uninstall", "claude")

    assert json.loads(settings.read_text()) == {
        "hooks": {"Stop": [{"matcher": "x", "hooks": [theirs, 7]}]}
    }


@pytest.mark.parametrize(
    "content", ["{ not json", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}']
)
def test_file_without_settings_is_not_changed(
    midturn: CommandLine, settings: Path, content: str
) -> None:
    settings.write_text(content)

    refused = midturn.run("hook", "install", "claude")

    assert refused.status == 2
    assert str(settings) in refused.stderr.replace("\n", "")
    assert settings.read_text() == content


def test_status_shows_the_effect_of_a_killed_hook(midturn: CommandLine, settings: Path) -> None:
    before = midturn.ok("hook", "status").stdout
    midturn.ok("hook", "install", "claude")
    after = midturn.ok("hook", "status", "claude").stdout

    assert "Claude Code: not connected." in before
    assert "killed" not in before, "there is no hook"
    assert f"in {settings}." in after
    assert "If the hook is killed, Claude Code's own dialog decides" in after


def test_project_settings_are_separate(midturn: CommandLine, settings: Path) -> None:
    midturn.ok("hook", "install", "claude", "--project")

    assert (midturn.root / ".claude" / "settings.json").exists()
    assert not settings.exists()


def test_symlinked_settings_stay_symlinks(midturn: CommandLine, settings: Path) -> None:
    real = midturn.home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    settings.symlink_to(real)

    midturn.ok("hook", "install", "claude")

    assert settings.is_symlink()
    assert "PermissionRequest" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_unknown_agent_is_a_usage_error(midturn: CommandLine) -> None:
    assert midturn.run("hook", "install", "clode").status == 2


# Ownership of the file
# --------------------------------------------------------------------------------------------------

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
    [
        COMMENTED,
        COMMENTED.replace(b"\n", b"\r\n"),
        b"{}",
        b"{\n}\n",
        b"",
        json.dumps(THEIRS).encode(),
        b'{ "hooks": {"Stop": []} }',
    ],
)
def test_settings_are_parsed_like_the_agent_and_restored_exactly(
    midturn: CommandLine, settings: Path, content: bytes
) -> None:
    settings.write_bytes(content)

    midturn.ok("hook", "install", "claude")
    between = settings.read_bytes()
    midturn.ok("hook", "install", "claude", "--policy", "defer")
    status = midturn.ok("hook", "status", "claude").stdout
    midturn.ok("hook", "uninstall", "claude")

    assert ": connected (" in status
    assert settings.read_bytes() == content
    if content.startswith(COMMENTED[:3]):
        lines = between.splitlines()
        assert [line for line in lines if b"//" in line or b"/*" in line] == [
            line for line in content.splitlines() if b"/" in line
        ]
        assert all(line.endswith(b"\r") for line in between.split(b"\n")[:-1]) == (b"\r" in content)


def test_uninstall_from_an_edited_file_removes_only_our_lines(
    midturn: CommandLine, settings: Path
) -> None:
    settings.write_bytes(COMMENTED)
    midturn.ok("hook", "install", "claude")
    settings.write_bytes(settings.read_bytes().replace(b"opus", b"haiku"))

    midturn.ok("hook", "uninstall", "claude")

    assert settings.read_bytes() == COMMENTED.replace(b"opus", b"haiku")


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize("agent", ["claude", "copilot"])
def test_created_file_is_removed(midturn: CommandLine, agent: str, touched: bool) -> None:  # noqa: FBT001
    file = BUILT_IN[agent].installation(midturn.home, None, {}).file
    midturn.ok("hook", "install", agent)
    if touched:
        file.write_text(file.read_text() + "\n")

    midturn.ok("hook", "uninstall", agent)

    assert not file.exists()


def test_unwritable_settings_are_printed(midturn: CommandLine, settings: Path) -> None:
    settings.write_text("{ not json")

    refused = midturn.run("hook", "install", "claude")
    printed = midturn.ok("hook", "install", "claude", "--print")

    assert "`midturn hook install AGENT --print` prints the text to add" in " ".join(
        refused.stderr.split()
    )
    assert set(printed.json["hooks"]) == {
        entry.event for entry in BUILT_IN["claude"].installation(midturn.home, None, {}).entries
    }
    assert str(settings) in printed.stderr.replace("\n", "")
    assert settings.read_text() == "{ not json"


@pytest.mark.parametrize("agent", BUILT_IN)
def test_project_settings_contain_the_command_without_a_local_path(
    midturn: CommandLine, agent: str
) -> None:
    midturn.ok("hook", "install", agent, "--project")
    file = BUILT_IN[agent].installation(midturn.home, midturn.root, {}).file

    assert f'"midturn hook {agent}"' in file.read_text()
    assert sys.prefix not in file.read_text()
    midturn.ok("hook", "uninstall", agent, "--project")
    assert not file.exists()


def test_hook_imports_nothing_from_the_working_directory(
    midturn: CommandLine, settings: Path
) -> None:
    clone = midturn.root
    for name in ("click", "asyncio", "msgspec"):
        (clone / f"{name}.py").write_text("import pathlib; pathlib.Path('loaded').touch()\n")
    midturn.ok(
        "hook", "install", "claude", PATH="/usr/bin:/bin"
    )  # the script is not in PATH: the hook uses the interpreter's path
    (clone / "loaded").unlink(missing_ok=True)

    (hooks,) = json.loads(settings.read_text())["hooks"]["Stop"]
    ran = subprocess.run(
        hooks["hooks"][0]["command"],
        shell=True,
        input=b"{}",
        cwd=clone,
        env=midturn.environment,
        check=False,
    )

    assert ran.returncode == 0
    assert not (clone / "loaded").exists()


# Outdated hooks
# --------------------------------------------------------------------------------------------------

HERE = f"{sys.executable} -P -m midturn hook"


@pytest.fixture(params=BUILT_IN)
def key(request: pytest.FixtureRequest) -> str:
    return request.param


def found_of(
    key: str, home: Path, *, project: bool
) -> tuple[Path, list[InstalledHook], list[InstalledHook]]:
    """Return the settings file of an agent, the hooks in it, and the hooks that this midturn
    writes.
    """
    installation = BUILT_IN[key].installation(home, home / "project" if project else None, {})
    return (
        installation.file,
        [*installed(installation, key)],
        [*wanted(installation, f"{HERE} {key}")],
    )


@pytest.mark.parametrize("project", [False, True])
def test_installed_hooks_match_the_current_version(key: str, tmp_path: Path, project: bool) -> None:  # noqa: FBT001
    installation = BUILT_IN[key].installation(
        tmp_path, tmp_path / "project" if project else None, {}
    )
    assert install(installation, f"{HERE} {key}", key)

    _, found, expected = found_of(key, tmp_path, project=project)

    assert found == expected
    assert faults(found, expected) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "/usr/bin/env midturn hook {key}",
            "they run `/usr/bin/env midturn hook {key}` instead of `",
        ),
        (
            "/gone/bin/python -m midturn hook {key}",
            "they run /gone/bin/python, which no longer exists",
        ),
        (
            "'/gone/my bin/midturn' hook {key}",
            "they run /gone/my bin/midturn, which no longer exists",
        ),
        ("midturn hook {key} 'x", "they run midturn hook {key} 'x, which no longer exists"),
    ],
)
def test_outdated_hooks_are_detected_and_replaced(
    key: str, tmp_path: Path, command: str, said: str
) -> None:
    installation = BUILT_IN[key].installation(tmp_path, None, {})
    install(installation, command.format(key=key), key)
    _, found, expected = found_of(key, tmp_path, project=False)

    (why,) = faults(found, expected)
    again = install(installation, f"{HERE} {key}", key)

    assert why.startswith(said.format(key=key))
    assert again
    assert found_of(key, tmp_path, project=False)[1] == expected


def test_hook_timeout_may_be_edited_manually(key: str, tmp_path: Path) -> None:
    installation = BUILT_IN[key].installation(tmp_path, None, {})
    install(installation, f"{HERE} {key} --wait 1.5", key)
    _, found, expected = found_of(key, tmp_path, project=False)

    assert found != expected
    assert faults(found, expected) == []


def test_script_with_a_missing_interpreter_is_reported_as_missing(tmp_path: Path) -> None:
    script = tmp_path / "midturn"
    script.write_text("#!/gone/venv/bin/python\n")
    script.chmod(0o700)
    entry = BUILT_IN["codex"].installation(tmp_path, None, {}).entries[0]

    assert faults(
        [InstalledHook(entry, f"{script} hook codex")], [InstalledHook(entry, f"{HERE} codex")]
    ) == ["they run /gone/venv/bin/python, which no longer exists"]


def test_missing_duplicate_and_wrong_events_are_reported_and_fixed(
    key: str, tmp_path: Path
) -> None:
    installation = BUILT_IN[key].installation(tmp_path, None, {})
    install(installation, f"{HERE} {key}", key)
    settings = json.loads(installation.file.read_text())
    first, second, *_ = (entry.event for entry in installation.entries)
    hooks = settings["hooks"]
    hooks["OfLongAgo"] = hooks.pop(first)
    hooks[second] = [
        {**hooks[second][0], "matcher": "Nothing"},
        *hooks[second],
        {"command": "theirs"},
    ]
    installation.file.write_text(json.dumps(settings))
    _, found, expected = found_of(key, tmp_path, project=False)

    said = faults(found, expected)
    install(installation, f"{HERE} {key}", key)

    assert said == [
        f"{first} is missing",
        "OfLongAgo is no longer used by midturn",
        f"{second} is installed twice",
        f"{second} has a different matcher or timeout",
    ]
    assert sorted(map(str, found_of(key, tmp_path, project=False)[1])) == sorted(map(str, expected))
    assert json.loads(installation.file.read_text())["hooks"][second][0] == {"command": "theirs"}


def test_status_shows_how_to_update_outdated_hooks(midturn: CommandLine, settings: Path) -> None:
    midturn.ok("hook", "install", "claude")
    midturn.ok("hook", "install", "claude", "--project", "--policy", "defer")
    for file in (settings, midturn.root / ".claude" / "settings.json"):
        file.write_text(
            file.read_text()
            .replace(sys.executable, "/gone/python")
            .replace('"midturn hook', '"/gone/python -m midturn hook')
        )

    outdated = midturn.run("hook", "status", "claude")
    for again in ((), ("--project", "--policy", "defer")):
        assert (
            f"To replace them: `{' '.join(['midturn hook install claude', *again])}`\n"
            in outdated.stdout
        )
        midturn.ok("hook", "install", "claude", *again)
    named = midturn.home / "bin" / "midturn"
    named.parent.mkdir()
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    mended = midturn.ok(
        "hook", "status", "claude", PATH=f"{named.parent}:{midturn.environment['PATH']}"
    ).stdout

    assert outdated.status == 1
    assert (
        outdated.stdout.count(
            "the hooks are outdated: they run /gone/python, which no longer exists"
        )
        == 2
    )
    assert mended.count(": connected (") == 2


def test_unreadable_settings_do_not_hide_other_agents(midturn: CommandLine, settings: Path) -> None:
    settings.write_text("{ not json")
    midturn.ok("hook", "install", "codex")

    status = midturn.run("hook", "status")

    assert status.status == 2
    assert str(settings) in status.stderr
    assert "Codex: connected (" in status.stdout


def test_installing_for_opencode_names_the_bridge(midturn: CommandLine) -> None:
    refused = midturn.run("hook", "install", "opencode")

    assert refused.status == 2
    assert (
        "opencode has no hooks to install. Run `midturn hook opencode` next to it instead."
        in " ".join(refused.stderr.split())
    )


@pytest.mark.parametrize(
    ("agent", "off", "named"),
    [
        ("claude", {"disableAllHooks": True}, "disableAllHooks"),
        ("gemini", {"hooksConfig": {"enabled": False}}, "hooksConfig.enabled"),
        ("claude", {"disableAllHooks": False}, ""),
    ],
)
def test_disabled_hooks_are_reported(
    midturn: CommandLine, agent: str, off: dict[str, Any], named: str
) -> None:
    file = midturn.home / f".{agent}" / "settings.json"
    midturn.ok("hook", "install", agent)
    file.write_text(json.dumps({**json.loads(file.read_text()), **off}))

    status = midturn.run("hook", "status", agent)

    assert status.status == (1 if named else 0)
    assert (f"all hooks are disabled by `{named}` in {file}." in status.stdout) == bool(named)
    assert (": connected (" in status.stdout) != bool(named)
