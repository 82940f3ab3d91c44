"""A server that is killed between a question and its answer."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

import midturn as mt
from support.a2a import Json, Peer, answer_text, require_sdk, state

require_sdk()

_SERVER = Path(__file__).with_name("served_agent.py")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def _running(store: str, port: int) -> Generator[subprocess.Popen[bytes]]:
    server = subprocess.Popen([sys.executable, str(_SERVER), store, str(port)])
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}/.well-known/agent-card.json", timeout=5)
                break
            except httpx.TransportError:
                assert server.poll() is None
                time.sleep(0.1)
        yield server
    finally:
        server.kill()
        server.wait()


def _killed(server: subprocess.Popen[bytes]) -> None:
    os.kill(server.pid, signal.SIGKILL)
    server.wait()


def test_task_is_answered_after_the_server_was_killed(store_address: str) -> None:
    store, port = store_address, _free_port()
    with _running(store, port) as server:
        asked = asyncio.run(_send(port, "Deploy it."))
        assert state(asked) == "input_required"
        _killed(server)
    with _running(store, port):
        ended = asyncio.run(_send(port, "prod", task=asked["id"]))
        assert state(ended) == "completed"
        assert ended["id"] == asked["id"]
        assert answer_text(ended) == ["Done."]
        again = asyncio.run(_send(port, "Deploy it."))  # the same message as before
        assert again["id"] == asked["id"]
    (conversation,) = mt.open_store(store).ids_sync()
    events = mt.open_store(store).read_sync(conversation).events
    assert any("deployed to prod" in str(event) for event in events)


def test_task_is_continued_after_an_answer_that_was_given_while_no_server_ran(
    store_address: str,
) -> None:
    store, port = store_address, _free_port()
    with _running(store, port) as server:
        asked = asyncio.run(_send(port, "Deploy it."))
        _killed(server)
    (waiting,) = mt.open_store(store).pending_sync()
    mt.open_store(store).answer_sync(waiting, "staging", user="grace", via="inbox")
    with _running(store, port):
        asyncio.run(_completed(port, asked))


async def _send(port: int, text: str, task: str = "") -> Json:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        peer = Peer(client, prefix="answer" if task else "m")
        return await peer.send_message(peer.message(text, **({"taskId": task} if task else {})))


async def _completed(port: int, task: Json) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        await Peer(client).completed(task)
