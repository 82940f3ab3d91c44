"""Health probes of the page's server and of a worker, each as a process."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from midturn import http_server
from midturn.http_server import Health
from support.served import MIDTURN, Served
from support.serving import free_port, wait_for_listener

AGENT = """
import midturn as mt
agent = mt.Agent(mt.ScriptedModel([{"text": "Done."}]), store=mt.open_store("conversations"))
"""


def probed(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    """Send a probe without a host name of the page."""
    answer = httpx2.get(
        f"http://{host}:{port}{path}", headers={"Host": "pod-17.example"}, timeout=120
    )
    return answer.status_code, answer.text


def put_a_file_in_place_of(folder: Path) -> None:
    """Make a store fail.

    Repeat it: the server may create its directory at any time, to record since when it sends
    notices.
    """
    while not folder.is_file():
        if folder.is_dir():
            folder.rename(folder.with_name(f"away-{time.monotonic_ns()}"))
        with suppress(FileExistsError):
            folder.touch(exist_ok=False)


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    served = Served(tmp_path, ())
    served.address()
    yield served
    served.end()


def test_health_probe_reports_liveness_and_store(served: Served, tmp_path: Path) -> None:
    assert probed(served.port, "/healthz") == (200, "alive\n")
    assert probed(served.port, "/readyz") == (200, "ready\n")
    assert probed(served.port, "/readyz", "[::1]")[0] == 200

    put_a_file_in_place_of(tmp_path / "conversations")

    assert probed(served.port, "/healthz") == (200, "alive\n")
    assert probed(served.port, "/readyz") == (503, "not ready: the store does not answer\n")


def test_probe_grants_no_other_access(served: Served) -> None:
    assert probed(served.port, "/")[0] == 421
    assert probed(served.port, "/healthz/../api/questions")[0] == 421
    assert (
        httpx2.post(
            f"http://127.0.0.1:{served.port}/healthz",
            headers={"Host": "pod-17.example"},
            timeout=120,
        ).status_code
        == 421
    )
    assert httpx2.head(f"http://127.0.0.1:{served.port}/healthz").text == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_worker_answers_probes_and_stops_quickly(tmp_path: Path, host: str) -> None:
    (tmp_path / "shop.py").write_text(AGENT)
    port = free_port()
    command = [*MIDTURN, "worker", "shop:agent", "--health", f"{host}:{port}"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr
        assert "midturn: worker started (up to" in worker.stderr.readline()
        wait_for_listener(port)
        assert probed(port, "/healthz", host) == (200, "alive\n")
        assert probed(port, "/readyz", host) == (200, "ready\n")
        assert probed(port, "/", host)[0] == 404
        with socket.create_connection(
            ("127.0.0.1", port)
        ):  # an incomplete request does not block the worker
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(120) == 143


@pytest.mark.parametrize(
    "address",
    ["", "8080", ":8080", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:0", "127.0.0.1:65536"],
)
def test_invalid_probe_address_is_reported(tmp_path: Path, address: str) -> None:
    (tmp_path / "shop.py").write_text(AGENT)
    command = [*MIDTURN, "worker", "shop:agent", "--health", address]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (
        done.returncode,
        ". Expected HOST:PORT, for example 127.0.0.1:8080." in " ".join(done.stderr.split()),
    ) == (2, True), done.stderr


def test_used_port_is_reported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(AGENT)
    with socket.create_server(("127.0.0.1", 0)) as other:
        command = [
            sys.executable,
            "-m",
            "midturn",
            "worker",
            "shop:agent",
            "--health",
            f"127.0.0.1:{other.getsockname()[1]}",
        ]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
    assert (done.returncode, "Cannot listen on 127.0.0.1 port" in done.stderr) == (2, True), (
        done.stderr
    )


def test_hanging_store_is_checked_once_for_many_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "READY_SECONDS", 0.01)
    asked: list[asyncio.Event] = []

    async def look() -> None:
        asked.append(asyncio.Event())
        await asked[-1].wait()

    async def scene() -> None:
        transport = httpx2.ASGITransport(Health(look))
        async with httpx2.AsyncClient(transport=transport, base_url="http://probe") as client:
            for _ in range(3):
                assert (await client.get("/readyz")).status_code == 503
                assert (await client.get("/healthz")).status_code == 200
            assert len(asked) == 1
            asked[0].set()
            assert (await client.get("/readyz")).status_code == 200

    asyncio.run(scene())


def test_late_probes_wait_for_the_next_check() -> None:
    async def look() -> None:
        await asyncio.sleep(0)

    async def probes() -> list[int]:
        app = httpx2.ASGITransport(Health(look))
        async with httpx2.AsyncClient(transport=app, base_url="http://pod-17.example") as client:

            async def again() -> list[int]:
                return [(await client.get("/readyz")).status_code for _ in range(30)]

            return [
                status
                for found in await asyncio.gather(*(again() for _ in range(8)))
                for status in found
            ]

    assert set(asyncio.run(probes())) == {200}
