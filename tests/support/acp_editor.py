"""A client for tests of `midturn acp`: starts the agent, records what it is shown and answers as
the test says.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, cast
from unittest.mock import patch

import acp
from acp import schema
from acp.stdio import spawn_agent_process

from midturn.cli.acp_serving import editor_agent
from midturn.cli.command_context import StoreAddress
from midturn.cli.loading import Flags
from midturn.clock import SYSTEM, SystemClock
from midturn.config.assign import Assignment
from midturn.integrations.acp.agent import serve
from support.cli import CommandLine
from support.warm_commands import started_by_others

Outcome: TypeAlias = schema.RequestPermissionResponse
_READING = 0.6
"""Seconds before an answer. Answers that come faster count as automatic."""
_PATIENCE = 120.0


class _StoppedClock(SystemClock):
    def monotonic(self) -> float:
        return 0.0


class Editor:
    """The client's side. `choose` returns the ID of the chosen option; `fill` returns the values
    of a form.

    Without `choose` or `fill`, the editor never answers. `reading` is the delay of an answer in
    seconds. With 0, the agent's clock stands still, so that slow machines do not change the
    result.
    """

    def __init__(
        self, *, name: str = "zed", forms: bool = False, reading: float = _READING
    ) -> None:
        self.name = name
        self.forms = forms
        self.reading = reading
        self.choose: Callable[[Permission], Awaitable[str | None] | str | None] | None = None
        self.fill: (
            Callable[[Form], Awaitable[Mapping[str, Any] | str] | Mapping[str, Any] | str] | None
        ) = None
        self.updates: list[tuple[str, Any]] = []
        self.permissions: list[Permission] = []
        self.elicitations: list[Form] = []
        self.changed = asyncio.Event()
        self.agent: Any = None
        self.process: asyncio.subprocess.Process | None = None

    def on_connect(self, conn: Any) -> None:
        """Do nothing."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self._note()

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> Outcome:
        asked = Permission(session_id, tool_call, options)
        self.permissions.append(asked)
        self._note()
        if self.choose is None:
            await asyncio.Event().wait()
            raise AssertionError
        await asyncio.sleep(self.reading)
        chosen = self.choose(asked)
        option = await chosen if isinstance(chosen, Awaitable) else chosen
        if option is None:
            return Outcome(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return Outcome(outcome=schema.AllowedOutcome(outcome="selected", option_id=option))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        form = Form(message, mode)
        self.elicitations.append(form)
        self._note()
        if self.fill is None:
            await asyncio.Event().wait()
            raise AssertionError
        await asyncio.sleep(self.reading)
        filled = self.fill(form)
        said = await filled if isinstance(filled, Awaitable) else filled
        if isinstance(said, str):
            return (
                schema.DeclineElicitationResponse(action="decline")
                if said == "decline"
                else _CANCEL
            )
        return schema.AcceptElicitationResponse(action="accept", content=cast("Any", dict(said)))

    # Waiting and reading
    # ----------------------------------------------------------------------------------------------

    async def until(self, look: Callable[[], Any]) -> Any:
        """Wait until `look` returns something; return it."""
        async with asyncio.timeout(_PATIENCE):
            while not (found := look()):
                self.changed.clear()
                await self.changed.wait()
        return found

    def said(self, kind: type[Any] = schema.AgentMessageChunk) -> str:
        """Return the text of all updates of one kind."""
        return "".join(
            update.content.text for _, update in self.updates if isinstance(update, kind)
        )

    def notes(self) -> str:
        """Return the content of all tool call updates."""
        contents = [
            update.content or []
            for _, update in self.updates
            if isinstance(update, schema.ToolCallProgress)
        ]
        return "\n".join(str(part.content.text) for content in contents for part in content)

    def statuses(self) -> list[str]:
        """Return the statuses of tool calls, in order."""
        return [
            str(update.status)
            for _, update in self.updates
            if isinstance(update, schema.ToolCallStart | schema.ToolCallProgress) and update.status
        ]

    def _note(self) -> None:
        self.changed.set()


class Permission:
    """A permission request."""

    def __init__(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> None:
        self.session = session
        self.call = call
        self.options = {option.option_id: option for option in options}


class Form:
    """A form request."""

    def __init__(self, message: str, mode: Any) -> None:
        self.message = message
        self.session = mode.session_id
        self.schema: dict[str, Any] = mode.requested_schema.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )


_CANCEL = schema.CancelElicitationResponse(action="cancel")


@asynccontextmanager
async def in_process_editor(
    midturn: CommandLine, editor: Editor, model: str = "", store: StoreAddress | None = None
) -> AsyncGenerator[Editor]:
    """Connect an editor with an agent in this process, which is fast. The user and the workspace
    are the test's.
    """
    assignments = [Assignment("assistant.model.id", model, "--model")] if model else []
    ours, theirs = socket.socketpair()
    with patch.dict(os.environ, midturn.environment, clear=True):
        agent = editor_agent(
            Flags(assignments=assignments), store, SYSTEM if editor.reading else _StoppedClock()
        )
        from_editor, to_editor = await asyncio.open_connection(sock=ours)
        serving = asyncio.ensure_future(serve(agent, to_editor, from_editor))
        from_agent, to_agent = await asyncio.open_connection(sock=theirs)
        connection: Any = acp.connect_to_agent(
            cast("Any", editor), to_agent, from_agent, use_unstable_protocol=True
        )
        try:
            await _initialize(editor, connection)
            yield editor
        finally:
            await connection.close()
            await _closed(to_agent)
            await serving
            await _closed(to_editor)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def subprocess_editor(
    midturn: CommandLine, editor: Editor, *options: str
) -> AsyncGenerator[Editor]:
    """Start `midturn acp` as a subprocess, as editors do."""
    command = [*started_by_others(), "acp", *options]
    client = cast("Any", editor)
    async with spawn_agent_process(
        client,
        *command,
        env=midturn.environment,
        cwd=midturn.root,
        use_unstable_protocol=True,
        transport_kwargs={"limit": 2**24},
    ) as (agent, process):
        editor.process = process
        await _initialize(editor, agent)
        yield editor


async def _initialize(editor: Editor, agent: Any) -> None:
    editor.agent = agent
    elicits = (
        schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
        if editor.forms
        else None
    )
    ours = schema.Implementation(name=editor.name, version="1")
    await agent.initialize(
        acp.PROTOCOL_VERSION, schema.ClientCapabilities(elicitation=elicits), ours
    )


async def open_session(midturn: CommandLine, editor: Editor) -> str:
    """Start a session in the workspace; return its ID."""
    return str((await editor.agent.new_session(str(midturn.root), [])).session_id)


async def send_prompt(editor: Editor, session: str, words: str = "Go") -> str:
    """Send a prompt; return the reason why the turn stopped."""
    async with asyncio.timeout(_PATIENCE):
        return str((await editor.agent.prompt(session, [acp.text_block(words)])).stop_reason)
