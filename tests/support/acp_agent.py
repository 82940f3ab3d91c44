"""An ACP agent for tests. The prompt selects what it asks, and it reports the answers as text.
Run it with `python`.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, cast

import acp
from acp import schema
from pydantic import AnyUrl

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "env": {"type": "string", "title": "Which env?", "enum": ["prod", "dev"]},
        "dry": {"type": "boolean", "title": "Dry?"},
    },
    "required": ["env"],
}
OPTIONS = [
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="always", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Asking:
    def __init__(self) -> None:
        self._client: Any = None
        self._is_cancelled = False

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(
            protocol_version=protocol_version,
            agent_info=schema.Implementation(name="probe", version="1"),
        )

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        del cwd
        return acp.NewSessionResponse(session_id="s1")

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> acp.PromptResponse:
        words = prompt[0].text
        match words:
            case "permission":
                call = schema.ToolCallUpdate(
                    tool_call_id="c1",
                    title="Make it",
                    kind="execute",
                    raw_input={"command": "touch made"},
                )
                said = await self._client.request_permission(session_id, call, OPTIONS)
                await self._say(
                    session_id,
                    f"permission: {getattr(said.outcome, 'option_id', said.outcome.outcome)}",
                )
            case "form":
                mode = schema.ElicitationFormSessionMode(
                    session_id=session_id,
                    requested_schema=schema.ElicitationSchema.model_validate(FORM),
                )
                said = await self._client.create_elicitation("Where to?", mode)
                await self._say(session_id, f"form: {said.action} {getattr(said, 'content', None)}")
            case "address":
                mode = schema.ElicitationUrlSessionMode(
                    session_id=session_id, elicitation_id="e1", url=AnyUrl("https://example.org/in")
                )
                said = await self._client.create_elicitation("Log in.", mode)
                await self._say(session_id, f"address: {said.action}")
            case "stubborn":
                await self._ask(
                    session_id, {"permission": "Make it", "arguments": {"command": "touch made"}}
                )
                await self._ask(session_id, {"form": FORM, "message": "Where to?"})
                self._is_cancelled = False
            case "die":
                os._exit(3)
            case _ if words.startswith("{"):
                await self._ask(session_id, json.loads(words))
            case _:
                await self._say(session_id, f" | heard: {words}")
        return acp.PromptResponse(stop_reason="cancelled" if self._is_cancelled else "end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the turn after the open question is answered."""
        del session_id
        self._is_cancelled = True

    async def _ask(self, session_id: str, document: dict[str, Any]) -> None:
        """Ask for a form or a permission, as the document says."""
        if "form" in document:
            requested = schema.ElicitationSchema.model_validate(document["form"])
            mode = schema.ElicitationFormSessionMode(
                session_id=session_id, requested_schema=requested
            )
            said = await self._client.create_elicitation(document["message"], mode)
            await self._say(session_id, f"form: {said.action} {getattr(said, 'content', None)}")
            return
        call = schema.ToolCallUpdate(
            tool_call_id="c1",
            title=document["permission"],
            kind="execute",
            raw_input=document["arguments"],
        )
        said = await self._client.request_permission(session_id, call, OPTIONS)
        await self._say(
            session_id, f"permission: {getattr(said.outcome, 'option_id', said.outcome.outcome)}"
        )

    async def _say(self, session: str, words: str) -> None:
        await self._client.session_update(session, acp.update_agent_message_text(words))


if __name__ == "__main__":
    asyncio.run(acp.run_agent(cast("Any", Asking()), use_unstable_protocol=True))
