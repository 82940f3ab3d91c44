"""HTTP requests to remote agents: checks of their addresses, and limits on their responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx

from midturn.errors import ConfigError, MidturnError
from midturn.http import LOOPBACK

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a response from a remote agent, in bytes."""
_CONNECT_SECONDS: Final = 30.0


class RemoteError(MidturnError):
    """The remote agent cannot be reached, refuses a request, or breaks the protocol."""


class ResponseRefused(httpx.ReadError):
    """A response is compressed or too large."""


def check_url(url: str) -> None:
    """Check the address of a remote agent.

    Raises:
        ConfigError: The address is not valid, is neither an HTTPS address nor an address of this
            machine, or contains a user name or a password.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018  raises if the port is not valid
        has_user = parts.username is not None or parts.password is not None
    except ValueError:
        raise ConfigError(f"{url!r:.200} is not an address.") from None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"{url!r:.200} is not an HTTP address.")
    if has_user:  # not shown, because it contains a secret
        raise ConfigError(
            f"The address of the agent at {host!r:.200} contains a user name or a password, which"
            " would be recorded. Pass a header instead."
        )
    if parts.scheme == "http" and host not in LOOPBACK:
        raise ConfigError(
            f"{url!r:.200} is not encrypted. Use `https`, except for agents on this machine."
        )


def limited_client(headers: Mapping[str, str], *, seconds: float) -> httpx.AsyncClient:
    """Return a client that limits the size of responses and does not follow redirects.

    Compressed responses are refused, because their size is known only after they are in memory.

    Args:
        headers: Headers of each request, such as `Authorization`.
        seconds: Maximum time between two parts of a response in seconds.
    """
    return httpx.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx.Timeout(seconds, connect=_CONNECT_SECONDS),
        transport=_LimitedTransport(httpx.AsyncHTTPTransport()),
        follow_redirects=False,
    )


class _LimitedTransport(httpx.AsyncBaseTransport):
    """Limits the size of responses."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        response = await self._transport.handle_async_request(request)
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity":
            await response.aclose()
            raise ResponseRefused(f"the response is compressed ({coding[:20]})")
        if isinstance(response.stream, httpx.AsyncByteStream):
            response.stream = _LimitedStream(response.stream)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


class _LimitedStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                raise ResponseRefused(f"the response is larger than {MAX_RESPONSE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
