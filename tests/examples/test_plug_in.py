"""The package in `examples/plug-in`, installed into a fresh environment, and packages that are
broken or claim existing names.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import sysconfig
import textwrap
import tomllib
import venv
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.documents import ROOT
from support.waiting import until

PACKAGE = ROOT / "examples" / "plug-in"
PLAY = {"replies": [{"calls": [{"name": "on_call"}]}, {"text": "Done."}]}


class Environment:
    """A fresh environment with midturn and further installed packages."""

    def __init__(self, path: Path) -> None:
        venv.create(path / "env", with_pip=False)
        self.home, self.python = path, path / "env" / "bin" / "python"
        found = self.run("-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
        self.packages = Path(found.stdout.strip())
        (self.packages / "here.pth").write_text(
            f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
        )

    def install(self, package: Path) -> None:
        """Build a wheel of a package and install it."""
        wheels = self.home / "wheels"
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
            cwd=package,
            check=True,
            capture_output=True,
        )
        for wheel in wheels.glob("*.whl"):
            subprocess.run(
                [sys.executable, "-m", "zipfile", "-e", str(wheel), str(self.packages)], check=True
            )

    def install_entry_point(
        self, package: str, group: str, name: str, home: str, source: str = ""
    ) -> None:
        """Install a package of one module that registers an entry point."""
        module = home.partition(":")[0]
        (self.packages / f"{module}.py").write_text(source)
        info = self.packages / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {home}\n")

    def midturn(
        self, *arguments: str, says: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run("-P", "-m", "midturn", *arguments, says=says, **variables)

    @contextmanager
    def running(self, *arguments: str) -> Generator[None]:
        """Run a command in the background."""
        with subprocess.Popen(
            [self.python, "-P", "-m", "midturn", *arguments], cwd=self.home, env=self._variables()
        ) as process:
            try:
                yield
            finally:
                process.terminate()

    def run(
        self, *arguments: str, says: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        command, given = [self.python, *arguments], {**self._variables(), **variables}
        return subprocess.run(
            command,
            cwd=self.home,
            env=given,
            input=says,
            text=True,
            capture_output=True,
            check=False,
        )

    def _variables(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "MIDTURN", "PYTHON"))
        }
        return {**kept, "HOME": str(self.home), "TEAM_STORES": str(self.home / "stores")}


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the example installed."""
    environment = Environment(tmp_path_factory.mktemp("team"))
    environment.install(PACKAGE)
    return environment


@pytest.fixture
def fresh(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


def suspended_question(environment: Environment) -> dict[str, Any]:
    """Suspend a turn of the package's tool in the package's store; return the open question."""
    (environment.home / "play.json").write_text(json.dumps(PLAY))
    config = environment.home / ".config" / "midturn" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[conversation.tools.on_call]\nplugin = "on_call"\nrun = "unattended"\n')
    ran = environment.midturn(
        "query",
        "--store",
        "team://payments",
        "-m",
        "scripted:play.json",
        "--defer",
        "Who is there?",
    )
    assert ran.returncode == 3, ran.stderr
    (question,) = json.loads(
        environment.midturn("inbox", "--store", "team://payments", "--json").stdout
    )
    return question


def test_its_store_tool_and_command_work_together(team: Environment) -> None:
    question = suspended_question(team)

    assert (question["tool"], question["question"]["text"]) == (
        "on_call",
        "Wake the person on call?",
    )
    assert (team.home / "stores" / "payments").is_dir()
    assert team.midturn("standup", "--store", "team://payments").stdout == "on_call: 1\n"
    answered = team.midturn(
        "answer", question["id"], "yes", "--resume", "--store", "team://payments"
    )
    assert answered.returncode == 0, answered.stderr
    assert team.midturn("standup", "--store", "team://payments").stdout == "Nothing is open.\n"


def test_its_channel_asks_the_user_who_is_paired(fresh: Environment) -> None:
    fresh.install(PACKAGE)
    question, desk, store = (
        suspended_question(fresh),
        fresh.home / "desk",
        ("--store", "team://payments"),
    )
    with (fresh.home / ".config" / "midturn" / "config.toml").open("a") as config:
        config.write(f'[channels.desk]\nkind = "spool"\nfolder = "{desk}"\n')
    code = fresh.midturn("people", "pair", "ana", "spool", *store).stdout

    async def play() -> None:
        await until((desk / "replies").is_dir)
        (fresh.home / "code").write_text(code)
        (fresh.home / "code").rename(desk / "replies" / "hello.txt")
        await until(lambda: [*desk.glob("cards/*.txt")])
        (card,) = desk.glob("cards/*.txt")
        assert "Wake the person on call?" in card.read_text()

        (fresh.home / "no").write_text("no")
        # it may be another user's file
        (desk / "replies" / card.name).hardlink_to(fresh.home / "no")
        (desk / "replies" / "to-a-file-of-hers.txt").symlink_to(fresh.home / "no")
        (fresh.home / "what").write_text("what is this?")
        (fresh.home / "what").rename(desk / "replies" / "unknown.txt")
        await until(lambda: not (desk / "replies" / "unknown.txt").exists())
        assert question["id"] in fresh.midturn("inbox", "--json", *store).stdout

        (fresh.home / "yes").write_text("yes")
        (fresh.home / "yes").rename(desk / "replies" / card.name)
        await until(lambda: "Answered by ana (spool)." in card.read_text())

    with fresh.running("channels", "run", *store):
        asyncio.run(play())
    assert fresh.midturn("inbox", "--json", *store).stdout == "[]\n"


def test_its_store_satisfies_the_store_contract(team: Environment) -> None:
    code = (
        "import midturn, midturn.testing as t; t.check_store_sync(lambda:"
        " midturn.open_store('team://checked'))"
    )

    checked = team.run("-c", code)

    assert checked.returncode == 0, checked.stderr


def test_its_agent_asks_through_hooks_that_are_installed_and_found(team: Environment) -> None:
    installed = team.midturn("hook", "install", "forge")
    assert installed.returncode == 0, installed.stderr
    assert "midturn hook forge" in (team.home / ".forge" / "settings.json").read_text()
    assert "Forge: connected (PermissionRequest)" in team.midturn("hook", "status", "forge").stdout

    call = {
        "hook_event_name": "PermissionRequest",
        "session_id": "s1",
        "cwd": str(team.home),
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    heard = team.midturn("hook", "forge", "--wait", "0", says=json.dumps(call))

    assert json.loads(heard.stdout)["hookSpecificOutput"]["decision"]["behavior"] == "deny", (
        heard.stderr
    )
    assert "Forge" in team.midturn("inbox").stdout


def test_doctor_lists_them_with_their_package(team: Environment) -> None:
    found = {
        row["what"]: row["said"] for row in json.loads(team.midturn("doctor", "--json").stdout)
    }

    for what in ("store team", "agent forge", "command standup", "tool on_call", "channel spool"):
        assert found[what] == "from midturn-team 1.0"


def test_built_in_names_are_not_loaded_from_packages(fresh: Environment) -> None:
    fresh.install_entry_point(
        "thief", "midturn.commands", "inbox", "thief:command", "raise SystemExit('stolen')"
    )

    looked = fresh.midturn("inbox")

    assert (looked.returncode, "stolen" in looked.stderr) == (0, False)


def test_broken_package_is_named_and_affects_nothing_else(fresh: Environment) -> None:
    fresh.install_entry_point(
        "broken",
        "midturn.commands",
        "boom",
        "broken:command",
        "raise RuntimeError('no such thing')",
    )

    failed = fresh.midturn("boom")

    assert failed.returncode == 2
    assert (
        "The command `boom` of broken 1.0 cannot be loaded (RuntimeError: no such thing)."
        in " ".join(failed.stderr.split())
    )
    assert fresh.midturn("--help").returncode == 0
    assert fresh.midturn("inbox").returncode == 0


def test_two_packages_that_claim_one_name_are_both_named(fresh: Environment) -> None:
    for package in ("one", "two"):
        fresh.install_entry_point(
            package,
            "midturn.stores",
            "memo",
            f"{package}_module:open_it",
            "def open_it(*_): raise AssertionError",
        )

    failed = fresh.midturn("inbox", "--store", "memo://x")

    assert failed.returncode == 2
    assert (
        "Several packages add the store `memo://…`: one 1.0 and two 1.0. Uninstall all but one."
        in " ".join(failed.stderr.split())
    )


def test_invalid_plug_in_store_is_refused(fresh: Environment) -> None:
    fresh.install_entry_point(
        "odd", "midturn.stores", "odd", "odd:open_it", "def open_it(address, limits): return 7"
    )

    failed = fresh.midturn("inbox", "--store", "odd://x")

    assert failed.returncode == 2
    assert (
        "The store `odd://…` of odd 1.0 cannot be used: its entry point returned int, which is not a"
        " `ConversationStore`." in " ".join(failed.stderr.split())
    )


def test_cloned_workspace_cannot_load_a_plug_in_tool(fresh: Environment) -> None:
    fresh.install_entry_point(
        "odd", "midturn.tools", "odd", "odd:tool", "import pathlib; pathlib.Path('loaded').touch()"
    )
    clone = fresh.home / ".midturn"
    clone.mkdir()
    (clone / "config.toml").write_text('[conversation.tools.odd]\nplugin = "odd"\n')
    (fresh.home / "play.json").write_text(json.dumps({"replies": [{"text": "Hello."}]}))

    ran = fresh.midturn("query", "-m", "scripted:play.json", "hi")

    assert not (fresh.home / "loaded").exists()
    assert "conversation.tools.odd.plugin" in ran.stderr


def test_guide_shows_the_entry_points_of_the_example() -> None:
    guide = (
        (ROOT / "docs" / "howto" / "plug-ins.md")
        .read_text(encoding="utf-8")
        .partition("| group |")[0]
    )
    shown = textwrap.dedent(
        "\n".join(line for line in guide.splitlines() if line.startswith("    ") or not line)
    )

    declared = tomllib.loads((PACKAGE / "pyproject.toml").read_text())
    assert tomllib.loads(shown)["project"]["entry-points"] == declared["project"]["entry-points"]
