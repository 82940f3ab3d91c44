"""A server on this machine that speaks the language of ntfy, and two of `midturn serve` that tell it of a question."""

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
    """A server that takes what ntfy takes; `status` is what it says to it."""

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
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"ntfy://127.0.0.1:{self._server.server_port}/{topic}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End it."""
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
SOON = mt.People(ask=["ana"], remind_after=1, escalate=[mt.Escalation(timedelta(seconds=2), ["lead"])], members={"lead": ["carl"]})


def told_by_two_servers(store: ConversationStore, address: str, home: Path, ntfy: Ntfy) -> None:
    """Have two processes of `midturn serve` tell of one question until it is escalated; each moment is recorded, and told, once."""
    config = home / "config" / "midturn" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(PEOPLE.format(url=ntfy.url))
    servers = [_serving(address, home) for _ in range(2)]
    try:
        for server in servers:
            assert server.stdout
            assert server.stdout.readline().startswith("http")  # both look from now on
        waiting = wait_for(agent_with(store, asking(mt.Question.boolean("go", "Deploy?", people=SOON))))
        deadline = time.monotonic() + 60
        while not all(any(words in each["message"] for each in ntfy.taken) for words in ("put to lead", "(reminder ")):
            assert time.monotonic() < deadline, ntfy.taken
            time.sleep(0.05)
    finally:
        for server in servers:
            server.terminate()
        said = [server.communicate(timeout=60) for server in servers]
    assert all("Traceback" not in errors for _, errors in said), said
    events = store.read_sync(waiting.conversation).events
    moments = Counter((event.type, getattr(event, "number", 0)) for event in events if isinstance(event, Reminded | Escalated))
    moments += Counter(("asked", 0) for event in events if isinstance(event, Notified) and event.about == "asked")
    assert set(moments.values()) == {1}, moments
    assert {("asked", 0), ("escalated", 1)} <= set(moments), (moments, ntfy.taken, said)
    assert any(kind == "reminded" for kind, _ in moments), (moments, ntfy.taken, said)  # reminders that were missed count once
    reasons = Counter(_moment(each["message"]) for each in ntfy.taken)
    assert set(reasons.values()) == {1}, reasons
    assert set(reasons) <= set(moments)


def _serving(address: str, home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "midturn", "serve", "--store", address, "--port", str(free_port()), "--user", "ana"]
    names = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data"}
    environment = {"PATH": "/usr/bin:/bin", **{name: str(home / folder) for name, folder in names.items()}}
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _moment(message: str) -> tuple[str, int]:
    """Return the moment that a message tells of."""
    if found := re.search(r"reminder (\d)", message):
        return "reminded", int(found[1])
    return ("escalated", 1) if "put to lead, too" in message else ("asked", 0)
