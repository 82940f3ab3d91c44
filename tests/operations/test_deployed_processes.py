"""The commands of the Compose file as processes on PostgreSQL: upgrade, two workers and the
page continue a turn together.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

import midturn as mt
from operations.deploy_files import commands
from support.postgres import Cluster
from support.serving import free_port
from support.waiting import wait_until

pytestmark = pytest.mark.real("PostgreSQL")
SHOP = """
import os
import midturn as mt

@mt.tool
async def refund(order: str, ctx: mt.ToolContext) -> str:
    if not await ctx.ask(mt.Question.boolean("sure", f"Refund {order}?", exclusive=True)):
        raise mt.Rejected("Not refunded.")
    return f"Refunded {order}."

model = mt.ScriptedModel([{"calls": [{"name": "refund", "arguments": {"order": "A-7"}}]}, {"text": "Done."}])
agent = mt.Agent(model, tools=[refund], store=mt.open_store(os.environ["MIDTURN_STORE"]))
"""
STOPPED = 143

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def url() -> Iterator[str]:
    if shutil.which("pg_ctl") is None:
        pytest.skip("needs PostgreSQL: `make test-real` installs it and runs this")
    server = Cluster("fsync=off")
    yield server.url
    server.remove()


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Start]:
    """Start a command of the Compose file on this database, with other ports."""
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    arguments = {
        command.place.removeprefix("compose.yaml: "): command.arguments
        for command in commands()
        if "compose" in command.place
    }
    started: list[subprocess.Popen[str]] = []

    def begin(service: str, replaced: dict[str, str], *more: str) -> subprocess.Popen[str]:
        words = [
            replaced.get(word, word).replace("postgresql://midturn@database/midturn", url)
            for word in arguments[service]
        ]
        state = str(tmp_path / f"state-{len(started)}")
        environment = {**os.environ, "XDG_STATE_HOME": state, "MIDTURN_STORE": url}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "midturn", *words, *more],
                cwd=tmp_path,
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_the_commands_of_the_compose_file_continue_a_turn(
    start: Start, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgraded = start("upgrade", {})
    upgraded.communicate(timeout=120)
    assert upgraded.returncode == 0
    ports = [free_port(), free_port()]
    workers = [start("worker", {"0.0.0.0:8181": f"127.0.0.1:{port}"}) for port in ports]
    page_port = free_port()
    page = start("page", {}, "--port", str(page_port))
    for port in (*ports, page_port):
        wait_until(lambda port=port: _is_ready(port))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MIDTURN_STORE", url)
    agent: mt.Agent = importlib.import_module("shop").agent

    store = agent.store
    asked = agent.run_sync("Refund A-7.")
    store.answer_sync(asked.pending[0].id, True, user="eve")

    wait_until(lambda: not store.read_sync(asked.conversation).turns[-1].open)

    for process in (*workers, page):
        process.send_signal(signal.SIGTERM)
    assert [process.wait(120) for process in (*workers, page)] == [STOPPED] * 3


def _is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code == 200
    except httpx2.TransportError:
        return False
