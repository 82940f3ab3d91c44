"""Calls the tools of a misbehaving MCP server through a model, and collects what the model read,
what was recorded and what the server received.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from midturn import Agent, EndedTurn, MemoryStore, ScriptedModel, ScriptedPrompter, events
from midturn.mcp.tool import McpServers
from support.hooks import until


class MisbehavingServer:
    """The tools of a misbehaving server, called by a scripted model."""

    def __init__(self, servers: McpServers, directory: Path) -> None:
        self.tools = [tool for tools in servers.tools.values() for tool in tools]
        self.asked = directory / "asked"
        self._heard = directory / "heard"
        self.recorded: list[Any] = []

    def calls(self, name: str, look: Any = None) -> tuple[str, bool]:
        """Let a model call one tool; return the result and whether it is an error. The inquiry
        events are in `recorded`.
        """
        store = MemoryStore()
        model = ScriptedModel(
            [{"calls": [{"name": f"liar_{name}", "arguments": {}}]}, {"text": "Done."}]
        )
        prompter = ScriptedPrompter({f"liar_{name}.sure": look or (lambda _: True)})
        result = Agent(model=model, tools=self.tools, prompter=prompter, store=store).run_sync("Go")
        assert result.status == "completed", result.error
        log = store.read_sync(result.conversation).events
        self.recorded = [
            event
            for event in log
            if isinstance(
                event, events.InquiryRequest | events.InquiryAnswered | events.InquiryCancelled
            )
        ]
        response = next(event for event in log if isinstance(event, events.ToolCallResponse))
        return response.content, response.is_error

    def ends_at(self, name: str) -> tuple[str, bool]:
        """Let a model call one tool and end the turn at its question; return the result that the
        model reads later.
        """
        store = MemoryStore()
        model = ScriptedModel([{"calls": [{"name": f"liar_{name}", "arguments": {}}]}])
        prompter = ScriptedPrompter({f"liar_{name}.sure": EndedTurn()})
        result = Agent(model=model, tools=self.tools, prompter=prompter, store=store).run_sync("Go")
        assert result.status == "ended_by_user"
        response = next(
            event
            for event in store.read_sync(result.conversation).events
            if isinstance(event, events.ToolCallResponse)
        )
        return response.content, response.is_error

    def calls_at_once(self, *names: str) -> list[tuple[str, bool]]:
        """Let a model call several tools at the same time; return the results in order."""
        store = MemoryStore()
        model = ScriptedModel(
            [
                {"calls": [{"name": f"liar_{name}", "arguments": {}} for name in names]},
                {"text": "Done."},
            ]
        )
        prompter = ScriptedPrompter({f"liar_{name}.sure": lambda _: True for name in names})
        result = Agent(model=model, tools=self.tools, prompter=prompter, store=store).run_sync("Go")
        log = store.read_sync(result.conversation).events
        responses = {
            event.call: event for event in log if isinstance(event, events.ToolCallResponse)
        }
        requests = [event for event in log if isinstance(event, events.ToolCallRequest)]
        return [
            (responses[request.event_id].content, responses[request.event_id].is_error)
            for request in requests
        ]

    def heard(self, count: int = 1) -> list[Any]:
        """Wait until the server has received `count` answers; return them."""
        return until(
            lambda: json.loads(self._heard.read_text()) if self._heard.exists() else [],
            lambda heard: len(heard) == count,
        )

    def unanswered_prompt(self) -> Callable[[Any], Any]:
        """Return a prompter answer that never comes. It creates the file `asked`, so that the
        server knows of the prompt.
        """

        async def look(prompt: Any) -> Any:
            del prompt
            self.asked.touch()
            await asyncio.Event().wait()

        return look
