"""Who asks: a server of the Model Context Protocol that our assistant is a client of, by elicitations in the middle of a call."""

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
from support.lasting import UNTIL_THE_END
from support.stories.assistants import Assistant, unless_reviewed
from support.stories.outcome import Outcome
from support.stories.scene import Scene
from support.warm_commands import started_by_others

_SERVER = Path(__file__).parents[1] / "mcp_server.py"


class ServedAssistant(Assistant):
    """Our assistant with a tool of a server, which asks a form of the protocol. A review that is no part of the story is passed."""

    era: ClassVar[str]

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(replace(scene, by_model=False), directory)
        self.reviews = scene.by_model

    @property
    def others(self) -> Sequence[mt.Tool]:
        """The server's tool."""
        return served(self.era, os.getpid())

    def have_a_tool(self) -> None:
        """Configure who has to allow it."""
        with self.user.config.open("a") as file:
            file.write(f'[conversation.tools.deploy]\nsource = "mcp"\nrun = "{self.scene.run}"\nresult = "{self.scene.result}"\n')

    def go_on(self) -> None:
        """Go on with what is open."""
        super().go_on()
        for question in self.store.pending_sync():
            if question.kind == "review" and not self.reviews:
                self.store.answer_sync(question.id, approve=True)
                super().go_on()

    def outcome(self) -> Outcome:
        """Say what is on record."""
        return unless_reviewed(super().outcome(), reviews=self.reviews)

    @classmethod
    def hears(cls, outcome: Outcome) -> tuple[str, ...]:
        """Say what our model reads: of a reply also what the server made of it."""
        if not any(line.endswith(": reply") for line in outcome.record):
            return outcome.words
        told = "The user did not answer what the MCP server `there` asked; it was told `decline`.\nIt returned:\ndecline"
        return tuple(f"{words}\n{told}" for words in outcome.words)


class AssistantOfALegacyServer(ServedAssistant):
    """The server asks by requests of its own, and waits."""

    era = "legacy"


class AssistantOfAModernServer(ServedAssistant):
    """The server says what it needs, and the call is made again with the answers."""

    era = "modern"


@cache
def served(era: str, process: int) -> Sequence[mt.Tool]:
    """Return the tools of a server, a process; one for all stories that are played in `process`, for a fork has none of it."""
    assert process == os.getpid()
    directory = UNTIL_THE_END.enter_context(tempfile.TemporaryDirectory())
    command = (*started_by_others(_SERVER), era)
    spec = ServerSpec(name="there", command=command, environment=dict(os.environ), cwd=directory)
    servers = UNTIL_THE_END.enter_context(McpServers([spec], {"there_deploy": "deploy"}))
    return [tool for tool in servers.tools["there"] if tool.definition.name == "deploy"]
