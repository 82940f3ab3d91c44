"""A fake ntfy server, and a test of two `midturn serve` processes that notify about the same
question.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import midturn as mt
from midturn.events.types import Escalated, Notified, Reminded
from midturn.stores.store import ConversationStore
from support.pages import agent_with, asking, wait_for
from support.serving import free_port


class Ntfy:
    """A fake ntfy server. `taken` are the received messages; `status` is its response status."""

    def __init__(self, topic: str = "questions") -> None:
        self.taken: list[dict[str, Any]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.taken.append(json.loads(body))
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: object) -> None:
                """Do not log requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"ntfy://127.0.0.1:{self._server.server_port}/{topic}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


PEOPLE = """\
[people.ana]
notify = ["{url}"]
[people.carl]
notify = ["{url}"]
[groups.lead]
members = ["carl"]
[notify]
after = 1
"""
SOON = mt.People(
    ask=["ana"],
    remind_after=1,
    escalate=[mt.Escalation(timedelta(seconds=2), ["lead"])],
    members={"lead": ["carl"]},
)


def check_two_notifying_servers(
    store: ConversationStore, address: str, home: Path, ntfy: Ntfy
) -> None:
    """Let two `midturn serve` processes notify about a question until it is escalated. Each
    notification must be sent and recorded once.
    """
    config = home / "config" / "midturn" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(PEOPLE.format(url=ntfy.url))
    servers = [_serving(address, home) for _ in range(2)]
    try:
        for server in servers:
            assert server.stdout
            assert server.stdout.readline().startswith("http")  # now both watch the store
        waiting = wait_for(
            agent_with(store, asking(mt.Question.boolean("go", "Deploy?", people=SOON)))
        )
        deadline = time.monotonic() + 120
        while not all(
            any(words in each["message"] for each in ntfy.taken)
            for words in ("lead can answer it now", "(reminder ")
        ):
            assert time.monotonic() < deadline, ntfy.taken
            time.sleep(0.05)
    finally:
        for server in servers:
            server.terminate()
        said = [server.communicate(timeout=120) for server in servers]
    assert all("Traceback" not in errors for _, errors in said), said
    events = store.read_sync(waiting.conversation).events
    moments = Counter(
        (event.type, getattr(event, "number", 0))
        for event in events
        if isinstance(event, Reminded | Escalated)
    )
    moments += Counter(
        ("asked", 0) for event in events if isinstance(event, Notified) and event.about == "asked"
    )
    assert set(moments.values()) == {1}, moments
    assert {("asked", 0), ("escalated", 1)} <= set(moments), (moments, ntfy.taken, said)
    assert any(kind == "reminded" for kind, _ in moments), (
        moments,
        ntfy.taken,
        said,
    )  # missed reminders count once
    reasons = Counter(_moment(each["message"]) for each in ntfy.taken)
    assert set(reasons.values()) == {1}, reasons
    assert set(reasons) <= set(moments)


def _serving(address: str, home: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "midturn",
        "serve",
        "--store",
        address,
        "--port",
        str(free_port()),
        "--user",
        "ana",
    ]
    names = {
        "HOME": "home",
        "XDG_CONFIG_HOME": "config",
        "XDG_STATE_HOME": "state",
        "XDG_DATA_HOME": "data",
    }
    environment = {
        "PATH": "/usr/bin:/bin",
        **{name: str(home / folder) for name, folder in names.items()},
    }
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _moment(message: str) -> tuple[str, int]:
    """Return the kind and number of the notification that a message is about."""
    if found := re.search(r"reminder (\d)", message):
        return "reminded", int(found[1])
    return ("escalated", 1) if "lead can answer it now, too" in message else ("asked", 0)
