"""HTTP servers that send too much or drop the connection.

Each such call fails with an error that names the reason. The next call succeeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.mcp.bounded_http import MAX_MESSAGE_SIZE, TOO_LARGE_TEXT
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from support.hooks import until
from support.misbehaving_http_mcp_server import MisbehavingHttpServer
from support.misbehaving_server import MisbehavingServer

UNUSABLE = "`liar_{lie}`: the MCP server `liar` gave a result that cannot be used: {why}"
BETWEEN = 16 * 1024 * 1024
"""Maximum number of bytes that can be in transit after the client stops reading."""
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=["legacy", "modern"])
def server(request: pytest.FixtureRequest) -> MisbehavingHttpServer:
    server = MisbehavingHttpServer(request.param)
    server.streams_endlessly = request.param == "babbling"
    return server


@pytest.fixture
def misbehaving(
    server: MisbehavingHttpServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Iterator[MisbehavingServer]:
    with server.listening() as url, McpServers([ServerSpec(name="liar", url=url)]) as servers:
        assert servers.problems == {}
        yield MisbehavingServer(servers, tmp_path)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("lie", ["chunked", "bare", "event", "lines"])
def test_an_endless_response_is_dropped_at_the_limit(
    server: MisbehavingHttpServer, misbehaving: MisbehavingServer, lie: str
) -> None:
    assert misbehaving.calls_at_once(lie, "honest") == [
        (UNUSABLE.format(lie=lie, why=TOO_LARGE_TEXT), True),
        ("Yes.", False),
    ]
    assert MAX_MESSAGE_SIZE < server.sent < MAX_MESSAGE_SIZE + BETWEEN


@pytest.mark.parametrize("lie", ["bomb", "bombed"])
def test_a_compressed_response_is_not_unpacked(misbehaving: MisbehavingServer, lie: str) -> None:
    why = "it is compressed (gzip), which was not asked for"

    assert misbehaving.calls_at_once(lie, "honest") == [
        (UNUSABLE.format(lie=lie, why=why), True),
        ("Yes.", False),
    ]


def test_a_broken_response_fails_only_its_own_call(misbehaving: MisbehavingServer) -> None:
    broken, honest = misbehaving.calls_at_once("broken", "honest")

    assert broken == (UNUSABLE.format(lie="broken", why="it broke off before its end"), True)
    assert honest == ("Yes.", False)


@pytest.mark.parametrize("lie", ["silent", "half"])
def test_a_call_without_a_response_fails_alone(
    server: MisbehavingHttpServer, misbehaving: MisbehavingServer, lie: str
) -> None:
    (content, is_error), honest = misbehaving.calls_at_once(lie, "honest")

    assert is_error
    assert "the MCP server `liar` has gone away: " in content
    assert honest == ("Yes.", False)
    assert server.sessions == (0 if server.is_modern else 1), "the others go on in the same session"


def test_a_large_event_is_accepted_as_a_result(misbehaving: MisbehavingServer) -> None:
    content, is_error = misbehaving.calls("large")

    assert not is_error
    assert content.startswith("xxx")


@pytest.mark.parametrize("server", ["babbling"], indirect=True)
def test_unsolicited_messages_are_limited_too(
    server: MisbehavingHttpServer, misbehaving: MisbehavingServer
) -> None:
    until(lambda: server.looks, lambda looks: looks == 2)  # the client reconnects once, then stops

    assert misbehaving.calls("honest") == ("Yes.", False)
    until(lambda: server.sent, lambda sent: sent > MAX_MESSAGE_SIZE * 2)
    assert server.sent < (MAX_MESSAGE_SIZE + BETWEEN) * 2


@pytest.mark.parametrize("status", [404, 400])
@pytest.mark.parametrize("server", ["legacy"], indirect=True)
def test_a_call_in_a_lost_session_is_repeated_in_a_new_one(
    server: MisbehavingHttpServer, misbehaving: MisbehavingServer, status: int
) -> None:
    server.forgets, server.status = {"1"}, status

    assert misbehaving.calls("honest") == ("Yes.", False)
    assert (server.sessions, server.taken) == (2, ["honest"])


@pytest.mark.parametrize("server", ["legacy"], indirect=True)
def test_a_server_that_loses_every_session_is_not_retried_forever(
    server: MisbehavingHttpServer, misbehaving: MisbehavingServer
) -> None:
    server.forgets = {str(number) for number in range(1, 100)}

    gone = "the MCP server `liar` has gone away: it lost the session twice: No valid session ID"
    assert misbehaving.calls("honest") == (f"`liar_honest`: {gone}", True)
    assert (server.sessions, server.taken) == (2, [])
