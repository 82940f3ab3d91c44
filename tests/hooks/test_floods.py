"""An agent that has asked too much, on each way by which it asks: its model reads that nobody was asked, a person that there was more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from midturn.integrations.hooks import external_call
from midturn.web import inbox
from support.cli import CommandLine
from support.floods import flood
from support.hooks import stored, until
from support.pages import ada, browsing
from support.warm_commands import started_by_others

ACP_AGENT = Path(__file__).parents[1] / "support" / "acp_agent.py"
FULL = f"{external_call.MOST} questions of this session of {{}} wait for the user already"
NOT_A_NO = "nobody has decided. This is not a no."
MORE = "of its questions were not taken, since it asked so many"
pytestmark = pytest.mark.timeout(120)


def refused(midturn: CommandLine) -> list[bool]:
    """Return for each open question, the oldest first, whether it is said there that there was more."""
    return [question["asker"].get("refused", False) for question in midturn.ok("inbox", "--json").json]


@pytest.mark.parametrize("prompt", ["permission", "form", "address"])
def test_a_model_behind_acp_reads_that_nobody_was_asked(midturn: CommandLine, prompt: str) -> None:
    """The protocol has one word for it, `cancelled`; agents tell their models then that the user has left, or refused."""
    flood(midturn, "probe", "", "s1")

    run = midturn.ok("acp", "run", "--prompt", prompt, "--", *started_by_others(ACP_AGENT))

    answer, _, then = run.stdout.partition(" | heard: midturn: ")
    assert answer.split(": ")[1].startswith("cancel")
    assert FULL.format("probe") in then
    assert NOT_A_NO in then
    assert "The user said no" not in run.stdout
    assert refused(midturn) == [True] + [False] * (external_call.MOST - 1)


def test_the_page_and_the_inbox_say_at_the_oldest_question_that_there_was_more(midturn: CommandLine) -> None:
    store = flood(midturn, "probe", "", "s1")
    midturn.ok("acp", "run", "--prompt", "permission", "--", *started_by_others(ACP_AGENT))
    oldest, second, *_ = [question["id"] for question in midturn.ok("inbox", "--json").json]

    with browsing(inbox(store, user=ada)) as page:
        listed = page.get("/").text
        shown, other = (page.get(f"/q/{id}").text for id in (oldest, second))

    assert listed.count("more of its questions were not taken") == 1
    assert f"More {MORE}." in shown
    assert MORE not in other
    assert midturn.ok("inbox").stdout.replace("\n", " ").count(f"more {MORE}") == 1


class Opencode:
    """A server of opencode without opencode: one permission waits there until it is answered."""

    def __init__(self) -> None:
        waiting: list[dict[str, Any]] = [
            {"id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["touch made"], "metadata": {}}
        ]
        self.said: dict[str, Any] = {}
        said = self.said

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                """Return what waits."""
                self._answer(waiting if self.path == "/permission" and not said else [])

            def do_POST(self) -> None:
                """Take an answer."""
                said[self.path] = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._answer(True)

            def _answer(self, body: Any) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def opencode() -> Iterator[Opencode]:
    serving = Opencode()
    yield serving
    serving.server.shutdown()
    serving.server.server_close()


def test_what_opencode_asks_waits_at_its_own_prompt_until_there_is_room(midturn: CommandLine, opencode: Opencode) -> None:
    store = flood(midturn, "opencode", "opencode", "ses_1")
    bridge = midturn.start("hook", "opencode", "--url", opencode.url)
    try:
        assert bridge.stderr
        said = until(lambda: " ".join(bridge.stderr.readline().split()) if bridge.stderr else "", lambda line: "no more are taken" in line)
        until(lambda: refused(midturn), any)
        assert opencode.said == {}, "nothing was said to opencode: its own prompt decides"

        asyncio.run(store.answer(midturn.ok("inbox", "--json").json[0]["id"], approve=False, via="inbox"))
        carried = until(lambda: midturn.ok("inbox", "--json").json[-1], lambda question: "patterns" in question["arguments"])
        midturn.ok("answer", carried["id"], "y")
        until(lambda: opencode.said, bool)
    finally:
        bridge.terminate()
        bridge.communicate(timeout=60)

    assert FULL.format("opencode") in said
    assert said.endswith("It waits at opencode's own prompt.")
    assert opencode.said == {"/permission/per_1/reply": {"reply": "once"}}
    assert len(stored(midturn)) == external_call.MOST + 1
