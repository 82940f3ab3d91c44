"""Connections on which nobody else can read: TLS, or browser and server on one machine."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from midturn.web.closed import is_private


@pytest.mark.parametrize(
    ("scheme", "client", "host", "private"),
    [
        ("https", "203.0.113.5", "public.example", True),
        ("http", "127.0.0.1", "127.0.0.1:7478", True),
        ("http", "127.0.0.1", "localhost:7478", True),
        ("http", "127.0.0.1", "qwertyuiopasdfgh.localhost:7478", True),
        ("http", "::1", "[::1]:7478", True),
        (
            "http",
            "127.0.0.1",
            "public.example",
            False,
        ),  # a proxy on this machine and a browser elsewhere
        ("http", "127.0.0.1", "localhost.evil.example", False),
        ("http", "127.0.0.1", "", False),
        ("http", "192.0.2.7", "localhost:7478", False),  # the sender controls the Host header
        ("http", "192.0.2.7", "127.0.0.1:7478", False),
        ("http", None, "localhost:7478", False),
    ],
)
def test_connection_is_private_over_tls_or_on_one_machine(
    scheme: str,
    client: str | None,
    host: str,
    private: bool,  # noqa: FBT001 (the expected value)
) -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": scheme,
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", host.encode())],
        "client": (client, 50_000) if client else None,
        "server": ("127.0.0.1", 7478),
    }

    assert is_private(Request(scope)) is private
