"""opencode with its server. Its questions are answered in the inbox or at its own prompt."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from real_agents.agents import with_options
from support.cli import CommandLine, Process
from support.fake_provider import FakeProvider, Reply
from support.hooks import answers, stored, until, wait_for
from support.installed import installed, or_skip

pytestmark = [pytest.mark.real("opencode", may_be_missing=True), pytest.mark.timeout(600)]
CALL: Reply = [("bash", {"command": "touch made", "description": "Make it"})]
QUESTIONS = [
    {
        "question": "Which env?",
        "header": "Env",
        "options": [
            {"label": "prod", "description": "Live"},
            {"label": "dev", "description": "Here"},
        ],
    },
    {
        "question": "Which parts?",
        "header": "Parts",
        "multiple": True,
        "options": [{"label": "a", "description": "A"}, {"label": "b", "description": "B"}],
    },
]


class Server:
    """A server of opencode with a session, and our bridge."""

    def __init__(self, midturn: CommandLine, provider: FakeProvider, slice: str) -> None:
        program = installed("opencode", "opencode-ai@1.18.33") / "opencode"
        fake = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{provider.url}/v1", "apiKey": "dummy"},
            "models": {"fake": {"name": "fake"}},
        }
        asks = {"bash": "ask", "edit": "ask"}
        servers = with_options(
            midturn.ok("mcp", "--print-config", "opencode").stdout, "--slice", slice
        )
        settings = {
            **json.loads(servers),
            "provider": {"fake": fake},
            "model": "fake/fake",
            "permission": asks,
            "autoupdate": False,
        }
        (midturn.root / "opencode.json").write_text(json.dumps(settings))
        homes = {
            name: value for name, value in midturn.environment.items() if name.startswith("XDG_")
        }
        own = {
            "HOME": str(midturn.home),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        self.provider = provider
        self.session = ""
        self._program, self._root = program, midturn.root
        self._environment = {**homes, **own, "PATH": midturn.environment["PATH"]}
        self.process, self.url = self._started(0)
        self.bridge = midturn.start("hook", "opencode", "--url", self.url)

    def _started(self, port: int) -> tuple[Process, str]:
        process = subprocess.Popen(
            [str(self._program), "serve", "--port", str(port), "--hostname", "127.0.0.1"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._root,
            env=self._environment,
        )
        assert process.stdout
        return process, next(
            found[0] for line in process.stdout if (found := re.search(r"http://\S+", line))
        )

    def kill(self) -> None:
        """Kill it with SIGKILL, as the out-of-memory killer does."""
        self.process.kill()
        self.process.communicate(timeout=300)

    def start_again(self) -> None:
        """Start it again in the same directory. Its sessions are still there."""
        self.process, url = self._started(urlsplit(self.url).port or 0)
        assert url == self.url

    def close(self) -> None:
        """Stop both. The server is external and sometimes has to be killed."""
        self.bridge.terminate()
        self.bridge.communicate(timeout=300)
        self.kill()

    def ask(self) -> None:
        """Have its model start or continue."""
        self.session = self.session or self.call("/session", {})["id"]
        self.call(
            f"/session/{self.session}/prompt_async", {"parts": [{"type": "text", "text": "Go"}]}
        )

    def call(self, path: str, body: object = None) -> Any:
        """Send a request to the server, as opencode's own interface does."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(
            Request(f"{self.url}{path}", data=data, headers={"content-type": "application/json"}),
            timeout=180,
        ) as answered:
            return json.loads(answered.read() or b"null")

    def results(self) -> list[str]:
        """Wait for the results that its model reads."""
        return until(lambda: self.provider.results, bool)


@contextmanager
def asking(midturn: CommandLine, *replies: Reply, slice: str = "1") -> Generator[Server]:
    """Start it with these model replies. `slice` is the number of seconds a question of our
    server waits at a time.
    """
    with FakeProvider([*replies, "All done."]) as provider:
        server = or_skip(lambda: Server(midturn, provider, slice))
        try:
            server.ask()
            yield server
        finally:
            server.close()


@pytest.fixture(params=[CALL])
def opencode(midturn: CommandLine, request: pytest.FixtureRequest) -> Iterator[Server]:
    with asking(midturn, request.param) as server:
        yield server


@pytest.mark.parametrize("value", [["y"], ["n", "--reason", "Not now."]])
def test_call_is_decided_in_the_inbox_while_the_agents_prompt_is_open(
    midturn: CommandLine, opencode: Server, value: list[str]
) -> None:
    (question,) = wait_for(midturn)
    assert question["asker"]["name"] == "opencode"
    assert question["arguments"]["command"] == "touch made"

    midturn.ok("answer", question["id"], *value)

    (result,) = opencode.results()
    assert ("The user said no: Not now." in result) == (value[0] == "n")
    assert (midturn.root / "made").exists() == (value[0] == "y")
    assert opencode.call("/permission") == []


def test_decision_at_the_agents_prompt_closes_without_a_responder(
    midturn: CommandLine, opencode: Server
) -> None:
    wait_for(midturn)
    (waiting,) = opencode.call("/permission")

    opencode.call(f"/permission/{waiting['id']}/reply", {"reply": "once"})

    opencode.results()
    wait_for(midturn, 0)
    (decided,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert decided["state"] == "superseded"
    assert "answered_by" not in decided


@pytest.mark.parametrize("opencode", [[("question", {"questions": QUESTIONS})]], indirect=True)
def test_questions_are_a_form(midturn: CommandLine, opencode: Server) -> None:
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], '{"q0": "dev", "q1": ["a", {"other": "the rest"}]}')

    (result,) = opencode.results()
    assert '"Which env?"="dev"' in result
    assert '"Which parts?"="a, the rest"' in result


@pytest.mark.parametrize("opencode", [[("question", {"questions": QUESTIONS})]], indirect=True)
def test_questions_are_answered_at_the_agents_prompt(
    midturn: CommandLine, opencode: Server
) -> None:
    wait_for(midturn)
    (waiting,) = opencode.call("/question")

    opencode.call(f"/question/{waiting['id']}/reply", {"answers": [["prod"], ["b"]]})

    (result,) = opencode.results()
    assert '"Which env?"="prod"' in result
    wait_for(midturn, 0)
    (closed,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert closed["reason"] == "superseded"


def test_no_at_the_agents_prompt_has_no_responder(midturn: CommandLine, opencode: Server) -> None:
    wait_for(midturn)
    (waiting,) = opencode.call("/permission")

    opencode.call(f"/permission/{waiting['id']}/reply", {"reply": "reject"})
    wait_for(midturn, 0)
    opencode.ask()  # a no without a reason has ended its turn

    (result,) = opencode.results()
    assert "user rejected permission" in result
    assert "The user said no" not in result, "these are our words for what was said in the inbox"
    assert "Nobody has answered" not in result
    (decided,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert decided["state"] == "superseded"


@pytest.mark.parametrize(
    "opencode",
    [[*CALL, ("bash", {"command": "touch other", "description": "Make it"})]],
    indirect=True,
)
def test_parallel_calls_are_decided_separately(midturn: CommandLine, opencode: Server) -> None:
    questions = {
        question["arguments"]["command"]: question["id"] for question in wait_for(midturn, 2)
    }
    midturn.ok("answer", questions["touch other"], "y")
    midturn.ok("answer", questions["touch made"], "n", "--reason", "Not that one.")

    made, other = until(lambda: opencode.provider.results, lambda results: len(results) == 2)
    assert "The user said no: Not that one." in made
    assert "said no" not in other
    assert (midturn.root / "other").exists()
    assert not (midturn.root / "made").exists()


@pytest.mark.parametrize(
    "opencode",
    [[("midturn_ask_user", {"question": "Ship it?", "answer_type": "boolean"})]],
    indirect=True,
)
def test_tool_timeout_is_not_a_no(midturn: CommandLine, opencode: Server) -> None:
    (nobody,) = opencode.results()
    (question,) = wait_for(midturn)

    assert "Nobody has answered yet" in nobody
    assert "The user answered" not in nobody
    assert question["asker"]["name"] == "opencode"


def test_always_allowed_call_is_not_asked_again_by_the_agent(midturn: CommandLine) -> None:
    with asking(midturn, CALL, CALL) as opencode:
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "always")
        until(lambda: opencode.provider.results, lambda results: len(results) == 2)

    assert question["asker"]["always"] == ["run touch * without asking, until opencode ends"]
    assert len(stored(midturn)) == 1, "the second call was not asked about"
    assert (midturn.root / "made").exists()


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (["n"], "The user answered: no"),
        (["n", "--reason", "Not on a Friday."], "Not on a Friday."),
        (["--reply", "Ask Ada first."], "The user did not choose, and said: Ask Ada first."),
    ],
)
def test_model_reads_no_and_reply_to_our_servers_question(
    midturn: CommandLine, said: list[str], read: str
) -> None:
    ours: Reply = [("midturn_ask_user", {"question": "Ship it?", "answer_type": "boolean"})]
    with asking(midturn, ours, slice="300") as opencode:
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *said)
        (result,) = opencode.results()

    assert read in result
    assert "Nobody has answered" not in result
    assert len(answers(stored(midturn)[0])) == 1


def test_killed_bridge_leaves_its_question_to_the_next(
    midturn: CommandLine, opencode: Server
) -> None:
    (question,) = wait_for(midturn)
    opencode.bridge.kill()
    opencode.bridge.communicate(timeout=300)
    assert answers(stored(midturn)[0]) == []

    midturn.ok("answer", question["id"], "y")
    opencode.bridge = midturn.start("hook", "opencode", "--url", opencode.url)

    opencode.results()
    assert (midturn.root / "made").exists()
    assert len(stored(midturn)) == 1


BOTH: Reply = [*CALL, ("question", {"questions": QUESTIONS})]


def gone(midturn: CommandLine, count: int) -> list[dict[str, Any]]:
    """Wait until nothing waits for the answers to `count` open questions; return them."""

    def nobody_waits(questions: list[dict[str, Any]]) -> bool:
        return len(questions) == count and not any(
            question["asker"]["waits"] for question in questions
        )

    return until(lambda: midturn.ok("inbox", "--json").json, nobody_waits)


@pytest.mark.parametrize("opencode", [BOTH], indirect=True)
def test_killed_agent_leaves_questions_open_until_it_asks_again(
    midturn: CommandLine, opencode: Server
) -> None:
    wait_for(midturn, 2)
    opencode.kill()
    (permission,) = (question for question in gone(midturn, 2) if question["kind"] == "run")
    said = midturn.ok("answer", permission["id"], "y").stderr
    assert "The process of opencode has ended" in " ".join(said.split())

    opencode.start_again()
    opencode.provider.then(BOTH, "All done.")
    opencode.ask()

    until(
        (midturn.root / "made").exists, bool
    )  # it has received the answer that was given meanwhile
    (question,) = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda found: [one["asker"]["waits"] for one in found] == [True],
    )
    midturn.ok("answer", question["id"], '{"q0": "dev", "q1": ["a"]}')
    until(
        lambda: opencode.provider.results,
        lambda results: any('"Which env?"="dev"' in result for result in results),
    )
    wait_for(midturn, 0)
    assert len(stored(midturn)) == 2, "nobody was asked twice"
    assert opencode.bridge.poll() is None
