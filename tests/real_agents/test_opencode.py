"""opencode itself, with its server: what it asks is answered here, or at its own prompt."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from real_agents.agents import with_options
from support.cli import CommandLine
from support.fake_provider import FakeProvider, Reply
from support.hooks import answers, stored, until, wait_for
from support.installed import installed, or_skip

pytestmark = [pytest.mark.real("opencode", may_be_missing=True), pytest.mark.timeout(300)]
CALL: Reply = [("bash", {"command": "touch made", "description": "Make it"})]
QUESTIONS = [
    {
        "question": "Which env?",
        "header": "Env",
        "options": [{"label": "prod", "description": "Live"}, {"label": "dev", "description": "Here"}],
    },
    {
        "question": "Which parts?",
        "header": "Parts",
        "multiple": True,
        "options": [{"label": "a", "description": "A"}, {"label": "b", "description": "B"}],
    },
]


class Server:
    """A server of it, with a session, and our bridge beside it."""

    def __init__(self, midturn: CommandLine, provider: FakeProvider) -> None:
        program = installed("opencode", "opencode-ai@1.18.33") / "opencode"
        fake = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{provider.url}/v1", "apiKey": "dummy"},
            "models": {"fake": {"name": "fake"}},
        }
        asks = {"bash": "ask", "edit": "ask"}
        servers = with_options(midturn.ok("mcp", "--print-config", "opencode").stdout, "--slice", "1")
        settings = {**json.loads(servers), "provider": {"fake": fake}, "model": "fake/fake", "permission": asks, "autoupdate": False}
        (midturn.root / "opencode.json").write_text(json.dumps(settings))
        homes = {name: value for name, value in midturn.environment.items() if name.startswith("XDG_")}
        own = {"HOME": str(midturn.home), "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        self.provider = provider
        self.session = ""
        self.process = subprocess.Popen(
            [str(program), "serve", "--port", "0", "--hostname", "127.0.0.1"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=midturn.root,
            env={**homes, **own, "PATH": midturn.environment["PATH"]},
        )
        assert self.process.stdout
        self.url = next(found[0] for line in self.process.stdout if (found := re.search(r"http://\S+", line)))
        self.bridge = midturn.start("hook", "opencode", "--url", self.url)

    def close(self) -> None:
        """End both; the server is not ours, and now and then does not end by itself."""
        self.bridge.terminate()
        self.bridge.communicate(timeout=60)
        self.process.kill()
        self.process.communicate(timeout=60)

    def ask(self) -> None:
        """Have its model begin, or go on."""
        self.session = self.session or self.call("/session", {})["id"]
        self.call(f"/session/{self.session}/prompt_async", {"parts": [{"type": "text", "text": "Go"}]})

    def call(self, path: str, body: object = None) -> Any:
        """Say something to the server, as its own interface does."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.url}{path}", data=data, headers={"content-type": "application/json"}), timeout=180) as answered:
            return json.loads(answered.read() or b"null")

    def results(self) -> list[str]:
        """Wait for what its model reads."""
        return until(lambda: self.provider.results, bool)


@pytest.fixture(params=[CALL])
def opencode(midturn: CommandLine, request: pytest.FixtureRequest) -> Iterator[Server]:
    with FakeProvider([request.param, "All done."]) as provider:
        server = or_skip(lambda: Server(midturn, provider))
        try:
            server.ask()
            yield server
        finally:
            server.close()


@pytest.mark.parametrize("value", [["y"], ["n", "--reason", "Not now."]])
def test_a_call_is_decided_in_the_inbox_while_its_own_prompt_waits(midturn: CommandLine, opencode: Server, value: list[str]) -> None:
    (question,) = wait_for(midturn)
    assert question["asker"]["name"] == "opencode"
    assert question["arguments"]["command"] == "touch made"

    midturn.ok("answer", question["id"], *value)

    (result,) = opencode.results()
    assert ("The user said no: Not now." in result) == (value[0] == "n")
    assert (midturn.root / "made").exists() == (value[0] == "y")
    assert opencode.call("/permission") == []


def test_what_is_decided_at_its_own_prompt_closes_here_without_a_name(midturn: CommandLine, opencode: Server) -> None:
    wait_for(midturn)
    (waiting,) = opencode.call("/permission")

    opencode.call(f"/permission/{waiting['id']}/reply", {"reply": "once"})

    opencode.results()
    wait_for(midturn, 0)
    (decided,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert decided["state"] == "superseded"
    assert "answered_by" not in decided


@pytest.mark.parametrize("opencode", [[("question", {"questions": QUESTIONS})]], indirect=True)
def test_its_questions_are_a_form_here(midturn: CommandLine, opencode: Server) -> None:
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], '{"q0": "dev", "q1": ["a", {"other": "the rest"}]}')

    (result,) = opencode.results()
    assert '"Which env?"="dev"' in result
    assert '"Which parts?"="a, the rest"' in result


@pytest.mark.parametrize("opencode", [[("question", {"questions": QUESTIONS})]], indirect=True)
def test_its_questions_are_answered_at_its_own_prompt(midturn: CommandLine, opencode: Server) -> None:
    wait_for(midturn)
    (waiting,) = opencode.call("/question")

    opencode.call(f"/question/{waiting['id']}/reply", {"answers": [["prod"], ["b"]]})

    (result,) = opencode.results()
    assert '"Which env?"="prod"' in result
    wait_for(midturn, 0)
    (closed,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert closed["reason"] == "superseded"


def test_a_no_at_its_own_prompt_is_its_own_and_has_no_name(midturn: CommandLine, opencode: Server) -> None:
    wait_for(midturn)
    (waiting,) = opencode.call("/permission")

    opencode.call(f"/permission/{waiting['id']}/reply", {"reply": "reject"})
    wait_for(midturn, 0)
    opencode.ask()  # a no without words has ended its turn

    (result,) = opencode.results()
    assert "user rejected permission" in result
    assert "The user said no" not in result, "these are our words for what was said in the inbox"
    assert "Nobody has answered" not in result
    (decided,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert decided["state"] == "superseded"


@pytest.mark.parametrize("opencode", [[*CALL, ("bash", {"command": "touch other", "description": "Make it"})]], indirect=True)
def test_calls_that_are_made_at_once_are_decided_each_by_itself(midturn: CommandLine, opencode: Server) -> None:
    questions = {question["arguments"]["command"]: question["id"] for question in wait_for(midturn, 2)}
    midturn.ok("answer", questions["touch other"], "y")
    midturn.ok("answer", questions["touch made"], "n", "--reason", "Not that one.")

    made, other = until(lambda: opencode.provider.results, lambda results: len(results) == 2)
    assert "The user said no: Not that one." in made
    assert "said no" not in other
    assert (midturn.root / "other").exists()
    assert not (midturn.root / "made").exists()


@pytest.mark.parametrize("opencode", [[("midturn_ask_user", {"question": "Ship it?", "answer_type": "boolean"})]], indirect=True)
def test_a_time_out_of_our_tool_is_no_no(midturn: CommandLine, opencode: Server) -> None:
    (nobody,) = opencode.results()
    (question,) = wait_for(midturn)

    assert "Nobody has answered yet" in nobody
    assert "The user answered" not in nobody
    assert question["asker"]["name"] == "opencode"


def test_a_bridge_that_is_killed_leaves_the_question_and_the_next_one_takes_it_up(midturn: CommandLine, opencode: Server) -> None:
    (question,) = wait_for(midturn)
    opencode.bridge.kill()
    opencode.bridge.communicate(timeout=60)
    assert answers(stored(midturn)[0]) == []

    midturn.ok("answer", question["id"], "y")
    opencode.bridge = midturn.start("hook", "opencode", "--url", opencode.url)

    opencode.results()
    assert (midturn.root / "made").exists()
    assert len(stored(midturn)) == 1
