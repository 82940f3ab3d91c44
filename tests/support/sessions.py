"""Sessions over the memory store, with real tools, models and prompters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from midturn.agent.assembly.agent import AgentDefinition, build_session
from midturn.ports import Happening, Model, Tool
from midturn.prompter import Prompter
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.runtime.run_options import RunOptions
from midturn.runtime.session import Session
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.sync_forms import drive


class RecordingDisplay:
    """A display that records what it is shown."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def show(self, happening: Happening) -> None:
        self.happenings.append(happening)


class OneConversation:
    """One conversation in memory, with the sessions opened on it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.journal = drive(self.store.create("a test"))
        self.seen = RecordingDisplay()

    def session(
        self,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        prompter: Prompter | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Session:
        """Open a session. Without a prompter, questions wait."""
        parts = AgentDefinition(model=model, tools=tools, limits=limits)
        return build_session(parts, RunOptions(prompter=prompter, display=self.seen), self.journal)

    def recorded(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a type as JSON."""
        return [event.to_json() for event in self.journal.events if event.type == kind]

    @property
    def contents(self) -> list[str]:
        """The contents of all tool results."""
        return [event["content"] for event in self.recorded("tool_call_response")]
