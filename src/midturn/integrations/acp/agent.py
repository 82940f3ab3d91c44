"""midturn as an agent in an editor: handles the editor's requests and stores its sessions."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import acp
from acp import RequestError, schema
from msgspec import Struct

from midturn import __version__
from midturn.config.settings import McpServerSettings
from midturn.errors import MidturnError
from midturn.events.open_question import fenced
from midturn.integrations.acp.session import EditorSession, SessionTurns
from midturn.integrations.acp.updates import Editor
from midturn.ports import Clock
from midturn.stores.metadata import conversation_number

# --------------------------------------------------------------------------------------------------
# Text of a prompt and of its attachments


ContentBlock: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class UnsupportedContent(Exception):  # noqa: N818  named for the event
    """A prompt contains content of an unsupported type."""


def prompt_text(prompt: Sequence[ContentBlock]) -> str:
    """Return the text of a prompt. Links and attached files become Markdown links in the text. The
    contents of attached files are appended.

    Raises:
        UnsupportedContent: An image, audio or a binary file is attached.
    """
    typed = "".join(_inline(block) for block in prompt)
    attached = [
        _attached(block.resource)
        for block in prompt
        if isinstance(block, schema.EmbeddedResourceContentBlock)
    ]
    return "\n\n".join([typed.strip(), *attached]).strip()


def _inline(block: ContentBlock) -> str:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return f"[{block.name}]({block.uri})"
        case schema.EmbeddedResourceContentBlock():
            return f"[{block.resource.uri.rpartition('/')[2]}]({block.resource.uri})"
        case _:
            raise UnsupportedContent(
                f"A prompt can contain text and files. Content of type {block.type} is not"
                " supported."
            )


def _attached(resource: schema.TextResourceContents | schema.BlobResourceContents) -> str:
    if isinstance(resource, schema.TextResourceContents):
        return f"{resource.uri}:\n{fenced(resource.text)}"
    raise UnsupportedContent(f"{resource.uri} is not a text file. Only text files are supported.")


# --------------------------------------------------------------------------------------------------
# MCP servers that an editor sends with a session, converted to midturn's settings.
#
# An editor is the user's own program, like the shell that passes `--cfg`. But an editor may forward
# settings from a cloned project. Therefore, midturn does not start programs that are in the
# workspace. Only the workspace's own configuration can start them, after the user has approved that
# configuration. All servers run in the same sandbox as configured servers. Each call needs
# permission unless the user's policy allows it.


SentServer: TypeAlias = (
    schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
)
_INVALID_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_SEPARATORS = re.compile(r"[\s:;,=&|]+")
_MAX_NAME_LENGTH = 40


class SentServers(Struct, frozen=True, kw_only=True):
    """The MCP servers that an editor sent. `servers` contains the usable servers by name.
    `problems` contains an error message for each server that is not used.
    """

    servers: dict[str, McpServerSettings] = {}
    problems: Sequence[str] = ()


def sent_servers(sent: Iterable[SentServer], workspace: Path) -> SentServers:
    """Convert the MCP servers that an editor sent for a session to midturn's settings."""
    servers: dict[str, McpServerSettings] = {}
    problems: list[str] = []
    for sent_server in sent:
        name = _INVALID_CHARACTERS.sub("_", sent_server.name)[:_MAX_NAME_LENGTH] or "server"
        try:
            server = _server(sent_server, workspace)
        except _Unusable as why:
            problems.append(f"The editor's MCP server `{name}` is not used: {why}.")
            continue
        if servers.setdefault(name, server) is not server:
            problems.append(
                f"The editor sent two MCP servers named `{name}`. Only the first one is used."
            )
    return SentServers(servers=servers, problems=problems)


class _Unusable(Exception):  # noqa: N818  named for the event
    """A server cannot be used. The message contains the reason."""


def _server(sent: SentServer, workspace: Path) -> McpServerSettings:
    match sent:
        case schema.McpServerStdio():
            _check_command(
                (sent.command, *sent.args), [given.value for given in sent.env], workspace
            )
            return McpServerSettings(
                command=(sent.command, *sent.args),
                environment={given.name: given.value for given in sent.env},
            )
        case schema.HttpMcpServer():
            if not sent.url.startswith(("http://", "https://")):
                raise _Unusable("its URL must start with http:// or https://")
            return McpServerSettings(
                url=sent.url, headers={header.name: header.value for header in sent.headers}
            )
        case _:
            raise _Unusable(
                f"the transport {sent.type} is not supported; use stdio or streamable HTTP"
            )


def _check_command(command: Sequence[str], environment: Sequence[str], workspace: Path) -> None:
    if os.sep in command[0] and not Path(command[0]).is_absolute():
        raise _Unusable(f"`{command[0]}` must be an absolute path, or a name without `/`")
    for inside in _files_inside((*command, *environment), workspace.resolve()):
        advice = "configure it in `.midturn/config.toml` and run `midturn trust` to approve it"
        raise _Unusable(f"it would run `{inside}`, which is in the workspace; {advice}")


def _files_inside(words: Sequence[str], root: Path) -> Iterator[str]:
    """Yield the paths of workspace files that occur in the arguments and environment values of a
    command. A path can be a whole word, go through a symbolic link, follow `=`, or be part of a
    script or of a list (`LD_PRELOAD`).
    """
    for word in words:
        for named in filter(None, {word, word.rpartition("=")[2], *_SEPARATORS.split(word)}):
            place = Path(os.path.normpath(root / named))
            try:
                is_inside = place.is_file() and (
                    place.is_relative_to(root) or place.resolve().is_relative_to(root)
                )
            except (OSError, ValueError):  # not a valid file name
                continue
            if is_inside:
                yield named


TakeConversation: TypeAlias = Callable[[EditorSession, str], Awaitable[None]]
OpenTurns: TypeAlias = Callable[[Path, Sequence[SentServer]], SessionTurns]
"""Returns an object that runs turns in a directory, with the MCP servers that the editor sent."""
_PAGE_SIZE = 200


class AssistantAgent:
    """midturn as an agent in an editor. `turns_in` returns an object that runs turns in a
    directory.
    """

    def __init__(self, turns_in: OpenTurns, clock: Clock) -> None:
        self._turns_in = turns_in
        self._clock = clock
        self._connection: acp.Client  # set by `on_connect`, which is called first
        self._editor = Editor(name="ACP client")
        self._sessions: dict[str, EditorSession] = {}
        self._last_number = 0

    def on_connect(self, conn: acp.Client) -> None:
        """Store the connection to the editor."""
        self._connection = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        """Return midturn's capabilities, and store the editor's capabilities."""
        del (
            protocol_version
        )  # only one protocol version exists; an editor without support for it disconnects
        self._editor = Editor.of(client_capabilities, client_info)
        prompts = schema.PromptCapabilities(embedded_context=True)
        sessions = schema.SessionCapabilities(
            list=schema.SessionListCapabilities(),
            resume=schema.SessionResumeCapabilities(),
            close=schema.SessionCloseCapabilities(),
        )
        can = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=prompts,
            session_capabilities=sessions,
            mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
        )
        own_info = schema.Implementation(name="midturn", title="midturn", version=__version__)
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION, agent_capabilities=can, agent_info=own_info
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Accept without a check, because the configuration contains the API keys for models."""
        del method_id
        return schema.AuthenticateResponse()

    async def new_session(
        self, cwd: str, mcp_servers: list[SentServer] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Start a session. Its conversation is created by the first prompt."""
        self._last_number = max(conversation_number(), self._last_number + 1)
        session = self._open_session(str(self._last_number), cwd, mcp_servers)
        return schema.NewSessionResponse(session_id=session.id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[SentServer] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Send the content of a recorded conversation to the editor, and ask the open questions
        again.
        """
        await self._take_conversation(cwd, session_id, mcp_servers, EditorSession.load)
        return schema.LoadSessionResponse()

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: list[SentServer] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Resume a recorded conversation whose content the editor already shows."""
        await self._take_conversation(cwd, session_id, mcp_servers, EditorSession.resume)
        return schema.ResumeSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """List the conversations of a directory, oldest first."""
        directory = cwd or str(Path.cwd())
        page = await self._turns(directory).store.port.described(
            after=cursor or "", limit=_PAGE_SIZE
        )
        found = [
            schema.SessionInfo(
                session_id=known,
                cwd=directory,
                title=named.title or None,
                updated_at=named.last_activated_at or None,
            )
            for known, named in page
        ]
        return schema.ListSessionsResponse(
            sessions=found, next_cursor=page[-1][0] if len(page) == _PAGE_SIZE else None
        )

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Close a session. Its conversation stays in the store."""
        session = self._sessions.pop(session_id, None)
        if session:
            await session.cancel()
            await session.close()
        return schema.CloseSessionResponse()

    async def prompt(
        self, prompt: list[ContentBlock], session_id: str, **_: Any
    ) -> schema.PromptResponse:
        """Run a turn."""
        try:
            words = prompt_text(prompt)
        except UnsupportedContent as error:
            raise RequestError.invalid_params({"details": str(error)}) from error
        if not words:
            raise RequestError.invalid_params({"details": "The prompt is empty."})
        return schema.PromptResponse(stop_reason=await self._session(session_id).prompt(words))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the session's running or waiting turn."""
        session = self._sessions.get(session_id)
        if session:
            await session.cancel()

    async def close(self) -> None:
        """Close all sessions. Called when the editor disconnects."""
        for session in self._sessions.values():
            await session.close()

    # Sessions
    # ----------------------------------------------------------------------------------------------

    def _open_session(self, id: str, cwd: str, sent: Sequence[SentServer] | None) -> EditorSession:
        session = EditorSession(
            id, self._turns(cwd, sent), self._editor, self._connection, self._clock
        )
        self._sessions[id] = session
        return session

    async def _take_conversation(
        self, cwd: str, id: str, sent: Sequence[SentServer] | None, take: TakeConversation
    ) -> None:
        before = self._sessions.pop(id, None)
        if before:
            await before.close()
        session = self._open_session(id, cwd, sent)
        try:
            await take(session, id)
        except MidturnError as error:
            del self._sessions[id]
            raise RequestError(-32002, str(error)) from error

    def _turns(self, cwd: str, sent: Sequence[SentServer] | None = None) -> SessionTurns:
        directory = Path(cwd)
        if not directory.is_absolute() or not os.path.isdir(directory):  # noqa: PTH112  the text may contain null bytes
            raise RequestError.invalid_params(
                {"details": f"`cwd` must be the absolute path of a directory, got {cwd!r}."}
            )
        try:
            return self._turns_in(directory, sent or ())
        except MidturnError as error:
            raise RequestError(-32603, str(error)) from error

    def _session(self, id: str) -> EditorSession:
        session = self._sessions.get(id)
        if session is None:
            raise RequestError(
                -32002,
                f"There is no session {id!r} in this process. Start a new session, or load it.",
            )
        return session


async def serve(
    agent: AssistantAgent, *streams: asyncio.StreamWriter | asyncio.StreamReader
) -> None:
    """Serve an editor until it disconnects.

    Args:
        agent: The agent.
        streams: Stream to the editor and stream from the editor. The default is stdout and stdin.
    """
    try:
        await acp.run_agent(agent, *streams, use_unstable_protocol=True)  # type: ignore[arg-type]  # the agent leaves out optional methods
    finally:
        await agent.close()
