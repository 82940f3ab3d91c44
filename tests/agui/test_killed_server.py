"""A server that is killed, and its successor."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import midturn as mt
from midturn.events.types import ToolCallResponse
from support.agui import FrontEnd, resolved

PROGRAM = """
import sys, time
from pathlib import Path
import midturn as mt
from midturn.integrations import agui
from support.serving import serve_here

folder = Path(sys.argv[1])

@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    "Deploy."
    where = await ctx.ask(mt.Question.text("where", "Where to?"))
    with (folder / "runs").open("a") as runs:
        runs.write("run\\n")
    if where == "slow" and not (folder / "go").exists():
        time.sleep(60)
    return f"deployed to {where}"

script = [{"text": "Let me ask.", "calls": [{"name": "deploy"}]}, {"text": "Done."}]
agent = mt.Agent(mt.ScriptedModel(script), tools=[deploy], store=mt.open_store(sys.argv[2]))
serve_here(agui.app(agent, user=lambda request: "ada"))
"""


@contextmanager
def server(folder: Path, store: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run the server until the end of the block, then kill it with SIGKILL."""
    command = [sys.executable, "-c", PROGRAM, str(folder), store]
    root = Path(__file__).parents[1]
    path = ":".join([str(root), *sys.path])
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
    ) as process:
        assert process.stdout
        try:
            yield process, f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=60, trust_env=False)


def test_question_is_answered_after_the_server_was_killed(
    tmp_path: Path, store_address: str
) -> None:
    async def ask(url: str) -> FrontEnd:
        async with client(url) as connection:
            front_end = FrontEnd(connection)
            await front_end.say("Go.")
            return front_end

    async def answer(url: str, before: FrontEnd) -> None:
        async with client(url) as connection:
            front_end = FrontEnd(connection)
            asked = await front_end.run(runId="reload")
            assert asked.messages == before.messages
            ended = await front_end.answer(asked.interrupt, "prod", runId="answer")
            assert ended.results == ["deployed to prod"]
            assert ended.outcome == "success"

    with server(tmp_path, store_address) as (_, url):
        before = asyncio.run(ask(url))
    with server(tmp_path, store_address) as (_, url):
        asyncio.run(answer(url, before))


def test_turn_whose_server_was_killed_ends_by_itself(tmp_path: Path, store_address: str) -> None:
    """The tool was running. The next server runs it again, without any request."""

    async def answer_and_kill(process: subprocess.Popen[str], url: str) -> None:
        async with client(url) as connection:
            front_end = FrontEnd(connection)
            asked = await front_end.say("Go.")
            body = front_end.body(resume=[resolved(asked.interrupt, "slow")])
            posting = asyncio.create_task(connection.post("/", json=body))
            while not (tmp_path / "runs").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            with pytest.raises(httpx.HTTPError):
                await posting

    async def wait_for_the_end(url: str) -> None:
        async with client(url) as connection:
            store = mt.open_store(store_address)
            for _ in range(600):
                if not await store.open_turns():
                    break
                await asyncio.sleep(0.1)
            (conversation,) = await store.ids()
            events = (await store.read(conversation)).events
            results = [each.content for each in events if isinstance(each, ToolCallResponse)]
            assert results == ["deployed to slow"]
            shown = await FrontEnd(connection).run(runId="fresh")
            assert shown.outcome == "success"
            assert [message["role"] for message in shown.messages] == [
                "user",
                "assistant",
                "assistant",
                "tool",
                "assistant",
            ]

    with server(tmp_path, store_address) as (process, url):
        asyncio.run(answer_and_kill(process, url))
    (tmp_path / "go").touch()
    with server(tmp_path, store_address) as (_, url):
        asyncio.run(wait_for_the_end(url))
    assert (tmp_path / "runs").read_text() == "run\n" * 2
