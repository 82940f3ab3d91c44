"""Push notifications of two servers on one store, and of a server that is killed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from support.a2a import Json, Peer, require_sdk, state
from support.serving import free_port
from support.waiting import wait_until
from support.webhooks import receiving

require_sdk()

_SERVER = Path(__file__).with_name("pushing_agent.py")
_STEPS = (1, 2, 4, 5, 6, 8, 9, 10)
"""Steps of the server: the webhook is stored (1, 2), the question is sent (3, 4) and this is stored
(5, 6), the end is sent (7, 8) and the webhook is removed (9, 10).
"""


@contextmanager
def _server(store: Path, step: int = 0) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    command = [sys.executable, str(_SERVER), str(store), str(port), str(step)]
    with subprocess.Popen(command) as process:
        try:
            wait_until(lambda: _responds(port) or process.poll() is not None)
            yield process, port
        finally:
            process.kill()


def _responds(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30):
        return True
    return False


def _send(
    port: int, prefix: str, text: str, configuration: Json | None = None, **more: object
) -> Json | None:
    """Send a message. Return the task; None if the server was killed."""

    async def sent() -> Json:
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            peer = Peer(client, prefix=prefix)
            return await peer.send_message(peer.message(text, **more), configuration)

    try:
        return asyncio.run(sent())
    except httpx.TransportError:
        return None


def _begun(port: int, url: str, prefix: str = "begin") -> Json | None:
    webhook = {"id": "w", "url": url}
    return _send(port, prefix, "Go.", {"taskPushNotificationConfig": webhook})


def _answered(port: int, task: str) -> Json | None:
    return _send(port, f"answer{task}", "prod", taskId=task)


def _webhooks(store: Path) -> list[Path]:
    return [*store.rglob("a2a-push%2F*")]


@pytest.mark.long
def test_two_servers_send_each_state_once(tmp_path: Path) -> None:
    with receiving() as receiver, ExitStack() as servers:
        ports = [servers.enter_context(_server(tmp_path))[1] for _ in range(2)]
        tasks = [_begun(port, receiver.url, f"begin{port}{n}") for n in range(3) for port in ports]
        ids = {task["id"] for task in tasks if task}
        assert len(ids) == len(tasks)
        wait_until(lambda: receiver.states.count("input_required") >= len(ids))
        for place, task in enumerate(sorted(ids)):
            _answered(ports[place % 2], task)
        wait_until(lambda: not _webhooks(tmp_path))
    sent = Counter((each.task["id"], each.state) for each in receiver.notifications)
    assert sent == Counter({(task, shown): 1 for task in ids for shown in _STATES})


@pytest.mark.long
def test_other_server_sends_when_the_sender_is_killed_during_a_notification(
    tmp_path: Path,
) -> None:
    arrived, never = threading.Event(), threading.Event()
    with receiving() as receiver:

        def hold() -> None:
            if not arrived.is_set():
                arrived.set()
                never.wait(120)

        receiver.before_response = hold
        with _server(tmp_path) as (first, port):
            begun = _begun(port, receiver.url)
            assert begun is not None
            assert arrived.wait(120)  # only this server runs, so it sends
            with _server(tmp_path) as (_, other):
                first.kill()
                first.wait()
                wait_until(lambda: len(receiver.notifications) == 2)
                assert receiver.states == ["input_required"] * 2  # it may have arrived: once more
                ended = _answered(other, begun["id"])
                assert ended is not None
                assert state(ended) == "completed"
                wait_until(lambda: not _webhooks(tmp_path))
        never.set()
    assert receiver.states == ["input_required", "input_required", "completed"]


@pytest.mark.long
@pytest.mark.parametrize("step", _STEPS)
def test_kill_loses_no_state_and_repeats_at_most_one(tmp_path: Path, step: int) -> None:
    with receiving() as receiver:
        with _server(tmp_path, step) as (process, port):
            begun = _begun(port, receiver.url)
            if begun is not None:
                wait_until(lambda: _is_sent(receiver.states, tmp_path, process))
                _answered(port, begun["id"])
                wait_until(lambda: not _webhooks(tmp_path) or process.poll() is not None)
        with _server(tmp_path) as (_, port):
            if not _webhooks(tmp_path):  # the first request or the last notification was cut off
                begun = begun or _begun(port, receiver.url)  # a client repeats it
            wait_until(lambda: "input_required" in receiver.states)
            task = receiver.notifications[0].task["id"]
            _answered(port, task)
            wait_until(lambda: not _webhooks(tmp_path))
    assert [*dict.fromkeys(receiver.states)] == [*_STATES]  # each state, in this order
    assert len(receiver.states) <= len(_STATES) + 1
    assert {each.task["id"] for each in receiver.notifications} == {task}


_STATES = ("input_required", "completed")


def _is_sent(states: list[str], store: Path, process: subprocess.Popen[bytes]) -> bool:
    """Return whether the question was sent and this is stored, or the server was killed."""
    is_stored = any(b'"sent"' in file.read_bytes() for file in _webhooks(store))
    return (bool(states) and is_stored) or process.poll() is not None
