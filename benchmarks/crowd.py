"""Response time of the inbox with and without 1,500 connections that never finish a request."""

from __future__ import annotations

import os
import resource
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx2

from midturn.question.question import Question
from midturn.stores.opening import FileStore
from support.pages import OWN, agent_with, asking, wait_for
from support.served import Served
from support.serving import enter, loopback_request

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
CROWD, WAITING, PAUSE, REFILL = 1_500, 20, 0.1, 1.0


def hold_half_requests(port: int) -> None:
    """Keep `CROWD` connections open with half a request each.

    Connections that the server drops are reopened each second.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * CROWD), hard))
    opened = selectors.DefaultSelector()
    while True:
        for key, _ in opened.select(0):
            gone = key.fileobj
            assert isinstance(gone, socket.socket)
            opened.unregister(gone)
            gone.close()
        for _ in range(CROWD - len(opened.get_map())):
            try:
                one = socket.create_connection(("127.0.0.1", port), timeout=5)
                one.send(b"GET / HTTP/1.1\r\nHost: ")
            except OSError:
                continue
            opened.register(one, selectors.EVENT_READ)
        print(len(opened.get_map()), flush=True)
        time.sleep(REFILL)


def read(client: httpx2.Client, headers: dict[str, str]) -> str:
    """Request the inbox repeatedly, as a user would; return the median and the slowest of 100."""
    times: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        begun = time.perf_counter()
        assert client.get("/", headers=headers).status_code == 200
        times.append((time.perf_counter() - begun) * 1_000)
        time.sleep(PAUSE)
    times.sort()
    return (
        f"p50 {times[len(times) // 2]:.0f} ms, p99 {times[int(len(times) * 0.99)]:.0f} ms, slowest"
        f" {times[-1]:.0f} ms ({len(times)} times)"
    )


def main() -> None:
    with TemporaryDirectory() as folder:
        store = FileStore(Path(folder) / "conversations")
        for _ in range(WAITING):
            wait_for(agent_with(store, asking(Question.boolean("q", "Deploy?"))))
        served = Served(Path(folder), ())
        entrance, host = loopback_request(served.address())
        with httpx2.Client(
            headers={**OWN, **host}, base_url=f"http://127.0.0.1:{served.port}", timeout=30
        ) as client:
            assert enter(client, entrance).status_code == 303
            for among in ("alone", f"among {CROWD:,} unfinished connections"):
                crowd = _crowd(served.port) if among != "alone" else None
                for how, headers in (
                    ("one connection", {}),
                    ("a connection each", {"Connection": "close"}),
                ):
                    print(f"inbox of {WAITING} questions, {among}, {how}: {read(client, headers)}")
                if crowd:
                    crowd.kill()
                    crowd.communicate()
        served.end()
    print(f"load of the machine: {' / '.join(f'{load:.1f}' for load in os.getloadavg())}")


def _crowd(port: int) -> subprocess.Popen[str]:
    """Start the connections in another process and wait until all of them were opened once."""
    crowd = subprocess.Popen(
        [sys.executable, __file__, str(SECONDS), str(port)], stdout=subprocess.PIPE, text=True
    )
    assert crowd.stdout
    crowd.stdout.readline()
    return crowd


if __name__ == "__main__":
    hold_half_requests(int(sys.argv[2])) if len(sys.argv) > 2 else main()
