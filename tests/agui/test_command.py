"""`midturn agui serve`: the assistant with its configuration, for clients with a token."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.agui import FrontEnd
from support.cli import CommandLine

ASK = {
    "name": "ask_user",
    "arguments": {"question": "Where to?", "answer_type": "text"},
}
SCRIPT = {"replies": [{"text": "Let me ask.", "calls": [ASK]}, {"text": "Done."}]}
ANNOUNCED = re.compile(r"serving (http://\S+)\. Clients .* Bearer (\S+)`\.")


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home directory and a workspace."""
    return CommandLine(tmp_path)


class Server:
    """A running command, its URL and its token."""

    def __init__(self, process: subprocess.Popen[str], token: str | None) -> None:
        assert process.stderr
        self.process = process
        told = ""
        while "Press Ctrl-C" not in told:
            line = process.stderr.readline()
            assert line, told
            told += line
        told = " ".join(told.split())
        found = ANNOUNCED.search(told)
        if token is None:
            assert found, told
            self.url, self.token = found[1], found[2]
        else:
            assert token not in told
            self.url = told.split("serving ")[1].split()[0].rstrip(".")
            self.token = token

    def client(self, **headers: str) -> httpx.AsyncClient:
        given = {"authorization": f"Bearer {self.token}", **headers}
        return httpx.AsyncClient(
            base_url=self.url.rstrip("/"), headers=given, timeout=60, trust_env=False
        )


@contextmanager
def serving(midturn: CommandLine, *options: str, token: str | None = None) -> Generator[Server]:
    play = midturn.root / "play.json"
    play.write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-m", "midturn", "agui", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "-m", f"scripted:{play}", *options],
        cwd=midturn.root,
        env=midturn.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Server(process, token)
        finally:
            process.kill()
            process.communicate()


def test_question_of_the_assistant_is_answered_in_the_front_end(midturn: CommandLine) -> None:
    async def scene(server: Server) -> None:
        async with server.client() as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            interrupt = asked.interrupt
            assert interrupt["message"] == "Where to?"
            ended = await front_end.answer(interrupt, {"answer": "prod"})
            assert ended.not_taken == []
            assert (ended.text, ended.outcome) == ("Done.", "success")
            assert "prod" in ended.results[0]

    with serving(midturn) as server:
        asyncio.run(scene(server))
    (conversation,) = midturn.ok("conversation", "ls", "--json").json
    shown = midturn.ok("conversation", "show", str(conversation["id"])).stdout
    assert "ana" in shown


def test_question_is_answered_in_the_inbox_and_the_turn_goes_on(midturn: CommandLine) -> None:
    async def scene(server: Server) -> None:
        async with server.client() as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            answered = await asyncio.to_thread(midturn.ok, "answer", asked.interrupt["id"], "mars")
            assert answered.status == 0
            seen = await front_end.run()
            while seen.outcome != "success":
                await asyncio.sleep(0.1)
                seen = await front_end.run()
            assert seen.messages[-1]["content"] == "Done."

    with serving(midturn) as server:
        asyncio.run(scene(server))


def test_requests_without_the_token_are_refused(midturn: CommandLine) -> None:
    body: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": []}

    async def status(server: Server, **headers: str) -> int:
        async with server.client(**headers) as client:
            return (await client.post("/", json=body)).status_code

    async def scene(server: Server) -> None:
        assert await status(server) == 200
        assert await status(server, authorization="Bearer wrong") == 401
        assert await status(server, authorization="") == 401
        assert await status(server, host="evil.example") == 421
        assert await status(server, origin="https://evil.example") == 403
        origin = {"origin": "https://chat.example.org"}
        assert await status(server, **origin) == 200
        async with httpx.AsyncClient(trust_env=False) as client:
            asked = {**origin, "access-control-request-method": "POST"}
            allowed = await client.options(server.url, headers=asked)
            assert allowed.headers["access-control-allow-origin"] == origin["origin"]

    with serving(midturn, "--origin", "https://chat.example.org") as server:
        asyncio.run(scene(server))


def test_token_of_a_file(midturn: CommandLine) -> None:
    file = midturn.root / "token"
    file.write_text("a-token-of-my-own-1234\n")
    file.chmod(0o600)

    async def scene(server: Server) -> None:
        async with server.client() as client:
            assert (await client.get("/capabilities")).status_code == 200

    with serving(midturn, "--token-file", str(file), token="a-token-of-my-own-1234") as server:
        asyncio.run(scene(server))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--host", "0.0.0.0"), "Without TLS"),
        (("--origin", "chat.example.org"), "Expected the origin"),
        (("--secrets", "--behind-proxy"), "cannot be combined"),
        (("--token-file", "short"), "too short"),
        (("--token-file", "open"), "Other users can read"),
    ],
)
def test_unsafe_options_are_refused(
    midturn: CommandLine, options: tuple[str, ...], told: str
) -> None:
    for name, mode in (("short", 0o600), ("open", 0o644)):
        file = midturn.root / name
        file.write_text("short" if name == "short" else "x" * 30)
        file.chmod(mode)
    finished = midturn.run("agui", "serve", *options)
    assert finished.status != 0
    assert told in " ".join(finished.stderr.split())


def test_server_ends_with_a_signal(midturn: CommandLine) -> None:
    with serving(midturn) as server:
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.process.wait(60) == 128 + signal.SIGTERM


def test_group_shows_its_commands(midturn: CommandLine) -> None:
    shown: Any = midturn.run("agui", "--help")
    assert "serve" in shown.stdout
