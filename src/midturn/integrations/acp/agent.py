"""The agent's side of the protocol: sessions by id."""

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
from midturn.integrations.acp.session import EditorSession, Turns
from midturn.integrations.acp.updates import Editor
from midturn.ports import Clock
from midturn.stores.metadata import conversation_number

# ----------------------------------------------------------------------------------------------------------------------
# What is prompted, as text: what was typed, and what was attached to it


ContentBlock: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class NotText(Exception):  # noqa: N818  it says what is the case
    """Something was attached that we do not take."""


def words_of(prompt: Sequence[ContentBlock]) -> str:
    """Return the text of a prompt; links as they are, attached files below what was typed.

    Raises:
        NotText: A picture or a sound is attached, which we did not say that we take.
    """
    typed = "".join(_inline(block) for block in prompt)
    attached = [_attached(block.resource) for block in prompt if isinstance(block, schema.EmbeddedResourceContentBlock)]
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
            raise NotText(f"midturn takes text and files, and no {block.type} in a prompt.")


def _attached(resource: schema.TextResourceContents | schema.BlobResourceContents) -> str:
    if isinstance(resource, schema.TextResourceContents):
        return f"{resource.uri}:\n{fenced(resource.text)}"
    raise NotText(f"{resource.uri} is not text, and midturn takes text only.")


# ----------------------------------------------------------------------------------------------------------------------
# MCP servers that an editor sends with a session: what its user has set up there, as our configuration has them.
# An editor is the user's own program, like the shell that passes `--cfg`. But it may pass on what a cloned project says. So nothing that
# lies in the workspace is started: that is for the workspace's own configuration, which has to be trusted with its scripts. All of them are
# confined like servers that are configured here, and each call is asked about unless a policy of the user's own says otherwise.


SentServer: TypeAlias = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_BETWEEN = re.compile(r"[\s:;,=&|]+")
_LONGEST = 40


class SentServers(Struct, frozen=True, kw_only=True):
    """Those that can be used, by the names that their tools begin with, and why others cannot."""

    servers: dict[str, McpServerSettings] = {}
    problems: Sequence[str] = ()


def sent_servers(sent: Iterable[SentServer], workspace: Path) -> SentServers:
    """Read what an editor has sent for a session in a workspace."""
    servers: dict[str, McpServerSettings] = {}
    problems: list[str] = []
    for one in sent:
        name = _OTHER.sub("_", one.name)[:_LONGEST] or "server"
        try:
            server = _server(one, workspace)
        except _Unusable as why:
            problems.append(f"The editor's MCP server `{name}` is not used: {why}.")
            continue
        if servers.setdefault(name, server) is not server:
            problems.append(f"The editor has two MCP servers with the name `{name}`: the first one is used.")
    return SentServers(servers=servers, problems=problems)


class _Unusable(Exception):  # noqa: N818  it says what is the case
    """A server cannot be used; the message says why."""


def _server(sent: SentServer, workspace: Path) -> McpServerSettings:
    match sent:
        case schema.McpServerStdio():
            _check_command((sent.command, *sent.args), [given.value for given in sent.env], workspace)
            return McpServerSettings(command=(sent.command, *sent.args), environment={given.name: given.value for given in sent.env})
        case schema.HttpMcpServer():
            if not sent.url.startswith(("http://", "https://")):
                raise _Unusable("its address is not one of HTTP")
            return McpServerSettings(url=sent.url, headers={header.name: header.value for header in sent.headers})
        case _:
            raise _Unusable(f"midturn speaks with servers over stdio and streamable HTTP, and not over {sent.type}")


def _check_command(command: Sequence[str], environment: Sequence[str], workspace: Path) -> None:
    if os.sep in command[0] and not Path(command[0]).is_absolute():
        raise _Unusable(f"`{command[0]}` is no absolute path")
    for inside in _files_inside((*command, *environment), workspace.resolve()):
        advice = "configure it in `.midturn/config.toml`, and approve that with `midturn trust`"
        raise _Unusable(f"it would run `{inside}`, which is in the workspace; {advice}")


def _files_inside(words: Sequence[str], root: Path) -> Iterator[str]:
    """Yield what names a file of the workspace, by a link, behind an option's `=`, or as a word of a script or of a list (`LD_PRELOAD`)."""
    for word in words:
        for named in filter(None, {word, word.rpartition("=")[2], *_BETWEEN.split(word)}):
            place = Path(os.path.normpath(root / named))
            try:
                is_inside = place.is_file() and (place.is_relative_to(root) or place.resolve().is_relative_to(root))
            except (OSError, ValueError):  # no name that a file may have
                continue
            if is_inside:
                yield named


TakeConversation: TypeAlias = Callable[[EditorSession, str], Awaitable[None]]
Opening: TypeAlias = Callable[[Path, Sequence[SentServer]], Turns]
"""Returns what runs the turns of a directory, with the MCP servers that an editor has sent for them."""
_PAGE = 200


class AssistantAgent:
    """Our assistant; `turns_in` finds out what a directory is configured for."""

    def __init__(self, turns_in: Opening, clock: Clock) -> None:
        self._turns_in = turns_in
        self._clock = clock
        self._connection: acp.Client  # from `on_connect` on, which comes before everything else
        self._editor = Editor(name="ACP client")
        self._sessions: dict[str, EditorSession] = {}
        self._newest = 0

    def on_connect(self, conn: acp.Client) -> None:
        """Keep whom to tell."""
        self._connection = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        """Say what we can do, and note what the editor can."""
        del protocol_version  # there is one version, and an editor that does not speak it leaves
        self._editor = Editor.of(client_capabilities, client_info)
        prompts = schema.PromptCapabilities(embedded_context=True)
        sessions = schema.SessionCapabilities(
            list=schema.SessionListCapabilities(), resume=schema.SessionResumeCapabilities(), close=schema.SessionCloseCapabilities()
        )
        can = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=prompts,
            session_capabilities=sessions,
            mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
        )
        ours = schema.Implementation(name="midturn", title="midturn", version=__version__)
        return schema.InitializeResponse(protocol_version=acp.PROTOCOL_VERSION, agent_capabilities=can, agent_info=ours)

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Accept: the keys of models are in the configuration, and nothing else is needed."""
        del method_id
        return schema.AuthenticateResponse()

    async def new_session(self, cwd: str, mcp_servers: list[SentServer] | None = None, **_: Any) -> schema.NewSessionResponse:
        """Begin a session; its conversation begins with the first prompt."""
        self._newest = max(conversation_number(), self._newest + 1)
        session = self._opened(str(self._newest), cwd, mcp_servers)
        return schema.NewSessionResponse(session_id=session.id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[SentServer] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Show a recorded conversation, and ask again what is open in it."""
        await self._take(cwd, session_id, mcp_servers, EditorSession.load)
        return schema.LoadSessionResponse()

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: list[SentServer] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Go on with a recorded conversation that the editor still shows."""
        await self._take(cwd, session_id, mcp_servers, EditorSession.resume)
        return schema.ResumeSessionResponse()

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        """List the conversations of a directory, oldest first."""
        directory = cwd or str(Path.cwd())
        page = await self._turns(directory).store.port.described(after=cursor or "", limit=_PAGE)
        found = [
            schema.SessionInfo(session_id=known, cwd=directory, title=named.title or None, updated_at=named.last_activated_at or None)
            for known, named in page
        ]
        return schema.ListSessionsResponse(sessions=found, next_cursor=page[-1][0] if len(page) == _PAGE else None)

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Let go of a session; its conversation stays."""
        session = self._sessions.pop(session_id, None)
        if session:
            await session.cancel()
            await session.close()
        return schema.CloseSessionResponse()

    async def prompt(self, prompt: list[ContentBlock], session_id: str, **_: Any) -> schema.PromptResponse:
        """Run a turn."""
        try:
            words = words_of(prompt)
        except NotText as error:
            raise RequestError.invalid_params({"details": str(error)}) from error
        if not words:
            raise RequestError.invalid_params({"details": "The prompt is empty."})
        return schema.PromptResponse(stop_reason=await self._session(session_id).prompt(words))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the turn that runs."""
        session = self._sessions.get(session_id)
        if session:
            await session.cancel()

    async def close(self) -> None:
        """Let go of every session: the editor is gone."""
        for session in self._sessions.values():
            await session.close()

    # Sessions -----------------------------------------------------------------------------------------------------------------

    def _opened(self, id: str, cwd: str, sent: Sequence[SentServer] | None) -> EditorSession:
        session = EditorSession(id, self._turns(cwd, sent), self._editor, self._connection, self._clock)
        self._sessions[id] = session
        return session

    async def _take(self, cwd: str, id: str, sent: Sequence[SentServer] | None, take: TakeConversation) -> None:
        before = self._sessions.pop(id, None)
        if before:
            await before.close()
        session = self._opened(id, cwd, sent)
        try:
            await take(session, id)
        except MidturnError as error:
            del self._sessions[id]
            raise RequestError(-32002, str(error)) from error

    def _turns(self, cwd: str, sent: Sequence[SentServer] | None = None) -> Turns:
        directory = Path(cwd)
        if not directory.is_absolute() or not os.path.isdir(directory):  # noqa: PTH112  a text may hold anything
            raise RequestError.invalid_params({"details": f"{cwd!r} is not a directory here: `cwd` is an absolute path."})
        try:
            return self._turns_in(directory, sent or ())
        except MidturnError as error:
            raise RequestError(-32603, str(error)) from error

    def _session(self, id: str) -> EditorSession:
        session = self._sessions.get(id)
        if session is None:
            raise RequestError(-32002, f"There is no session {id!r} here: begin one, or load it.")
        return session


async def serve(agent: AssistantAgent, *streams: asyncio.StreamWriter | asyncio.StreamReader) -> None:
    """Speak with an editor until it hangs up: over stdin and stdout, or over these streams, the one to it first."""
    try:
        await acp.run_agent(agent, *streams, use_unstable_protocol=True)  # type: ignore[arg-type]  # the SDK refuses what it has not
    finally:
        await agent.close()
