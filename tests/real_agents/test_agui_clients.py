"""`@ag-ui/client` as front end, in the version of today and in the one that CopilotKit pins."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.integrations import agui
from support.agui import Run, call, cancelled, check_events, resolved, scripted, user_of
from support.installed import installed, or_skip
from support.serving import serving

pytestmark = [pytest.mark.real("AG-UI clients", may_be_missing=True), pytest.mark.timeout(600)]
CLIENT = Path(__file__).parents[1] / "support" / "agui_client.cjs"
VERSIONS = ("1.0.0", "0.0.59")


class Client:
    """A front end in Node."""

    def __init__(self, version: str, url: str) -> None:
        folder = or_skip(lambda: installed(f"agui-{version}", f"@ag-ui/client@{version}"))
        self.version = version
        self._process = subprocess.Popen(
            ["node", str(CLIENT), str(folder.parents[1]), f"{url}/"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.messages: list[dict[str, Any]] = []
        self.interrupts: list[dict[str, Any]] = []

    def run(self, **command: Any) -> Run:
        """Send a run. The client checks every event and applies it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        assert found["error"] is None, found["error"]
        run = Run(found["events"])
        check_events(run.events)
        self.messages, self.interrupts = found["messages"], found["pendingInterrupts"]
        if run.end["type"] == "RUN_FINISHED":
            assert without_reasoning(self.messages) == run.messages
            assert [each["id"] for each in self.interrupts] == [
                each["id"] for each in run.interrupts
            ]
        return run

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def without_reasoning(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["role"] != "reasoning"]


SHIP = mt.Question.boolean("ship", "Ship it?")
ENV = mt.Question.select("env", "Where?", ["staging", "prod"], when=mt.When("ship", equals=True))


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    answers = await ctx.ask_form(mt.Form([SHIP, ENV]))
    return repr(answers.to_json())


@mt.tool
async def note(ctx: mt.ToolContext) -> str:
    """Note."""
    return await ctx.ask(mt.Question.text("what", "What?", pattern="^[a-z]+$"))


@mt.tool(run="ask")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest) -> Generator[Client]:
    """A client of an agent that asks a form, an approval and a question, and then two at once."""
    script = (
        {"reasoning": "Think.", "text": "A form.", "chunk": 3, **call("deploy")},
        call("pay", amount=5),
        {"text": "Paid.", **call("note")},
        {"text": "First turn done."},
        {"calls": [{"name": "note"}, {"name": "pay", "arguments": {"amount": 1}}]},
        {"text": "Second turn done."},
    )
    agent = scripted(*script, tools=[deploy, pay, note])
    app: Any = agui.app(agent, user=user_of)
    with serving(app) as url:
        front_end = Client(request.param, url)
        yield front_end
        front_end.end()


def test_two_turns(client: Client) -> None:
    form = client.run(say="Go.")
    assert [*form.interrupt["responseSchema"]["properties"]] == ["ship", "env"]
    approval = client.run(resume=[resolved(form.interrupt, {"ship": True, "env": "prod"})])
    assert approval.results == ["{'ship': True, 'env': 'prod'}"]
    edited = {"approved": True, "editedArgs": {"amount": 3}}
    question = client.run(resume=[resolved(approval.interrupt, edited)])
    assert "paid 3" in question.results[0]
    again = client.run(resume=[resolved(question.interrupt, {"answer": "A B"})])
    assert again.not_taken[0]["why"] == "invalid"
    assert again.interrupt["metadata"]["midturn"]["problem"]
    ended = client.run(resume=[resolved(again.interrupt, {"answer": "tea"})])
    assert ended.text == "First turn done."
    two = client.run(say="More.")
    approval, question = sorted(two.interrupts, key=lambda each: each["reason"] != "tool_call")
    one = client.run(resume=[cancelled(approval), resolved(question, {"answer": "milk"})])
    assert [each["id"] for each in one.interrupts] == [approval["id"]]
    done = client.run(resume=[cancelled(one.interrupt)])
    assert done.text == "Second turn done."
    assert [message["role"] for message in without_reasoning(client.messages)][:3] == [
        "user",
        "assistant",
        "assistant",
    ]
    before = without_reasoning(client.messages)
    client.run(thread="t1")  # reloaded, without messages
    assert client.messages == before


def test_ended_turn_does_not_block_the_thread(client: Client) -> None:
    form = client.run(say="Go.")
    ended = client.run(resume=[cancelled(form.interrupt, end_turn=True)])
    assert client.interrupts == []
    if client.version == "1.0.0":
        assert ended.outcome == "cancelled"
    client.run()


def test_message_over_an_open_turn_is_reported(client: Client) -> None:
    """A reloaded client has forgotten the interrupts, and sends a message."""
    client.run(say="Go.")
    said = client.run(thread="t1", say="Hurry up.")
    assert [each["why"] for each in said.not_taken] == ["turn_open"]
    assert said.outcome == "interrupt"
