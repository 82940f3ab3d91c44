"""Asker: an MCP server whose client is midturn's agent. It asks by elicitation during a call."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

import midturn as mt
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from support.shared_resources import SESSION_RESOURCES
from support.stories.assistants import Assistant, without_reviews
from support.stories.outcome import Outcome
from support.stories.scene import Scene
from support.warm_commands import started_by_others

_SERVER = Path(__file__).parents[1] / "mcp_server.py"


class ServedAssistant(Assistant):
    """An agent with a tool of a server, which asks an MCP form. A review that is not part of
    the story is passed.
    """

    era: ClassVar[str]

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(replace(scene, by_model=False), directory)
        self.reviews = scene.by_model

    @property
    def others(self) -> Sequence[mt.Tool]:
        """The server's tool."""
        return served(self.era, os.getpid())

    def have_a_tool(self) -> None:
        """Configure the run policy of the tool."""
        with self.user.config.open("a") as file:
            file.write(
                f'[conversation.tools.deploy]\nsource = "mcp"\nrun = "{self.scene.run}"\nresult ='
                f' "{self.scene.result}"\n'
            )

    def go_on(self) -> None:
        super().go_on()
        for question in self.store.pending_sync():
            if question.kind == "review" and not self.reviews:
                self.store.answer_sync(question.id, approve=True)
                super().go_on()

    def outcome(self) -> Outcome:
        return without_reviews(super().outcome(), reviews=self.reviews)

    @classmethod
    def text_read(cls, outcome: Outcome) -> tuple[str, ...]:
        """Return what our model reads. A reply includes what the server made of it."""
        if not any(line.endswith(": reply") for line in outcome.record):
            return outcome.words
        told = (
            "The user did not answer what the MCP server `there` asked; it was told `decline`.\nIt"
            " returned:\ndecline"
        )
        return tuple(f"{words}\n{told}" for words in outcome.words)


class LegacyServerAssistant(ServedAssistant):
    """The server asks by requests and waits for the response."""

    era = "legacy"


class ModernServerAssistant(ServedAssistant):
    """The server returns what it needs, and the call is repeated with the answers."""

    era = "modern"


@cache
def served(era: str, process: int) -> Sequence[mt.Tool]:
    """Return the tools of a server process. All stories in `process` share it; a fork cannot
    use it.
    """
    assert process == os.getpid()
    directory = SESSION_RESOURCES.enter_context(tempfile.TemporaryDirectory())
    command = (*started_by_others(_SERVER), era)
    spec = ServerSpec(name="there", command=command, environment=dict(os.environ), cwd=directory)
    servers = SESSION_RESOURCES.enter_context(McpServers([spec], {"there_deploy": "deploy"}))
    return [tool for tool in servers.tools["there"] if tool.definition.name == "deploy"]
