"""Connection to one MCP server. It is opened on first use, and reopened if it was lost."""

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
from midturn.mcp.bounded_http import TOO_LARGE_CODE, BoundedClient, start_server
from midturn.mcp.call import CancelNotices, Elicitations, InvalidResult, ServerCall, skip_sdk_check
from midturn.mcp.spec import ServerSpec

_LOG = logging.getLogger(__name__)
_START_TIMEOUT = 20.0  # maximum seconds for the server to start and respond
_MAX_TOOLS = 1000
_MAX_PAGES = 100
# maximum number of bytes from the server's standard error in an error message
_MAX_STDERR_SHOWN = 2000
_CANCEL = types.ElicitResult(action="cancel")
_SDK_MODES = {"auto": "auto", "2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
"""The SDK's name of each protocol version."""
_CANNOT_ASK = "Cannot send 'elicitation/create'"
"""Error text from servers whose SDK uses the newer protocol, but asks questions as in the older
protocol.
"""
_CONNECTION_ERRORS = (
    OSError,
    EOFError,
    httpx2.HTTPError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    BaseExceptionGroup,
)


class ServerGone(Exception):  # noqa: N818  named for the event
    """The server cannot be reached, or the connection was lost. The message contains the reason
    if it is known.
    """


class _SessionLostError(Exception):
    """The server lost the session and did not accept the call, so the call can be sent again."""


class McpConnection:
    """Connection to a server. All methods run in the event loop of `McpServers`.

    Args:
        spec: Command or address of the server.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.tools: Sequence[types.Tool] = ()
        self._client: Client | None = None
        self._connection_task: asyncio.Task[None] | None = None
        self._close_requested = asyncio.Event()
        self._lock = asyncio.Lock()
        self._queue: list[Elicitations] = []
        self._connecting = asyncio.Lock()
        self._call: ServerCall | None = None
        self._cancel_notices = CancelNotices()
        self._http: BoundedClient | None = None
        self._errors: IO[bytes] | None = None
        self._failure = ""
        self._mode = _SDK_MODES[spec.protocol]

    async def start(self) -> None:
        """Connect and list the tools.

        Raises:
            ServerGone: The server does not start or does not answer.
        """
        await self._connected()

    async def close(self) -> None:
        """Disconnect from the server."""
        await self._cancel_notices.wait()
        self._close_requested.set()
        if self._connection_task:
            await asyncio.wait({self._connection_task}, timeout=5)
            self._connection_task.cancel()
        if self._errors:
            self._errors.close()

    async def call(
        self, tool: types.Tool, arguments: dict[str, Any], asked: Elicitations, max_silence: float
    ) -> types.CallToolResult:
        """Call a tool. The server's questions are answered during the call.

        Args:
            tool: The tool as the server lists it.
            arguments: Arguments from the model.
            asked: Answers the server's questions.
            max_silence: Maximum number of seconds without a result, question or progress message
                from the server.

        Raises:
            ServerGone: The connection was lost.
            TimeoutError: The server was silent for too long, or asked questions in too many
                rounds.
            MCPError: The server returned an error.
            TooManyForms: The server asked too many forms.
            InvalidResult: The result does not match the schema that the server declared.
        """
        try:
            result = await self._call_once(tool, arguments, asked, max_silence)
            if not self._needs_older_version(result):
                return result
            await self._use_older_version(asked)
        except (
            _SessionLostError
        ):  # the server did not accept the call, so it is sent again in a new session
            asked.start_over()
        except MCPError as error:
            if not self._needs_older_version(error):
                raise
            await self._use_older_version(asked)
        try:
            return await self._call_once(tool, arguments, asked, max_silence)
        except _SessionLostError as error:
            raise ServerGone(f"it lost the session twice: {error}") from error

    def _needs_older_version(self, said: types.CallToolResult | MCPError) -> bool:
        """Return whether the call failed because the server asks questions in a way that only
        the older protocol supports.
        """
        if self._mode != "auto" or self.spec.protocol != "auto" or not self.spec.asks:
            return False
        if isinstance(said, MCPError):
            return _CANNOT_ASK in str(said)
        return bool(said.is_error) and any(
            isinstance(block, types.TextContent) and _CANNOT_ASK in block.text
            for block in said.content
        )

    async def _use_older_version(self, asked: Elicitations) -> None:
        """Switch to the older protocol. The caller repeats the call and reuses its answers."""
        _LOG.info(
            "the MCP server %r cannot ask questions over the newest protocol version: using the"
            " older version",
            self.spec.name,
        )
        asked.start_over()
        client, self._mode = self._client, "legacy"
        if client is not None:
            await self._disconnect(client)

    async def _call_once(
        self, tool: types.Tool, arguments: dict[str, Any], asked: Elicitations, max_silence: float
    ) -> types.CallToolResult:
        client = await self._connected()
        async with self._one_at_a_time(client, asked):
            client = await self._connected()  # the previous call may have disconnected
            http = self._http
            try:
                return await self._call_within_limit(client, tool, arguments, asked, max_silence)
            except MCPError as error:
                raise await self._translate_error(error, client, http) from error
            except TimeoutError:
                raise
            except _CONNECTION_ERRORS as error:
                raise await self._server_gone(client, _reason(error)) from error

    async def _call_within_limit(
        self,
        client: Client,
        tool: types.Tool,
        arguments: dict[str, Any],
        asked: Elicitations,
        max_silence: float,
    ) -> types.CallToolResult:
        limit = asyncio.timeout(max_silence)
        self._call = call = ServerCall(
            client.session, asked, limit, max_silence, self._cancel_notices
        )
        try:
            async with limit:
                return await call.make(tool, arguments)
        except TimeoutError as error:
            if call.too_many_forms:
                await self._disconnect(
                    client
                )  # otherwise, the remaining questions of this call would reach the next call
                raise call.too_many_forms from error
            raise
        finally:
            call.is_over = True

    async def _translate_error(
        self, error: MCPError, client: Client, http: BoundedClient | None
    ) -> Exception:
        """Convert an error response to the exception to raise. Disconnect if the session or the
        connection is lost.
        """
        if http and http.has_lost_session:
            await self._disconnect(client)
            return _SessionLostError(str(error))
        match error.error.code:
            case code if code == TOO_LARGE_CODE:
                return InvalidResult(str(error))
            case types.CONNECTION_CLOSED if http and self._client is client:
                return ServerGone(
                    str(error)
                )  # over HTTP, only this request failed; the connection stays usable
            case types.CONNECTION_CLOSED:
                return await self._server_gone(client, str(error))
            case _:
                return error

    @asynccontextmanager
    async def _one_at_a_time(self, client: Client, asked: Elicitations) -> AsyncGenerator[None]:
        """If the protocol does not say which call a question belongs to (before 2026), run only
        one call at a time.
        """
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
            if (
                self._client is not None
                and self._connection_task
                and not self._connection_task.done()
            ):
                return self._client
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self._close_requested = asyncio.Event()
            self._connection_task = asyncio.create_task(self._hold_connection(ready))
            try:
                async with asyncio.timeout(_START_TIMEOUT):
                    self._client = await ready
            except TimeoutError as error:
                self._connection_task.cancel()
                raise ServerGone(
                    f"it did not answer within {_START_TIMEOUT:g} seconds.{self._stderr_text()}"
                ) from error
            except Exception as error:
                raise ServerGone(f"{_reason(error)}{self._stderr_text()}") from error
            return self._client

    async def _hold_connection(self, ready: asyncio.Future[Client]) -> None:
        """Keep the connection open in one task, because the task that opens the connection must
        also close it.
        """
        mine: Client | None = None
        try:
            async with self._open_client() as client:
                mine = client
                client.session.validate_tool_result = skip_sdk_check
                self.tools = await _list_tools(client)
                ready.set_result(client)
                await self._close_requested.wait()
        except Exception as error:  # noqa: BLE001  passed to the waiting call, or logged
            if not ready.done():
                ready.set_exception(error)
            else:
                _LOG.warning(
                    "lost the connection to the MCP server %r: %r", self.spec.name, str(error)
                )
        finally:
            if self._client is mine:
                self._client = None

    @asynccontextmanager
    async def _open_client(self) -> AsyncGenerator[Client]:
        answer = self._answer if self.spec.asks else None
        info = types.Implementation(name="midturn", version=__version__)
        if self.spec.url is not None:
            async with BoundedClient(dict(self.spec.headers)) as http:
                self._http = http
                transport = streamable_http_client(
                    self.spec.url, http_client=http, max_sse_event_size=None
                )
                async with Client(
                    transport, client_info=info, elicitation_callback=answer, mode=self._mode
                ) as client:
                    yield client
            return
        if self._errors:
            self._errors.close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  read after the server has exited
        self._failure = ""
        transport = start_server(self.spec, self._errors, self._record_failure)
        async with Client(
            transport, client_info=info, elicitation_callback=answer, mode=self._mode
        ) as client:
            yield client

    async def _answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Answer a question from a server that uses the older protocol. The question belongs to the
        running call. If no call is running, cancel the question.
        """
        del context
        return await self._call.pushed(params) if self._call else _CANCEL

    async def _disconnect(self, client: Client) -> None:
        """Disconnect, unless another call has already reconnected."""
        async with self._connecting:
            if self._client is not client and self._client is not None:
                return
            self._close_requested.set()
            if self._connection_task:
                await asyncio.wait({self._connection_task}, timeout=2)
                self._connection_task.cancel()
            self._client = None

    async def _server_gone(self, client: Client, why: str) -> ServerGone:
        await self._disconnect(client)
        return ServerGone(f"{self._failure or why}{self._stderr_text()}")

    def _record_failure(self, why: str) -> None:
        self._failure = why

    def _stderr_text(self) -> str:
        """Return the end of the server's standard error, with advice, for an error message."""
        if self._errors is None:
            return ""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - _MAX_STDERR_SHOWN))
        text = self._errors.read().decode(errors="replace").strip()
        advice = self.spec.advice(text)
        return (f"\n{advice}" if advice else "") + (
            f"\nEnd of its standard error:\n{text}" if text else ""
        )


async def _list_tools(client: Client) -> Sequence[types.Tool]:
    """Return all tools of a server, page by page.

    Raises:
        ServerGone: The list exceeds the limits.
    """
    listed = await client.list_tools()
    tools = list(listed.tools)
    for _ in range(_MAX_PAGES):
        if len(tools) > _MAX_TOOLS or not listed.next_cursor:
            break
        listed = await client.list_tools(cursor=listed.next_cursor)
        tools += listed.tools
    if len(tools) > _MAX_TOOLS or listed.next_cursor:
        raise ServerGone(
            f"its list of tools is too long; at most {_MAX_TOOLS} tools on {_MAX_PAGES} pages are"
            " supported"
        )
    return tools


def _reason(error: BaseException) -> str:
    """Return the message of the innermost first error in nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return str(error) or type(error).__name__
