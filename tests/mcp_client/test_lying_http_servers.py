"""Servers over HTTP that send more than there is room for, or break off: one call is an error that says so, and the next one is served."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.mcp.bounded_http import LONGEST, TOO_MUCH
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from support.hooks import until
from support.liar import Liar
from support.lying_http_mcp_server import LyingServer

UNUSABLE = "`liar_{lie}`: the MCP server `liar` gave a result that cannot be used: {why}"
BETWEEN = 16 * 1024 * 1024
"""Bytes that may be on their way when nobody listens any more."""
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=["legacy", "modern"])
def server(request: pytest.FixtureRequest) -> LyingServer:
    server = LyingServer(request.param)
    server.babbles = request.param == "babbling"
    return server


@pytest.fixture
def liar(server: LyingServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Liar]:
    with server.listening() as url, McpServers([ServerSpec(name="liar", url=url)]) as servers:
        assert servers.problems == {}
        yield Liar(servers, tmp_path)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("lie", ["chunked", "bare", "event", "lines"])
def test_what_has_no_end_is_left_as_soon_as_it_is_too_much(server: LyingServer, liar: Liar, lie: str) -> None:
    assert liar.calls_at_once(lie, "honest") == [(UNUSABLE.format(lie=lie, why=TOO_MUCH), True), ("Yes.", False)]
    assert LONGEST < server.sent < LONGEST + BETWEEN


@pytest.mark.parametrize("lie", ["bomb", "bombed"])
def test_what_was_compressed_is_not_unpacked(liar: Liar, lie: str) -> None:
    why = "it is compressed (gzip), which was not asked for"

    assert liar.calls_at_once(lie, "honest") == [(UNUSABLE.format(lie=lie, why=why), True), ("Yes.", False)]


def test_an_answer_that_breaks_off_costs_its_own_call_only(liar: Liar) -> None:
    broken, honest = liar.calls_at_once("broken", "honest")

    assert broken == (UNUSABLE.format(lie="broken", why="it broke off before its end"), True)
    assert honest == ("Yes.", False)


@pytest.mark.parametrize("lie", ["silent", "half"])
def test_a_call_that_gets_no_answer_costs_its_own_call_only(server: LyingServer, liar: Liar, lie: str) -> None:
    (content, is_error), honest = liar.calls_at_once(lie, "honest")

    assert is_error
    assert "the MCP server `liar` has gone away: " in content
    assert honest == ("Yes.", False)
    assert server.sessions == (0 if server.is_modern else 1), "the others go on in the same session"


def test_a_large_event_is_a_result_like_any_other(liar: Liar) -> None:
    content, is_error = liar.calls("large")

    assert not is_error
    assert content.startswith("xxx")


@pytest.mark.parametrize("server", ["babbling"], indirect=True)
def test_what_a_server_says_by_itself_has_an_end_too(server: LyingServer, liar: Liar) -> None:
    until(lambda: server.looks, lambda looks: looks == 2)  # it is listened to once more, and then no more

    assert liar.calls("honest") == ("Yes.", False)
    until(lambda: server.sent, lambda sent: sent > LONGEST * 2)
    assert server.sent < (LONGEST + BETWEEN) * 2


@pytest.mark.parametrize("status", [404, 400])
@pytest.mark.parametrize("server", ["legacy"], indirect=True)
def test_a_call_that_finds_its_session_gone_is_made_in_a_new_one(server: LyingServer, liar: Liar, status: int) -> None:
    server.forgets, server.status = {"1"}, status

    assert liar.calls("honest") == ("Yes.", False)
    assert (server.sessions, server.taken) == (2, ["honest"])


@pytest.mark.parametrize("server", ["legacy"], indirect=True)
def test_a_server_that_knows_no_session_is_not_tried_for_ever(server: LyingServer, liar: Liar) -> None:
    server.forgets = {str(number) for number in range(1, 100)}

    gone = "the MCP server `liar` has gone away: it loses one session after the other: No valid session ID"
    assert liar.calls("honest") == (f"`liar_honest`: {gone}", True)
    assert (server.sessions, server.taken) == (2, [])
