"""An agent that has asked too much, by each interface: its model reads that nobody was asked,
a person that there were more.
"""

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
FULL = (
    f"{external_call.MAX_OPEN_PER_SESSION} questions of this session of {{}} wait for the user"
    " already"
)
NOT_A_NO = "nobody has decided. This is not a no."
MORE = "More questions from this agent were refused"
pytestmark = pytest.mark.timeout(600)


def refused(midturn: CommandLine) -> list[bool]:
    """Return for each open question, oldest first, whether it shows that there were more."""
    return [
        question["asker"].get("refused", False) for question in midturn.ok("inbox", "--json").json
    ]


@pytest.mark.parametrize("prompt", ["permission", "form", "address"])
def test_acp_model_is_told_that_nobody_was_asked(midturn: CommandLine, prompt: str) -> None:
    """The protocol only has `cancelled`. Agents then tell their models that the user has left
    or refused.
    """
    flood(midturn, "probe", "", "s1")

    run = midturn.ok("acp", "run", "--prompt", prompt, "--", *started_by_others(ACP_AGENT))

    answer, _, then = run.stdout.partition(" | heard: midturn: ")
    assert answer.split(": ")[1].startswith("cancel")
    assert FULL.format("probe") in then
    assert NOT_A_NO in then
    assert "The user said no" not in run.stdout
    assert refused(midturn) == [True] + [False] * (external_call.MAX_OPEN_PER_SESSION - 1)


def test_page_and_inbox_indicate_refused_questions(midturn: CommandLine) -> None:
    store = flood(midturn, "probe", "", "s1")
    midturn.ok("acp", "run", "--prompt", "permission", "--", *started_by_others(ACP_AGENT))
    oldest, second, *_ = [question["id"] for question in midturn.ok("inbox", "--json").json]

    with browsing(inbox(store, user=ada)) as page:
        listed = page.get("/").text
        shown, other = (page.get(f"/q/{id}").text for id in (oldest, second))

    assert listed.count(MORE) == 1
    assert f"{MORE}, because it asked too many." in shown
    assert MORE not in other
    assert (
        " ".join(midturn.ok("inbox").stdout.split()).count(
            "; further questions were rejected because it asked too many"
        )
        == 1
    )


class Opencode:
    """A fake opencode server. One permission request is open until it is answered."""

    def __init__(self) -> None:
        waiting: list[dict[str, Any]] = [
            {
                "id": "per_1",
                "sessionID": "ses_1",
                "permission": "bash",
                "patterns": ["touch made"],
                "metadata": {},
            }
        ]
        self.said: dict[str, Any] = {}
        said = self.said

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None: ...

            def do_GET(self) -> None:
                """Return the open request."""
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


def test_opencode_request_waits_at_its_prompt_until_the_limit_allows_it(
    midturn: CommandLine, opencode: Opencode
) -> None:
    store = flood(midturn, "opencode", "opencode", "ses_1")
    bridge = midturn.start("hook", "opencode", "--url", opencode.url)
    try:
        assert bridge.stderr
        said = until(
            lambda: " ".join(bridge.stderr.readline().split()) if bridge.stderr else "",
            lambda line: "no more are taken" in line,
        )
        until(lambda: refused(midturn), any)
        assert opencode.said == {}, "nothing was said to opencode: its own prompt decides"

        asyncio.run(
            store.answer(midturn.ok("inbox", "--json").json[0]["id"], approve=False, via="inbox")
        )
        carried = until(
            lambda: midturn.ok("inbox", "--json").json[-1],
            lambda question: "patterns" in question["arguments"],
        )
        midturn.ok("answer", carried["id"], "y")
        until(lambda: opencode.said, bool)
    finally:
        bridge.terminate()
        bridge.communicate(timeout=120)

    assert FULL.format("opencode") in said
    assert said.endswith("You can answer it at opencode's own prompt.")
    assert opencode.said == {"/permission/per_1/reply": {"reply": "once"}}
    assert len(stored(midturn)) == external_call.MAX_OPEN_PER_SESSION + 1
