"""Selection of the protocol version.

It is set with a configuration key. Servers that cannot ask over the newer version are
called with the older one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from midturn import Agent, MemoryStore, ScriptedModel, ScriptedPrompter, events
from midturn.mcp.spec import Protocol, ServerSpec
from midturn.mcp.tool import McpServers
from support.cli import CommandLine

SERVER = Path(__file__).parents[1] / "support" / "asking_mcp_server.py"
pytestmark = pytest.mark.timeout(600)


def _results(directory: Path, protocol: Protocol, times: int = 1) -> list[str]:
    """Let a model call the tool several times, and return the results."""
    spec = ServerSpec(
        name="shop",
        command=(sys.executable, str(SERVER)),
        environment=dict(os.environ),
        cwd=str(directory),
        protocol=protocol,
    )
    with McpServers([spec]) as connected:
        assert connected.problems == {}
        model = ScriptedModel([*[{"calls": [{"name": "shop_buy"}]}] * times, {"text": "Done."}])
        prompter = ScriptedPrompter({"shop_buy.sure": lambda _: True})
        store = MemoryStore()
        result = Agent(
            model=model, tools=connected.tools["shop"], prompter=prompter, store=store
        ).run_sync("Go")
        return [
            one.content
            for one in store.read_sync(result.conversation).events
            if isinstance(one, events.ToolCallResponse)
        ]


def test_a_server_that_cannot_ask_in_the_newest_version_is_called_in_the_older_one(
    tmp_path: Path,
) -> None:
    assert _results(tmp_path, "auto", times=2) == ["accept", "accept"]
    assert (tmp_path / "calls").read_text() == "xxx", (
        "the second call uses the older version at once"
    )


def test_the_older_version_can_be_chosen(tmp_path: Path) -> None:
    assert _results(tmp_path, "2025-11-25") == ["accept"]
    assert (tmp_path / "calls").read_text() == "x"


def test_the_newer_version_can_be_required(tmp_path: Path) -> None:
    (read,) = _results(tmp_path, "2026-07-28")
    assert "Cannot send 'elicitation/create'" in read
    assert (tmp_path / "calls").read_text() == "x"


def test_an_unknown_version_is_refused_with_its_location(tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path)
    midturn.configure('providers.mcp.shop = { command = ["true"], protocol = "2024" }\n')
    finished = midturn.run("query", "-m", midturn.script(), "Hello")
    assert finished.status != 0
    assert "providers.mcp.shop.protocol" in finished.stderr
    assert "2025-11-25" in finished.stderr
