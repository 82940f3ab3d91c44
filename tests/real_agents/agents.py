"""Agents from npm as the tests run them: own home, dummy keys, a provider on loopback, and no
inherited environment.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from support.cli import CommandLine
from support.fake_provider import FakeProvider
from support.installed import installed

_CODEX_ALONE = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust")
_CODEX = """\
model = "fake"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
"""
_GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"disableAutoUpdate": True},
    "telemetry": {"enabled": False},
}


def with_options(printed: str, *options: str) -> str:
    """Return printed settings with additional options for our server."""
    given = ", ".join(json.dumps(option) for option in ("mcp", *options))
    changed, count = re.subn(r'"mcp"(?=\s*\])', lambda _: given, printed)
    assert count == 1, printed
    return changed


def check_again(tool: str) -> Callable[[str], list[tuple[str, dict[str, Any]]]]:
    """Return a reply that polls for the answer to the earlier question, with the ID from its
    result.
    """

    def calls(request: str) -> list[tuple[str, dict[str, Any]]]:
        found = re.findall(
            r'check_answer \{\\*"id\\*": \\*"([^"\\]+)\\*", \\*"ticket\\*": (\d+)\}', request
        )
        assert found, request[-3000:]
        id, ticket = found[-1]
        return [(tool, {"id": id, "ticket": int(ticket)})]

    return calls


def _nothing(home: Path, url: str) -> None: ...


class Agent(Struct, frozen=True, kw_only=True):
    """An agent program.

    Args:
        key: Name of the agent for `midturn hook`, and of its program.
        package: The npm package with its version.
        headless: Arguments to start it without a terminal.
        resumed: Arguments to continue its last session.
        environment: Its environment variables; `URL` is replaced by the provider's URL.
        tool: Its tool that runs a command, and the arguments besides `command`.
        settle: Function that writes the required settings.
        servers: Settings file for MCP servers.
        asks: Its name for a tool of our server.
        trusting: Further arguments, so that our tools need no permission to ask.
    """

    key: str
    package: str
    headless: Sequence[str]
    resumed: Sequence[str]
    environment: Mapping[str, str]
    tool: tuple[str, Mapping[str, Any]]
    command: str = "command"
    settle: Callable[[Path, str], None] = _nothing
    servers: str = ""
    asks: str = ""
    trusting: Sequence[str] = ()

    def program(self) -> Path:
        """Install the program; raises `Missing`."""
        return installed(self.key, self.package) / self.key

    def call(self, command: str) -> tuple[str, dict[str, Any]]:
        """Return a call that runs a command."""
        name, besides = self.tool
        return name, {self.command: command, **besides}

    def told_of_our_server(self, midturn: CommandLine, *options: str) -> None:
        """Add `midturn mcp` with the settings that midturn prints. `options` are arguments of
        our server.
        """
        file = midturn.home / self.servers
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            with_options(midturn.ok("mcp", "--print-config", self.key).stdout, *options)
        )

    def start(self, midturn: CommandLine, provider: FakeProvider) -> subprocess.Popen[str]:
        """Start it without a terminal."""
        return self._started(midturn, provider, [*self.trusting, *self.headless])

    def resume(self, midturn: CommandLine, provider: FakeProvider) -> subprocess.Popen[str]:
        """Continue its last session."""
        return self._started(midturn, provider, self.resumed)

    def _started(
        self, midturn: CommandLine, provider: FakeProvider, options: Sequence[str]
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.program()), *options, "Go"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=midturn.root,
            env=self.surroundings(midturn, provider),
            start_new_session=True,
        )

    def surroundings(self, midturn: CommandLine, provider: FakeProvider) -> dict[str, str]:
        """Return its complete environment."""
        self.settle(midturn.home, provider.url)
        given = {
            name: value.replace("URL", provider.url) for name, value in self.environment.items()
        }
        homes = {
            name: value for name, value in midturn.environment.items() if name.startswith("XDG_")
        }
        return {
            **homes,
            "HOME": str(midturn.home),
            "PATH": midturn.environment["PATH"],
            "TERM": "xterm-256color",
            **given,
        }


def _codex(home: Path, url: str) -> None:
    (home / ".codex").mkdir(exist_ok=True)
    file = home / ".codex" / "config.toml"
    _, servers, ours = file.read_text().partition("[mcp_servers") if file.exists() else ("", "", "")
    file.write_text(_CODEX.format(url=url) + servers + ours)


def _gemini(home: Path, url: str) -> None:
    del url
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    settings: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**settings, **_GEMINI}))


AGENTS = {
    agent.key: agent
    for agent in (
        Agent(
            key="codex",
            package="@openai/codex@0.169.0",
            headless=("exec", "-s", "danger-full-access", *_CODEX_ALONE),
            resumed=("exec", "-s", "danger-full-access", "resume", "--last", *_CODEX_ALONE),
            environment={"FAKE_KEY": "sk-dummy"},
            tool=("exec_command", {}),
            command="cmd",
            servers=".codex/config.toml",
            asks="mcp__midturn/{}",
            settle=_codex,
        ),
        Agent(
            key="gemini",
            package="@google/gemini-cli@0.61.0",
            headless=("--approval-mode", "yolo", "-m", "gemini-2.5-pro", "-p"),
            resumed=("--approval-mode", "yolo", "-m", "gemini-2.5-pro", "--resume", "latest", "-p"),
            environment={"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": "URL"},
            tool=("run_shell_command", {"description": "Make it"}),
            settle=_gemini,
            servers=".gemini/settings.json",
            asks="mcp_midturn_{}",
        ),
        Agent(
            key="qwen",
            package="@qwen-code/qwen-code@0.24.4",
            headless=("--auth-type", "openai", "-m", "fake", "--approval-mode", "yolo", "-p"),
            resumed=(
                "--auth-type",
                "openai",
                "-m",
                "fake",
                "--approval-mode",
                "yolo",
                "--continue",
                "-p",
            ),
            environment={
                "OPENAI_API_KEY": "dummy",
                "OPENAI_BASE_URL": "URL/v1",
                "OPENAI_MODEL": "fake",
            },
            tool=("run_shell_command", {"description": "Make it", "is_background": False}),
            servers=".qwen/settings.json",
            asks="mcp__midturn__{}",
        ),
        Agent(
            key="copilot",
            package="@github/copilot@1.0.102",
            headless=("-p",),
            resumed=("--continue", "-p"),
            environment={
                "COPILOT_PROVIDER_BASE_URL": "URL/v1",
                "COPILOT_PROVIDER_API_KEY": "dummy",
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_MODEL": "gpt-4.1",
                "COPILOT_OFFLINE": "true",
            },
            tool=("bash", {"description": "Make it"}),
            servers=".copilot/mcp-config.json",
            asks="midturn-{}",
            trusting=("--allow-tool", "midturn"),
        ),
    )
}
