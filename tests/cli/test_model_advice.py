"""Commands suggested on the command line when a model cannot be used."""

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


def test_missing_key_error_says_how_to_work_without_one(midturn: CommandLine) -> None:
    finished = midturn.run("query", "hello", "-m", "openai/gpt-6-luna", OPENAI_API_KEY="")

    assert finished.status == 2
    assert "set $OPENAI_API_KEY" in finished.stderr
    assert "`midturn demo`" in finished.stderr


def test_unreachable_server_error_names_the_connection_check(midturn: CommandLine) -> None:
    with socket.socket() as taken:  # bound without listening, so connections are refused
        taken.bind(("127.0.0.1", 0))
        midturn.configure(LOCAL.format(port=taken.getsockname()[1]))
        finished = midturn.run("query", "hello")

    assert finished.status == 1
    assert "Cannot reach 127.0.0.1" in finished.stderr
    assert (
        "To check the connection: `midturn doctor`. `midturn demo` works without one."
        in " ".join(finished.stderr.split())
    )
    assert "To continue it: " in finished.stderr
