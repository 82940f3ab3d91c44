"""One server: connected when it is needed, again when it has gone away."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, cast

import anyio
import httpx2
from mcp import Client, types
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from midturn import __version__
from midturn.core.loose_json import members, objects
from midturn.mcp.asking import AsksTooMuch, Elicitations
from midturn.mcp.spec import ServerSpec
from midturn.mcp.stdio import TOO_LONG, started

_LOG = logging.getLogger(__name__)
_START = 20.0  # seconds in which a server has to answer first
_ROUNDS = 10  # times that a server may ask in one call
_BACK_OFF = 0.1
_SHOWN = 2000  # bytes of what a server wrote to its standard error
_INVALID = -32602
_CANCEL = types.ElicitResult(action="cancel")
_ADDRESSES_FIRST = -32042
_LOST = (OSError, EOFError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, BaseExceptionGroup)


class ServerGone(Exception):  # noqa: N818  it says what happened
    """The server cannot be reached, or went away; the message says what is known."""


class UnfitResult(Exception):  # noqa: N818  it says what it is
    """A result is not what the server itself has said of its results; the message says how."""


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
        self._connecting = asyncio.Lock()
        self._call: _Call | None = None
        self._errors: IO[bytes] | None = None
        self._why = ""

    async def start(self) -> None:
        """Connect, and learn which tools there are.

        Raises:
            ServerGone: It does not start, or does not answer.
        """
        await self._connected()

    async def close(self) -> None:
        """Leave the server."""
        self._leave.set()
        if self._keeper:
            await asyncio.wait({self._keeper}, timeout=5)
            self._keeper.cancel()
        if self._errors:
            self._errors.close()

    async def call(self, tool: str, arguments: dict[str, Any], asked: Elicitations, silence: float) -> types.CallToolResult:
        """Call a tool; what the server asks meanwhile is asked.

        Args:
            tool: The server's own name for it.
            arguments: What the model gave.
            asked: Asks, and knows what came of it.
            silence: How many seconds it may neither answer, ask, nor say that it goes on.

        Raises:
            ServerGone: It went away.
            TimeoutError: It was silent for too long, or does not come to an end.
            MCPError: It refuses.
            AsksTooMuch: It asks without end.
            UnfitResult: What it returned does not fit the schema that it gave for it.
        """
        client = await self._connected()
        call: _Call | None = None
        try:
            async with self._alone(client), asyncio.timeout(silence) as limit:
                self._call = call = _Call(self, client.session, asked, limit, silence)
                try:
                    return await call.make(tool, arguments)
                finally:
                    call.is_over = True
        except MCPError as error:
            if error.error.code == TOO_LONG:
                raise UnfitResult(str(error)) from error
            if error.error.code != types.CONNECTION_CLOSED:
                raise
            raise await self._gone(str(error)) from error
        except TimeoutError as error:
            if call and call.asks_too_much:
                raise call.asks_too_much from error
            raise
        except _LOST as error:
            raise await self._gone(_reason(error)) from error

    @asynccontextmanager
    async def _alone(self, client: Client) -> AsyncGenerator[None]:
        """Let one call at a time run where a server asks without saying for which call (the older protocol)."""
        if (client.session.protocol_version or "") >= "2026":
            yield
            return
        async with self._lock:
            yield

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
        try:
            async with self._opened() as client:
                listed = await client.list_tools()
                tools = list(listed.tools)
                while listed.next_cursor:
                    listed = await client.list_tools(cursor=listed.next_cursor)
                    tools += listed.tools
                self.tools = tools
                ready.set_result(client)
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001  whoever waits hears of it
            if not ready.done():
                ready.set_exception(error)
            else:
                _LOG.warning("the MCP server %r: %r", self.spec.name, str(error))
        finally:
            self._client = None

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Client]:
        answer = self._answer if self.spec.asks else None
        info = types.Implementation(name="midturn", version=__version__)
        if self.spec.url is not None:
            async with httpx2.AsyncClient(headers=dict(self.spec.headers), timeout=httpx2.Timeout(30, read=None)) as http:
                transport = streamable_http_client(self.spec.url, http_client=http)
                async with Client(transport, client_info=info, elicitation_callback=answer) as client:
                    yield client
            return
        if self._errors:
            self._errors.close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  it is read when the server has gone
        self._why = ""
        transport = started(self.spec, self._errors, self._broke)
        async with Client(transport, client_info=info, elicitation_callback=answer) as client:
            yield client

    async def _answer(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask what a server of the older protocol asks during the one call that runs; nobody is shown what it asks when none does."""
        del context
        return await self._call.pushed(params) if self._call else _CANCEL

    async def _gone(self, why: str) -> ServerGone:
        self._leave.set()
        if self._keeper:
            await asyncio.wait({self._keeper}, timeout=2)
            self._keeper.cancel()
        self._client = None
        return ServerGone(f"{self._why or why}{self._said()}")

    def _broke(self, why: str) -> None:
        """Take note why the server is spoken with no more."""
        self._why = why

    def _said(self) -> str:
        """Return the end of what the server wrote to its standard error."""
        if self._errors is None:
            return ""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - _SHOWN))
        text = self._errors.read().decode(errors="replace").strip()
        return f"\nIts last words:\n{text}" if text else ""


class _Call:
    """One call, over as many rounds as the server asks in."""

    def __init__(self, connection: Connection, session: Any, asked: Elicitations, limit: asyncio.Timeout, silence: float) -> None:
        self._connection = connection
        self._session = session
        self._asked = asked
        self._limit = limit
        self._silence = silence
        self._open = 0
        self.is_over = False
        self.asks_too_much: AsksTooMuch | None = None

    async def make(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call, answer, call again."""
        responses: dict[str, types.InputResponse] | None = None
        state: str | None = None
        for last in reversed(range(_ROUNDS)):
            try:
                result = await self._sent(tool, arguments, responses, state)
            except MCPError as error:
                if error.error.code == _ADDRESSES_FIRST and self._connection.spec.asks:
                    await self._addresses(error)
                elif error.error.code != _INVALID or state is None or not last:
                    raise
                responses, state = None, None  # the server has forgotten: from the start, with the answers that are there
                self._asked.start_over()
                continue
            if not isinstance(result, types.InputRequiredResult):
                return result
            responses, state = await self._responses(result), result.request_state
            if not responses:
                await asyncio.sleep(_BACK_OFF)
        raise TimeoutError(f"it has sent this one call back {_ROUNDS} times, and still wants more")

    async def _sent(
        self, tool: str, arguments: dict[str, Any], responses: dict[str, types.InputResponse] | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            return await self._session.call_tool(
                tool,
                arguments,
                progress_callback=self._goes_on,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
        except RuntimeError as error:  # the SDK's, where a result and its schema do not fit
            raise UnfitResult(str(error).partition("\n")[0]) from error

    async def asking(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask; the clock stands still meanwhile. What is asked for a call that is over, or ends meanwhile, is shown to nobody any more."""
        return await self._watched(self._asked.answer(params))

    async def pushed(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer what a server sends by itself: where it is too much, the call ends, and not what speaks with the server."""
        if self.is_over:
            return _CANCEL
        try:
            return await self.asking(params)
        except AsksTooMuch as error:
            self.asks_too_much = error
            if not self._limit.expired():
                self._limit.reschedule(asyncio.get_running_loop().time())
            return _CANCEL

    async def _watched(self, answering: Coroutine[Any, Any, types.ElicitResult]) -> types.ElicitResult:
        self._open += 1
        self._wind()
        try:
            return await answering
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _CANCEL  # not this task: whoever ran the call has withdrawn the question
        finally:
            self._open -= 1
            self._wind()

    def _wind(self) -> None:
        """Give the server its time again from now on; all of it while anybody is asked."""
        if self.is_over or self.asks_too_much or self._limit.expired():
            return
        self._limit.reschedule(None if self._open else asyncio.get_running_loop().time() + self._silence)

    async def _addresses(self, error: MCPError) -> None:
        """Ask a person to open what the server wants opened before the call.

        Raises:
            MCPError: They do not, or nobody could be shown it.
        """
        for wanted in objects(members(error.error.data).get("elicitations")):
            said = await self._watched(self._asked.answer_now(types.ElicitRequestURLParams.model_validate(wanted)))
            if said.action != "accept":
                why = "the user did not open the address" if said.action == "decline" else "nobody could be shown the address"
                raise MCPError(_ADDRESSES_FIRST, f"{why} that it needs opened first")

    async def _responses(self, result: types.InputRequiredResult) -> dict[str, types.InputResponse] | None:
        responses: dict[str, types.InputResponse] = {}
        for key, request in (result.input_requests or {}).items():
            if not isinstance(request, types.ElicitRequest):
                raise MCPError(types.INVALID_REQUEST, f"it wants {request.method}, which is refused here")
            responses[key] = await self.asking(request.params)
        return responses or None

    async def _goes_on(self, progress: float, total: float | None, message: str | None) -> None:
        _LOG.debug("the MCP server %r: %s of %s %s", self._connection.spec.name, progress, total, message or "")
        self._wind()


def _reason(error: BaseException) -> str:
    """Return what is at the bottom of an error that came through task groups."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return str(error) or type(error).__name__
