"""`midturn serve` at a terminal: the QR code, Enter for another code, Ctrl-C, and a
certificate.
"""

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
from support.serving import enter, free_port, loopback_request

WAITS = "Press Ctrl-C to stop the server; turns stay open."


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment without the settings of the real user."""
    return {
        name: str(tmp_path / name)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }


def serving(tmp_path: Path, environment: dict[str, str], *options: str) -> PtySession:
    command = [
        sys.executable,
        "-m",
        "midturn",
        "serve",
        "--store",
        str(tmp_path / "conversations"),
        *options,
    ]
    return PtySession(command, size=(100, 60), environment=environment)


@pytest.fixture
def terminal(tmp_path: Path, environment: dict[str, str]) -> Generator[PtySession]:
    """Serve at a terminal."""
    with serving(tmp_path, environment, "--port", str(free_port())) as session:
        session.wait_for(WAITS)
        yield session


def addresses(session: PtySession) -> list[str]:
    """Return the printed addresses with a code."""
    return re.findall(r"https?://\S+/enter\?code=[A-Z0-9-]{19}", session.raw.decode())


def squares(session: PtySession, address: str) -> list[str]:
    """Read the QR code above an address from the screen: a row of 0 and 1 for each row of
    modules, 1 for dark.
    """
    rows = session.screen.display
    end = next(place for place, row in enumerate(rows) if address in row)
    start = end
    while set(rows[start - 1].rstrip()) <= set("█▀▄ ") and rows[start - 1].strip():
        start -= 1
    drawn: list[str] = []
    for row in rows[start:end]:
        width = len(rows[start].rstrip())
        drawn += [
            "".join("0" if sign in half else "1" for sign in row[:width]) for half in ("█▀", "█▄")
        ]
    return drawn


def test_qr_code_contains_the_address_and_enter_draws_another(terminal: PtySession) -> None:
    (first,) = addresses(terminal)
    terminal.send("\r")
    terminal.wait_until(lambda: len(addresses(terminal)) == 2, "a second address")
    second = addresses(terminal)[1]
    assert second != first
    terminal.wait_for(second)
    drawn = squares(terminal, second)
    expected = [
        "".join(map(str, row)) for row in segno.make(second, error="l").matrix_iter(border=1)
    ]
    assert drawn[: len(expected)] == expected
    assert b"\x1b[97;40m" in terminal.raw
    for address in (first, second):
        entrance, host = loopback_request(address)
        with httpx2.Client(headers=host, timeout=120) as browser:
            assert enter(browser, entrance).status_code == 303
            assert enter(browser, entrance).status_code == 401


def test_unreachable_address_for_phones_is_reported(terminal: PtySession) -> None:
    assert (
        "Only this machine can open the page. To use it on a phone, set up a tunnel and restart"
        " with `--url` and its URL." in " ".join(terminal.text.split())
    )


def test_ctrl_c_ends_the_server_and_leaves_the_terminal_as_it_was(terminal: PtySession) -> None:
    terminal.send("\x03")
    assert terminal.wait_for_end() == 0
    assert b"Traceback" not in terminal.raw
    assert b"^C" not in terminal.raw
    assert terminal.settings == terminal.read_settings()


def test_certificate_serves_only_tls(tmp_path: Path, environment: dict[str, str]) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    options = [
        "--port",
        str(free_port()),
        "--tls-cert",
        str(tmp_path / "cert.pem"),
        "--tls-key",
        str(tmp_path / "key.pem"),
    ]
    with serving(tmp_path, environment, *options) as session:
        session.wait_for(WAITS)
        (address,) = addresses(session)
        assert address.startswith("https://127.0.0.1:")
        with httpx2.Client(verify=trusting, timeout=120) as browser:
            entered = enter(browser, address)
            assert (entered.status_code, "Secure" in entered.headers["set-cookie"]) == (200, True)
            assert entered.headers["set-cookie"].startswith("__Host-")
            key = re.findall(r'data-key="([^"]{20,})"', entered.text)[0]
            page = browser.get(address.partition("/enter")[0] + "/", headers={"X-Midturn-Key": key})
            assert (page.status_code, "You're all caught up" in page.text) == (200, True)
        with httpx2.Client(timeout=60) as plain, pytest.raises(httpx2.HTTPError):
            plain.get(address.replace("https://", "http://"))
