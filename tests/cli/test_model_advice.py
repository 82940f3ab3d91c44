"""What the command line adds when a model cannot be used: the command that helps."""

from __future__ import annotations

import socket

from support.cli import CommandLine

LOCAL = """
[assistant]
model.id = "local/m"
request.max_retries = 0

[providers.llm.local]
kind = "openai-compatible"
base_url = "http://127.0.0.1:{port}/v1"
"""


def test_a_missing_key_says_how_to_go_without_one(midturn: CommandLine) -> None:
    finished = midturn.run("query", "hello", "-m", "openai/gpt-6-luna", OPENAI_API_KEY="")

    assert finished.status == 2
    assert "set $OPENAI_API_KEY" in finished.stderr
    assert "`midturn demo`" in finished.stderr


def test_a_server_that_is_not_there_says_what_checks_the_connection(midturn: CommandLine) -> None:
    with socket.socket() as taken:  # bound, and nobody listens: connecting is refused
        taken.bind(("127.0.0.1", 0))
        midturn.configure(LOCAL.format(port=taken.getsockname()[1]))
        finished = midturn.run("query", "hello")

    assert finished.status == 1
    assert "Cannot reach 127.0.0.1" in finished.stderr
    assert "`midturn doctor` checks the connection" in " ".join(finished.stderr.split())
    assert "goes on with it" in finished.stderr
