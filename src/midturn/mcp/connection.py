"""One server: connected when it is needed, again when it has gone away."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, cast

import anyio
import httpx2
from mcp import Client, types
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from midturn import __version__
from midturn.mcp.bounded_http import TOO_LONG, BoundedClient, started
from midturn.mcp.call import Elicitations, Farewells, ServerCall, UnfitResult, unchecked
from midturn.mcp.spec import ServerSpec

_LOG = logging.getLogger(__name__)
_START = 20.0  # seconds in which a server has to answer first
_TOOLS = 1000
_PAGES = 100
_SHOWN = 2000  # bytes of what a server wrote to its standard error
_CANCEL = types.ElicitResult(action="cancel")
_MODES = {"auto": "auto", "2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
"""What the library calls each version of the protocol."""
_CANNOT_ASK = "Cannot send 'elicitation/create'"
"""The error of servers whose library asks in the way of the older version, and speaks the newer one."""
_LOST = (OSError, EOFError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, BaseExceptionGroup)


class ServerGone(Exception):  # noqa: N818  it says what happened
    """The server cannot be reached, or went away; the message says what is known."""


class _SessionLostError(Exception):
    """The server knows the session no more, and has not taken the call."""


class Connection:
    """A server, from the loop that all servers live in.

    Args:
        spec: How it is reached.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.tools: Sequence[types.Tool] = ()
        self._client: Client | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._lock = asyncio.Lock()
        self._queue: list[Elicitations] = []
        self._connecting = asyncio.Lock()
        self._call: ServerCall | None = None
        self._farewells = Farewells()
        self._http: BoundedClient | None = None
        self._errors: IO[bytes] | None = None
        self._why = ""
        self._mode = _MODES[spec.protocol]

    async def start(self) -> None:
        """Connect, and learn which tools there are.

        Raises:
            ServerGone: It does not start, or does not answer.
        """
        await self._connected()

    async def close(self) -> None:
        """Leave the server."""
        await self._farewells.wait()
        self._leave.set()
        if self._keeper:
            await asyncio.wait({self._keeper}, timeout=5)
            self._keeper.cancel()
        if self._errors:
            self._errors.close()

    async def call(self, tool: types.Tool, arguments: dict[str, Any], asked: Elicitations, silence: float) -> types.CallToolResult:
        """Call a tool; what the server asks meanwhile is asked.

        Args:
            tool: As the server lists it.
            arguments: What the model gave.
            asked: Asks, and knows what came of it.
            silence: How many seconds it may neither answer, ask, nor say that it goes on.

        Raises:
            ServerGone: It went away.
            TimeoutError: It was silent for too long, or does not come to an end.
            MCPError: It refuses.
            TooManyForms: It asks without end.
            UnfitResult: What it returned does not fit the schema that it gave for it.
        """
        try:
            result = await self._made(tool, arguments, asked, silence)
            if not self._needs_older_version(result):
                return result
            await self._use_older_version(asked)
        except _SessionLostError:  # the server has not taken the call: it is made once more, in a new session
            asked.start_over()
        except MCPError as error:
            if not self._needs_older_version(error):
                raise
            await self._use_older_version(asked)
        try:
            return await self._made(tool, arguments, asked, silence)
        except _SessionLostError as error:
            raise ServerGone(f"it loses one session after the other: {error}") from error

    def _needs_older_version(self, said: types.CallToolResult | MCPError) -> bool:
        """Return whether a server failed because it asks in a way that only the older version of the protocol has."""
        if self._mode != "auto" or self.spec.protocol != "auto" or not self.spec.asks:
            return False
        if isinstance(said, MCPError):
            return _CANNOT_ASK in str(said)
        return bool(said.is_error) and any(isinstance(block, types.TextContent) and _CANNOT_ASK in block.text for block in said.content)

    async def _use_older_version(self, asked: Elicitations) -> None:
        """Speak the older version from now on. The call is made once more, with the answers that are there."""
        _LOG.info("the MCP server %r cannot ask over the newest version of the protocol: the older one is used", self.spec.name)
        asked.start_over()
        client, self._mode = self._client, "legacy"
        if client is not None:
            await self._left(client)

    async def _made(self, tool: types.Tool, arguments: dict[str, Any], asked: Elicitations, silence: float) -> types.CallToolResult:
        client = await self._connected()
        async with self._alone(client, asked):
            client = await self._connected()  # the call before may have left the server
            http = self._http
            try:
                return await self._alone_made(client, tool, arguments, asked, silence)
            except MCPError as error:
                raise await self._told(error, client, http) from error
            except TimeoutError:
                raise
            except _LOST as error:
                raise await self._gone(client, _reason(error)) from error

    async def _alone_made(
        self, client: Client, tool: types.Tool, arguments: dict[str, Any], asked: Elicitations, silence: float
    ) -> types.CallToolResult:
        limit = asyncio.timeout(silence)
        self._call = call = ServerCall(client.session, asked, limit, silence, self._farewells)
        try:
            async with limit:
                return await call.make(tool, arguments)
        except TimeoutError as error:
            if call.asks_too_much:
                await self._left(client)  # what it still asks by itself would be asked in the next call
                raise call.asks_too_much from error
            raise
        finally:
            call.is_over = True

    async def _told(self, error: MCPError, client: Client, http: BoundedClient | None) -> Exception:
        """Return what an error of the server, or of the way to it, is."""
        if http and http.has_lost_session:
            await self._left(client)
            return _SessionLostError(str(error))
        match error.error.code:
            case code if code == TOO_LONG:
                return UnfitResult(str(error))
            case types.CONNECTION_CLOSED if http and self._client is client:
                return ServerGone(str(error))  # this one request has no answer; what else is said over HTTP goes on
            case types.CONNECTION_CLOSED:
                return await self._gone(client, str(error))
            case _:
                return error

    @asynccontextmanager
    async def _alone(self, client: Client, asked: Elicitations) -> AsyncGenerator[None]:
        """Let one call at a time run where a server asks without saying for which call (the older protocol)."""
        if (client.session.protocol_version or "") >= "2026":
            yield
            return
        if self._queue:
            asked.queued([ahead.call for ahead in self._queue])
        self._queue.append(asked)
        try:
            async with self._lock:
                yield
        finally:
            self._queue.remove(asked)

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is not None and self._keeper and not self._keeper.done():
                return self._client
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self._leave = asyncio.Event()
            self._keeper = asyncio.create_task(self._keep(ready))
            try:
                async with asyncio.timeout(_START):
                    self._client = await ready
            except TimeoutError as error:
                self._keeper.cancel()
                raise ServerGone(f"it has not answered for {_START:g} seconds.{self._said()}") from error
            except Exception as error:
                raise ServerGone(f"{_reason(error)}{self._said()}") from error
            return self._client

    async def _keep(self, ready: asyncio.Future[Client]) -> None:
        """Hold the connection in a task of its own: it is opened and closed in the same one."""
        mine: Client | None = None
        try:
            async with self._opened() as client:
                mine = client
                client.session.validate_tool_result = unchecked
                self.tools = await _listed(client)
                ready.set_result(client)
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001  the call that waits hears of it
            if not ready.done():
                ready.set_exception(error)
            else:
                _LOG.warning("the MCP server %r: %r", self.spec.name, str(error))
        finally:
            if self._client is mine:
                self._client = None

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Client]:
        answer = self._answer if self.spec.asks else None
        info = types.Implementation(name="midturn", version=__version__)
        if self.spec.url is not None:
            async with BoundedClient(dict(self.spec.headers)) as http:
                self._http = http
                transport = streamable_http_client(self.spec.url, http_client=http, max_sse_event_size=None)
                async with Client(transport, client_info=info, elicitation_callback=answer, mode=self._mode) as client:
                    yield client
            return
        if self._errors:
            self._errors.close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  it is read when the server has gone
        self._why = ""
        transport = started(self.spec, self._errors, self._broke)
        async with Client(transport, client_info=info, elicitation_callback=answer, mode=self._mode) as client:
            yield client

    async def _answer(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask what a server of the older protocol asks during the one call that runs; when none does, it is shown to no one."""
        del context
        return await self._call.pushed(params) if self._call else _CANCEL

    async def _left(self, client: Client) -> None:
        """Leave a server, unless another call has done so already and speaks with it anew."""
        async with self._connecting:
            if self._client is not client and self._client is not None:
                return
            self._leave.set()
            if self._keeper:
                await asyncio.wait({self._keeper}, timeout=2)
                self._keeper.cancel()
            self._client = None

    async def _gone(self, client: Client, why: str) -> ServerGone:
        await self._left(client)
        return ServerGone(f"{self._why or why}{self._said()}")

    def _broke(self, why: str) -> None:
        """Take note why the server is spoken with no more."""
        self._why = why

    def _said(self) -> str:
        """Return the end of what the server wrote to its standard error, and what helps."""
        if self._errors is None:
            return ""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - _SHOWN))
        text = self._errors.read().decode(errors="replace").strip()
        advice = self.spec.advice(text)
        return (f"\n{advice}" if advice else "") + (f"\nIts last words:\n{text}" if text else "")


async def _listed(client: Client) -> Sequence[types.Tool]:
    """Return all tools of a server, page by page.

    Raises:
        ServerGone: There is no end to them.
    """
    listed = await client.list_tools()
    tools = list(listed.tools)
    for _ in range(_PAGES):
        if len(tools) > _TOOLS or not listed.next_cursor:
            break
        listed = await client.list_tools(cursor=listed.next_cursor)
        tools += listed.tools
    if len(tools) > _TOOLS or listed.next_cursor:
        raise ServerGone(f"it lists tools without end; at most {_TOOLS} are taken, on {_PAGES} pages")
    return tools


def _reason(error: BaseException) -> str:
    """Return what is at the bottom of an error that came through task groups."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return str(error) or type(error).__name__
