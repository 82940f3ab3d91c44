"""`midturn a2a serve` and `midturn a2a card`."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.a2a import Peer, answer_text, require_sdk, state, texts
from support.cli import CommandLine

require_sdk()

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


@contextmanager
def serving(midturn: CommandLine, *options: str) -> Generator[tuple[str, str]]:
    """Run the command. Yield its URL and its token."""
    play = midturn.root / "play.json"
    play.write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-m", "midturn", "a2a", "serve", "--port", "0"]
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
            assert process.stderr
            told = ""
            while "Press Ctrl-C" not in told:
                line = process.stderr.readline()
                assert line, told
                told += line
            found = ANNOUNCED.search(" ".join(told.split()))
            assert found, told
            yield found[1], found[2]
        finally:
            process.kill()
            process.communicate()


def client_of(url: str, token: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60, trust_env=False
    )


def test_question_of_the_assistant_is_answered_in_the_inbox(midturn: CommandLine) -> None:
    async def scene(url: str, token: str) -> None:
        async with client_of(url, token) as client:
            peer = Peer(client)
            asked = await peer.send("Go.")
            assert state(asked) == "auth_required"
            assert "Where to?" in texts(asked)[-1]
            (waiting,) = midturn.ok("inbox", "--json").json
            await asyncio.to_thread(midturn.ok, "answer", str(waiting["id"]), "mars")
            assert answer_text(await peer.completed(asked)) == ["Let me ask.", "Done."]

    with serving(midturn) as (url, token):
        asyncio.run(scene(url, token))


def test_card_is_public_and_everything_else_needs_the_token(midturn: CommandLine) -> None:
    async def scene(url: str) -> None:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            card = (await client.get("/.well-known/agent-card.json")).json()
            assert card["name"] == "Filer"
            assert card["supportedInterfaces"][0]["url"] == f"{url}rpc"
            assert card["securitySchemes"]["token"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"
            assert (await client.post("/rpc", json={})).status_code == 401

    with serving(midturn, "--name", "Filer") as (url, _):
        asyncio.run(scene(url))


def test_card_command_prints_the_card(midturn: CommandLine) -> None:
    card = json.loads(midturn.ok("a2a", "card", "--url", "https://a.example").stdout)
    assert card["supportedInterfaces"][0]["url"] == "https://a.example/rpc"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--host", "0.0.0.0"), "Without TLS"),
        (("--behind-proxy",), "needs `--url`"),
        (("--url", "ftp://x"), "HTTP address"),
        (("--name", ""), "needs a `name`"),
    ],
)
def test_unsafe_and_invalid_options_are_refused(
    midturn: CommandLine, options: tuple[str, ...], told: str
) -> None:
    finished = midturn.run("a2a", "serve", "--port", "0", *options)
    assert finished.status != 0
    assert told in " ".join(finished.stderr.split())
