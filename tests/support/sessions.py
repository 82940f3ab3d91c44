"""A session over the memory store: real tools, models and prompters, no files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from midturn.agent.assembly.agent import AgentSettings, compose_agent
from midturn.agent.assembly.session import RunParts
from midturn.ports import Happening, Model, Tool
from midturn.prompter import Prompter
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.runtime.driver import Session
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.sync_forms import drive


class Seen:
    """A display that keeps what it is shown."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def show(self, happening: Happening) -> None:
        """Keep it."""
        self.happenings.append(happening)


class OneConversation:
    """One conversation in memory, and the sessions that are opened on it, one after the other."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.journal = drive(self.store.create("a test"))
        self.seen = Seen()

    def session(
        self, model: Model, tools: Sequence[Tool] = (), *, prompter: Prompter | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> Session:
        """Open a session; questions wait while nobody is attached."""
        parts = AgentSettings(model=model, tools=tools, limits=limits)
        return compose_agent(parts, RunParts(prompter=prompter, display=self.seen), self.journal)

    def recorded(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a kind, as on disk."""
        return [event.to_json() for event in self.journal.events if event.type == kind]

    @property
    def contents(self) -> list[str]:
        """What the model was told by tools."""
        return [event["content"] for event in self.recorded("tool_call_response")]
