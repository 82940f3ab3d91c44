"""A server of the Model Context Protocol that lies, and the model that calls it: what it read, what was recorded, what the server heard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from midturn import Agent, EndedTurn, MemoryStore, ScriptedModel, ScriptedPrompter, events
from midturn.mcp.tool import McpServers
from support.hooks import until


class Liar:
    """A server that lies, and the model that calls it."""

    def __init__(self, servers: McpServers, directory: Path) -> None:
        self.tools = [tool for tools in servers.tools.values() for tool in tools]
        self.asked = directory / "asked"
        self._heard = directory / "heard"
        self.recorded: list[Any] = []

    def calls(self, lie: str, look: Any = None) -> tuple[str, bool]:
        """Have a model call one tool; return what it read, and whether that was an error. What was asked is in `recorded`."""
        store = MemoryStore()
        model = ScriptedModel([{"calls": [{"name": f"liar_{lie}", "arguments": {}}]}, {"text": "Done."}])
        prompter = ScriptedPrompter({f"liar_{lie}.sure": look or (lambda _: True)})
        result = Agent(model=model, tools=self.tools, prompter=prompter, store=store).run_sync("Go")
        assert result.status == "completed", result.error
        log = store.read_sync(result.conversation).events
        self.recorded = [
            event for event in log if isinstance(event, events.InquiryRequest | events.InquiryAnswered | events.InquiryCancelled)
        ]
        response = next(event for event in log if isinstance(event, events.ToolCallResponse))
        return response.content, response.is_error

    def ends_at(self, lie: str) -> tuple[str, bool]:
        """Have a model call one tool, and end the turn at its question; return what the model reads of that later."""
        store = MemoryStore()
        model = ScriptedModel([{"calls": [{"name": f"liar_{lie}", "arguments": {}}]}])
        prompter = ScriptedPrompter({f"liar_{lie}.sure": EndedTurn()})
        result = Agent(model=model, tools=self.tools, prompter=prompter, store=store).run_sync("Go")
        assert result.status == "ended_by_user"
        response = next(event for event in store.read_sync(result.conversation).events if isinstance(event, events.ToolCallResponse))
        return response.content, response.is_error

    def calls_at_once(self, *lies: str) -> list[tuple[str, bool]]:
        """Have a model call several tools at the same time; return what it read of each."""
        store = MemoryStore()
        model = ScriptedModel([{"calls": [{"name": f"liar_{lie}", "arguments": {}} for lie in lies]}, {"text": "Done."}])
        prompter = ScriptedPrompter({f"liar_{lie}.sure": lambda _: True for lie in lies})
        result = Agent(model=model, tools=self.tools, prompter=prompter, store=store).run_sync("Go")
        log = store.read_sync(result.conversation).events
        responses = {event.call: event for event in log if isinstance(event, events.ToolCallResponse)}
        requests = [event for event in log if isinstance(event, events.ToolCallRequest)]
        return [(responses[request.event_id].content, responses[request.event_id].is_error) for request in requests]

    def heard(self, count: int = 1) -> list[Any]:
        """Wait until the server has heard so much in answer to what it asked; return it."""
        return until(lambda: json.loads(self._heard.read_text()) if self._heard.exists() else [], lambda heard: len(heard) == count)

    def is_looked_at(self) -> Callable[[Any], Any]:
        """Return a person who looks at a question for ever; the server knows that they do."""

        async def look(prompt: Any) -> Any:
            del prompt
            self.asked.touch()
            await asyncio.Event().wait()

        return look
