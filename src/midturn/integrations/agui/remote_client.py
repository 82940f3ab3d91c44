"""Runs a remote agent over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias

import httpx
import msgspec
from msgspec import Struct

from midturn.integrations.agui.protocol import AguiMessage
from midturn.integrations.agui.remote_run import (
    Failed,
    MalformedEvent,
    RemoteRun,
    RunReader,
    SseReader,
    read_event,
)
from midturn.integrations.agui.run_input import PROTOCOL_VERSION
from midturn.integrations.remote_http import (
    MAX_RESPONSE_BYTES,
    RemoteError,
    ResponseRefused,
    limited_client,
)
from midturn.question.json_value import Json
from midturn.question.text import single_line

DEFAULT_TIMEOUT: Final = 3600.0
"""Default for the maximum duration of a run, in seconds."""
MAX_REQUEST_BYTES: Final = MAX_RESPONSE_BYTES
"""Maximum size of a run request in bytes. The request contains all messages of the thread."""
_ATTEMPTS: Final = 3  # maximum number of attempts if a request fails or is cut off
_RETRY_DELAY: Final = 1.0
_TEMPORARY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_MAX_BODY_SHOWN: Final = 400
_HEADERS: Final = {"content-type": "application/json", "accept": "text/event-stream"}


class Restarted(Struct, frozen=True):
    """The run was cut off and is sent again. Discard the texts received so far."""


class RunRequest(Struct, frozen=True, kw_only=True):
    """A run to send.

    Args:
        thread: ID of the thread.
        run: ID of the run. A run that is sent again keeps its ID.
        messages: All messages of the thread.
        state: State of the agent.
        entries: Answers to the interrupts of the last run.
    """

    thread: str
    run: str
    messages: Sequence[AguiMessage]
    state: Json = {}
    entries: Sequence[Json] = ()

    @property
    def body(self) -> bytes:
        """The body of the request. Agents that use a version before 1.0 require the empty members.

        Raises:
            RemoteError: The body is too large.
        """
        given: dict[str, Json] = {
            "threadId": self.thread,
            "runId": self.run,
            "protocolVersion": PROTOCOL_VERSION,
            "messages": [*self.messages],
            "state": self.state,
            "tools": [],
            "context": [],
            "forwardedProps": {},
        }
        if self.entries:
            given["resume"] = [*self.entries]
        body = msgspec.json.encode(given)
        if len(body) > MAX_REQUEST_BYTES:
            raise RemoteError(
                f"The messages of the thread have {len(body):,} bytes. At most"
                f" {MAX_REQUEST_BYTES:,} are sent to a remote agent."
            )
        return body


Received: TypeAlias = "str | Restarted | RemoteRun"


class RemoteAgent(Struct, frozen=True, kw_only=True):
    """A remote agent.

    Args:
        url: Address of the agent.
        headers: Headers of each request, such as `Authorization`.
        timeout: Maximum duration of a run, in seconds.
    """

    url: str
    headers: Mapping[str, str] = {}
    timeout: float = DEFAULT_TIMEOUT

    async def run(self, request: RunRequest) -> AsyncGenerator[Received]:
        """Send a run. Yield its texts as they arrive, and finally its result.

        A run that is cut off is sent again with the same ID, so the remote agent runs it at least
        once. If a run that carries answers to interrupts ends as failed, it is sent once more.

        Raises:
            RemoteError: The agent cannot be reached, refuses the run, or breaks the protocol.
        """
        body, attempt, is_repeated = request.body, 1, False
        while True:
            has_text = False
            try:
                async with aclosing(self._attempt(request, body)) as events:
                    async for received in events:
                        if _is_failed(received) and request.entries and not is_repeated:
                            is_repeated = True
                            break
                        has_text = has_text or isinstance(received, str)
                        yield received
                    else:
                        return
            except _CutOff as error:
                if attempt == _ATTEMPTS:
                    raise RemoteError(str(error)) from None
                await asyncio.sleep(_RETRY_DELAY * attempt)
                attempt += 1
            if has_text:
                yield Restarted()

    @property
    def _host(self) -> str:
        return httpx.URL(self.url).host

    async def _attempt(self, request: RunRequest, body: bytes) -> AsyncGenerator[str | RemoteRun]:
        """Send a run once.

        Raises:
            RemoteError: The agent refuses the run, or breaks the protocol.
            _CutOff: The request failed, but a retry may succeed.
        """
        until = asyncio.get_running_loop().time() + self.timeout
        reader, events = RunReader(request.messages, request.state), SseReader()
        try:
            async with limited_client(self.headers, seconds=self.timeout) as http:
                sent = http.build_request("POST", self.url, content=body, headers=_HEADERS)
                async with asyncio.timeout_at(until):
                    response = await http.send(sent, stream=True)
                async with aclosing(response):
                    chunks = response.aiter_bytes()
                    async with asyncio.timeout_at(until):
                        await self._check(response)
                    while (chunk := await _next(chunks, until)) is not None:
                        for data in events.take(chunk):
                            for part in reader.take(read_event(data)):
                                yield part
                            if reader.outcome is not None:
                                yield reader.result
                                return
        except TimeoutError:
            raise RemoteError(
                f"The agent at {self._host} has not finished after {self.timeout:g} s."
            ) from None
        except ResponseRefused as error:
            raise RemoteError(
                f"The run of the agent at {self._host} is too large: {error}."
            ) from None
        except httpx.ReadError as error:
            raise _CutOff(f"The run of the agent at {self._host} was cut off: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise _CutOff(f"The agent at {self._host} cannot be reached: {reason}") from None
        raise _CutOff(f"The run of the agent at {self._host} was cut off before its last event.")

    async def _check(self, response: httpx.Response) -> None:
        """Check the status and the type of a response.

        Raises:
            RemoteError: The response is a redirect, a permanent error, or not an event stream.
            _CutOff: The agent is temporarily unavailable.
        """
        status = response.status_code
        if response.is_redirect:
            raise RemoteError(
                f"The agent at {self._host} redirects to another address, which is not followed."
            )
        if not response.is_success:
            body = (await response.aread())[: 4 * _MAX_BODY_SHOWN].decode(errors="replace")
            words = single_line(body)[:_MAX_BODY_SHOWN]
            refused = f"The agent at {self._host} refuses the run with status {status}. {words}"
            raise (_CutOff if status in _TEMPORARY else RemoteError)(refused.strip())
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "text/event-stream":
            raise MalformedEvent(
                f"The agent at {self._host} does not speak AG-UI: its response is"
                f" {media_type[:100] or 'of no type'!r}, not `text/event-stream`."
            )


def _is_failed(received: str | RemoteRun) -> bool:
    return isinstance(received, RemoteRun) and isinstance(received.outcome, Failed)


async def _next(chunks: AsyncIterator[bytes], until: float) -> bytes | None:
    """Return the next chunk, or None at the end of the response.

    Raises:
        TimeoutError: No chunk arrives before `until`.
    """
    async with asyncio.timeout_at(until):
        return await anext(chunks, None)


class _CutOff(Exception):  # noqa: N818  handled at once, never shown
    """A request failed, but a retry may succeed."""
