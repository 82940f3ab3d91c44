"""`midturn init`."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from midturn.cli import init
from midturn.cli.init import choose
from midturn.models import available
from support.cli import CommandLine


@pytest.fixture
def fresh(tmp_path: Path) -> CommandLine:
    """A user in a directory that is not a workspace."""
    return CommandLine(tmp_path, workspace=False)


def test_init_creates_a_workspace_and_explains_its_choices(fresh: CommandLine) -> None:
    finished = fresh.ok("init", ANTHROPIC_API_KEY="sk-x")

    assert finished.stdout.startswith(
        "Wrote .midturn/config.toml.\nThe model is anthropic/claude-sonnet-5-5, because"
        " ANTHROPIC_API_KEY is set."
    )
    assert fresh.ok("config", "get", "assistant.model.id").stdout == "anthropic/claude-sonnet-5-5\n"
    assert "sk-x" not in (fresh.root / ".midturn" / "config.toml").read_text()
    assert (fresh.root / ".midturn" / ".gitignore").exists()


def test_second_init_changes_nothing(fresh: CommandLine) -> None:
    fresh.ok("init")
    file = fresh.root / ".midturn" / "config.toml"
    file.write_text("# mine\n")

    assert "was not changed." in fresh.ok("init", "--review").stdout
    assert file.read_text() == "# mine\n"


def test_files_written_by_init_are_trusted(fresh: CommandLine) -> None:
    fresh.ok("init", "--review", OPENAI_API_KEY="sk-x")

    finished = fresh.ok("query", "--dry-run", "hi")

    assert "not trusted" not in finished.stderr
    target = fresh.ok(
        "config",
        "get",
        "--json",
        "conversation.tools.fs_modify_file.questions.apply_changes.target",
    ).json
    assert target == {"model": {"id": "openai/gpt-6-luna"}, "escalation": True}
    assert fresh.ok("config", "get", "assistant.model.id").stdout == "openai/gpt-6.1-sol\n"


def test_init_without_a_key_chooses_no_model_and_explains_how(fresh: CommandLine) -> None:
    shown = choose({}, review=False)

    assert "assistant" in shown.text
    fresh.ok("init")
    assert fresh.run("query", "hi").status == 2


@contextmanager
def server(*models: str) -> Generator[str]:
    """Serve a list of models as an OpenAI-compatible server does; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": model} for model in models]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/v1"
        listening.shutdown()
        thread.join()


def test_available_local_server_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    with server("qwen3", "llama4") as address:
        monkeypatch.setattr(available, "LOCAL_SERVERS", {"ollama": address})
        written = choose({}, review=True)

    assert 'model.id = "ollama/qwen3"' in written.text
    assert (
        f'[providers.llm.ollama]\nkind = "openai-compatible"\nbase_url = "{address}"'
        in written.text
    )
    assert 'model.id = "ollama/llama4"' in written.text
    assert f"The model is ollama/qwen3, because a server is running at {address}." in written.says


def test_a_reviewer_is_never_silently_the_model_that_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with server("qwen3") as address:
        monkeypatch.setattr(available, "LOCAL_SERVERS", {"ollama": address})
        written = choose({}, review=True)

    assert (
        "Changes to files are reviewed by the same model, until you configure another in the file."
        in written.says
    )


def test_each_preferred_pair_is_known_and_has_two_models() -> None:
    for writes, reviews in init.PREFERRED.values():
        assert writes != reviews
        assert {writes, reviews} <= set(available.KNOWN_PROFILES)


def test_query_and_init_suggest_a_command_after_a_key_was_added(fresh: CommandLine) -> None:
    keys = {"OPENAI_API_KEY": "sk-x"}
    first = fresh.ok("init").stdout
    without = fresh.run("query", "hi")
    told = fresh.run("query", "hi", **keys)
    again = fresh.ok("init", **keys).stdout
    command = "midturn config set assistant.model.id openai/gpt-6.1-sol"

    assert "`midturn config set assistant.model.id anthropic/claude-sonnet-5-5`" in " ".join(
        first.split()
    )
    assert (without.status, told.status) == (2, 2)
    assert "ANTHROPIC_API_KEY, OPENAI_API_KEY" in " ".join(without.stderr.split())
    assert "`midturn config set assistant.model.id PROVIDER/MODEL`" in " ".join(
        without.stderr.split()
    )
    assert f"`{command}`" in " ".join(told.stderr.split())
    assert "Its model is now openai/gpt-6.1-sol, because OPENAI_API_KEY is set." in " ".join(
        again.split()
    )
    assert fresh.ok("config", "get", "assistant.model.id").stdout == "openai/gpt-6.1-sol\n"
    fresh.ok(*command.split()[1:])
    assert '"model": "openai/gpt-6.1-sol"' in fresh.ok("query", "--dry-run", "hi", **keys).stdout
    assert "config set" not in fresh.ok("init", **keys).stdout


def test_missing_model_outside_a_workspace_suggests_init(fresh: CommandLine) -> None:
    told = fresh.run("query", "hi", ANTHROPIC_API_KEY="sk-x")

    assert "`midturn init` picks one" in " ".join(told.stderr.split())
