"""`midturn serve` at a terminal: the code that a camera reads, Enter for another one, Ctrl-C, and a certificate."""

from __future__ import annotations

import re
import ssl
import sys
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest
import segno
import trustme

from support.pty_session import PtySession
from support.serving import asked_here, enter, free_port

WAITS = "Ctrl-C ends the server"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which nothing of the user's is read."""
    return {name: str(tmp_path / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}


def serving(tmp_path: Path, environment: dict[str, str], *options: str) -> PtySession:
    command = [sys.executable, "-m", "midturn", "serve", "--store", str(tmp_path / "conversations"), *options]
    return PtySession(command, size=(100, 60), environment=environment)


@pytest.fixture
def terminal(tmp_path: Path, environment: dict[str, str]) -> Generator[PtySession]:
    """Serve on a terminal."""
    with serving(tmp_path, environment, "--port", str(free_port())) as session:
        session.wait_for(WAITS)
        yield session


def addresses(session: PtySession) -> list[str]:
    """Return the addresses with a code that were printed."""
    return re.findall(r"https?://\S+/enter\?code=[A-Z0-9-]{19}", session.raw.decode())


def squares(session: PtySession, address: str) -> list[str]:
    """Read the picture above an address off the screen: a row of 0 and 1 for each row of squares, 1 for what is dark to a camera."""
    rows = session.screen.display
    end = next(place for place, row in enumerate(rows) if address in row)
    start = end
    while set(rows[start - 1].rstrip()) <= set("█▀▄ ") and rows[start - 1].strip():
        start -= 1
    drawn: list[str] = []
    for row in rows[start:end]:
        width = len(rows[start].rstrip())
        drawn += ["".join("0" if sign in half else "1" for sign in row[:width]) for half in ("█▀", "█▄")]
    return drawn


def test_the_picture_is_the_address_and_enter_draws_another(terminal: PtySession) -> None:
    (first,) = addresses(terminal)
    terminal.send("\r")
    terminal.wait_until(lambda: len(addresses(terminal)) == 2, "a second address")
    second = addresses(terminal)[1]
    assert second != first
    terminal.wait_for(second)
    drawn = squares(terminal, second)
    expected = ["".join(map(str, row)) for row in segno.make(second, error="l").matrix_iter(border=1)]
    assert drawn[: len(expected)] == expected
    assert b"\x1b[97;40m" in terminal.raw
    for address in (first, second):
        entrance, host = asked_here(address)
        with httpx2.Client(headers=host) as browser:
            assert enter(browser, entrance).status_code == 303
            assert enter(browser, entrance).status_code == 401


def test_where_no_phone_gets_to_the_address_that_is_said(terminal: PtySession) -> None:
    assert "Only this machine reaches it. For a phone, have a tunnel lead here" in " ".join(terminal.text.split())


def test_ctrl_c_ends_the_server_and_leaves_the_terminal_as_it_was(terminal: PtySession) -> None:
    terminal.send("\x03")
    assert terminal.wait_for_end() == 0
    assert b"Traceback" not in terminal.raw
    assert b"^C" not in terminal.raw
    assert terminal.settings == terminal.read_settings()


def test_with_a_certificate_the_page_is_reached_over_tls_alone(tmp_path: Path, environment: dict[str, str]) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    options = ["--port", str(free_port()), "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    with serving(tmp_path, environment, *options) as session:
        session.wait_for(WAITS)
        (address,) = addresses(session)
        assert address.startswith("https://127.0.0.1:")
        with httpx2.Client(verify=trusting) as browser:
            entered = enter(browser, address)
            assert (entered.status_code, "Secure" in entered.headers["set-cookie"]) == (200, True)
            assert entered.headers["set-cookie"].startswith("__Host-")
            key = re.findall(r'data-key="([^"]{20,})"', entered.text)[0]
            page = browser.get(address.partition("/enter")[0] + "/", headers={"X-Midturn-Key": key})
            assert (page.status_code, "Nothing waits for you" in page.text) == (200, True)
        with httpx2.Client() as plain, pytest.raises(httpx2.HTTPError):
            plain.get(address.replace("https://", "http://"))
