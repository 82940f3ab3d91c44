"""Memory of a worker, a page and a chat over many answers.

Usage: soak.py [MINUTES [ANSWERS]], such as `soak.py 30 4` for 30 minutes with 4 answers per
second. Each turn of the worker asks twice: the first question is answered in the store, the
second on the page, to which a browser is connected. The turns run in a few conversations, each of
which is replaced after some turns, because a page keeps the length of every conversation and the
content of recent ones. The chat asks at a terminal, in one conversation, whose history it holds.
Prints a row per minute, and the growth after the first fifth: memory as counted by the kernel,
and memory in use (probe/sitecustomize.py). Asserts nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import httpx2  # noqa: E402  the path comes first

import midturn as mt  # noqa: E402
from machines import agent, memory_of  # noqa: E402
from midturn.terminal.prompts.rich.screen import POINTER  # noqa: E402
from support.pages import OWN  # noqa: E402
from support.pty_session import PtySession  # noqa: E402
from support.served import Served  # noqa: E402
from support.serving import enter, loopback_request  # noqa: E402

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
RATE = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
SAMPLE = min(60.0, MINUTES * 6)
PROBE = str(HERE / "probe")
CONVERSATIONS = 50
TURNS = 10
"""Number of conversations, and of turns before a conversation is replaced."""
A_TURN = 3.0  # seconds between two turns of the chat
PATIENCE = 60.0
Row: TypeAlias = Mapping[str, tuple[float, float]]
ASKS = {"name": "ask_user", "arguments": {"question": "Sure?", "answer_type": "boolean"}}


class Page:
    """The page as in a browser: signed in, with an open event stream."""

    def __init__(self, served: Served) -> None:
        entrance, host = loopback_request(served.address())
        self.client = httpx2.Client(
            headers={**OWN, **host}, base_url=f"http://127.0.0.1:{served.port}", timeout=PATIENCE
        )
        assert enter(self.client, entrance).status_code == 303
        self.pid = served.process.pid
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(httpx2.HTTPError), self.client.stream("GET", "/api/events") as events:
            for _ in events.iter_bytes():
                pass

    def answer_next(self, question: mt.OpenQuestion, value: str) -> None:
        """Wait for the conversation's next question, read the inbox, and answer."""
        until = time.monotonic() + PATIENCE
        asked = [question.to_json()]
        while not asked or asked[0]["id"] == question.id:
            asked = self.client.get(
                "/api/questions", params={"conversation": question.conversation}
            ).json()
            assert time.monotonic() < until, f"{question.id} was the last"
            time.sleep(0.02)
        assert self.client.get("/").status_code == 200
        answered = self.client.post(
            f"/api/questions/{asked[0]['id']}/answer", json={"value": value}
        )
        assert answered.status_code == 200, answered.text


@contextmanager
def working(store: Path, probe: Mapping[str, str]) -> Generator[int]:
    """Run a worker; yield its PID."""
    path = os.pathsep.join([str(HERE), probe["PYTHONPATH"], os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **probe, "BENCH_STORE": str(store), "PYTHONPATH": path}
    command = [sys.executable, "-m", "midturn", "worker", "machines:agent"]
    worker = subprocess.Popen(command, cwd=HERE, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield worker.pid
    finally:
        worker.kill()
        worker.wait()


class Chat:
    """A chat at a terminal that asks once per turn."""

    def __init__(self, directory: Path, probe: Mapping[str, str]) -> None:
        turns = int(MINUTES * 60 / A_TURN) + 10
        (directory / "play.json").write_text(
            json.dumps({"replies": [{"calls": [ASKS]}, {"text": "Done."}] * turns})
        )
        homes = {
            name: str(directory)
            for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        }
        command = [
            sys.executable,
            "-m",
            "midturn",
            "chat",
            "-m",
            f"scripted:{directory / 'play.json'}",
        ]
        self.session = PtySession(command, environment={**homes, **probe})
        self.session.wait_for(POINTER.strip())
        self.turns = 0

    @property
    def pid(self) -> int:
        return cast("Any", self.session).child.pid

    def turn(self) -> None:
        """Send a message and answer yes."""
        self.turns += 1
        self.session.raw = b""
        self.session.send(f"turn {self.turns}")
        self.session.wait_for(f"turn {self.turns}")
        self.session.send("\r")
        self.session.wait_for_raw(b"Sure?")
        self.session.wait_for("all keys")
        # a prompt ignores keys that are pressed right after it appears
        self.session.wait_for_quiet(0.5)
        self.session.raw = b""
        self.session.send("y")
        self.session.wait_for_raw(b"Done.")


def people(store: mt.ConversationStore, page: Page, until: float) -> int:
    """Ask and answer at the given rate; return the number of answers."""
    count, asking, began = 0, agent.with_store(store), time.monotonic()
    same: deque[tuple[str, int]] = deque()
    while time.monotonic() < until:
        again, turns = same.popleft() if len(same) == CONVERSATIONS else (None, 0)
        if again and turns == TURNS:
            store.remove_sync(again)
            again, turns = None, 0
        question = asking.run_sync("Ship it.", conversation=again).pending[0]
        same.append((question.conversation, turns + 1))
        store.answer_sync(question.id, True)
        page.answer_next(question, "eu-1")
        count += 2
        time.sleep(max(0.0, began + count / RATE - time.monotonic()))
    return count


def main() -> None:
    """Run all parts and sample them every minute."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        conversations = directory / "conversations"
        store = mt.open_store(conversations)
        agent.with_store(store).run_sync("Ship it.")
        probe = {"PYTHONPATH": PROBE, "MIDTURN_PROBE": folder}
        own = ["env", *(f"{name}={value}" for name, value in probe.items())]
        # a new process, because a forked one starts with the memory of this one
        served = Served(directory, (), prefix=own)
        page, chat = Page(served), Chat(directory, probe)
        with working(conversations, probe) as worker:
            processes = {"worker": worker, "page": page.pid, "chat": chat.pid}
            until = time.monotonic() + MINUTES * 60
            given: list[int] = []
            answering = threading.Thread(target=lambda: given.append(people(store, page, until)))
            answering.start()
            rows = list(sampled(processes, chat, until, directory))
            answering.join()
        cast("Any", chat.session).child.close(force=True)
        served.end()
    after = rows[len(rows) // 5 :]
    grown = ", ".join(
        f"{name} {_grown(after, name, 0):+.1f} MB (in use {_grown(after, name, 1):+.2f})"
        for name in processes
    )
    print(
        f"{sum(given):,} answers, {chat.turns:,} turns of the chat; after the first fifth: {grown}"
    )


def _grown(rows: Sequence[Row], name: str, place: int) -> float:
    return rows[-1][name][place] - rows[0][name][place]


def in_use(process: int, directory: Path) -> float:
    """Return the MB that a process has in use, which it reports after a signal."""
    told = directory / str(process)
    told.unlink(missing_ok=True)
    os.kill(process, signal.SIGUSR2)
    until = time.monotonic() + PATIENCE
    while not told.exists() and time.monotonic() < until:
        time.sleep(0.02)
    return int(told.read_text()) / 1024 / 1024


def sampled(
    processes: Mapping[str, int], chat: Chat, until: float, directory: Path
) -> Generator[Row]:
    """Yield the memory of each process once a minute, in total and in use, while the chat
    runs.
    """
    began = following = time.monotonic()
    while time.monotonic() < until:
        chat.turn()
        if time.monotonic() >= following:
            following += SAMPLE
            row = {
                name: (memory_of(process), in_use(process, directory))
                for name, process in processes.items()
            }
            told = ", ".join(
                f"{name} {all_of_it:.1f} MB (in use {used:.2f})"
                for name, (all_of_it, used) in row.items()
            )
            print(
                f"{(time.monotonic() - began) / 60:5.1f} min: {told} (load"
                f" {os.getloadavg()[0]:.1f})",
                flush=True,
            )
            yield row
        chat.session.wait_for_quiet(A_TURN)


if __name__ == "__main__":
    main()
