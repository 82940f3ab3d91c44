"""`@a2a-js/sdk` as client, in the version of today and in the last one of the protocol 0.3."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Generator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from support.a2a import EXTENSION, call, require_sdk, scripted, served
from support.installed import installed, or_skip
from support.serving import serving

require_sdk()

pytestmark = [pytest.mark.real("A2A clients", may_be_missing=True), pytest.mark.timeout(600)]
CLIENT = Path(__file__).parents[1] / "support" / "a2a_client.cjs"
VERSIONS = ("1.3.0", "0.3.14")


class Client:
    """A client in Node."""

    def __init__(self, version: str, url: str) -> None:
        folder = or_skip(lambda: installed(f"a2a-{version}", f"@a2a-js/sdk@{version}"))
        self._ids = count(1)
        self._process = subprocess.Popen(
            ["node", str(CLIENT), str(folder.parents[1]), url, version[0]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, what: str, **command: Any) -> Any:
        """Run a command of the client. Raise its error."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"do": what, **command}) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        if "error" in found:
            raise RuntimeError(found["error"])
        return found["result"]

    def send(self, *parts: Any, do: str = "send", **more: Any) -> Any:
        """Send a message."""
        given = [{"text": part} if isinstance(part, str) else part for part in parts]
        return self.do(do, parts=given, messageId=f"m{next(self._ids)}", **more)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@mt.tool
async def note(ctx: mt.ToolContext) -> str:
    """Note."""
    return await ctx.ask(mt.Question.text("what", "What?", pattern="^[a-z]+$"))


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Ask a form, and a person."""
    ship = mt.Question.boolean("ship", "Ship it?")
    number = mt.Question.number("number", "How many?", type=int)
    given = await ctx.ask_form(mt.Form([ship, number]))
    await ctx.ask(mt.Question.boolean("sure", "Sure?", exclusive=True))
    return repr(given.to_json())


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, agent: mt.Agent) -> Generator[Client]:
    with serving(_WithOwnUrl(agent)) as url:
        node = Client(request.param, url)
        yield node
        node.end()


class _WithOwnUrl:
    """Serves an agent whose card has the port of the server, which is known with a request."""

    def __init__(self, agent: mt.Agent) -> None:
        self._agent = agent
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        if self._app is None:
            host, port = scope["server"]
            card = {"name": "A", "description": "B", "url": f"http://{host}:{port}"}
            self._app = served(self._agent, work=True, card=card)
        await self._app(scope, receive, send)


@pytest.fixture
def agent() -> mt.Agent:
    """An agent that asks in its first two turns."""
    script = (
        {"text": "Let me ask.", **call("note")},
        {"text": "Noted."},
        call("deploy"),
        {"text": "Deployed."},
    )
    return scripted(*script, tools=[note, deploy])


def test_tasks(client: Client, agent: mt.Agent) -> None:
    asked = client.send("Go.")
    assert asked["state"] == "input_required"
    assert asked["parts"] == [{"text": "What?"}]
    again = client.send("A B", taskId=asked["id"], contextId=asked["contextId"])
    assert again["state"] == "input_required"
    assert len(again["parts"]) == 2
    ended = client.send("tea", taskId=asked["id"], contextId=asked["contextId"])
    assert ended["state"] == "completed"
    assert ended["answer"] == [{"text": "Let me ask."}, {"text": "Noted."}]
    assert client.do("get", id=asked["id"])["state"] == "completed"
    with pytest.raises(RuntimeError):
        client.send("More.", taskId=asked["id"])
    with pytest.raises(RuntimeError):
        client.do("get", id="17-none")

    form = client.send("Deploy.", contextId=asked["contextId"], extension=EXTENSION)
    (question,) = [part["data"] for part in form["parts"] if "data" in part]
    answers = {question["id"]: {"answer": {"ship": True, "number": 3}}}
    data = {"data": {"midturn": "answers", "answers": answers}}
    waits = client.send(data, taskId=form["id"], extension=EXTENSION)
    assert waits["state"] == "auth_required"

    def answer() -> None:
        time.sleep(1)
        (sure,) = agent.store.pending_sync()
        agent.store.answer_sync(sure, True, user="grace", via="inbox")

    thread = threading.Thread(target=answer)
    thread.start()
    updates = client.do("subscribe", id=form["id"])
    thread.join()
    assert updates[0]["task"]["state"] == "auth_required"
    assert updates[-1]["status"]["state"] == "completed"
    events: Any = agent.store.read_sync(form["id"].partition("-")[0]).events
    results = [each.content for each in events if each.type == "tool_call_response"]
    assert results == ["tea", "{'ship': True, 'number': 3}"]


def test_stream_and_cancel(client: Client) -> None:
    updates = client.send("Go.", do="stream")
    assert updates[0]["task"]["state"] in ("working", "input_required")
    last = updates[-1].get("status") or updates[-1]["task"]
    assert last["state"] == "input_required"
    canceled = client.do("cancel", id=updates[0]["task"]["id"])
    assert canceled["state"] == "canceled"
