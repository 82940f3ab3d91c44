"""`--store postgresql://…`: every command works with a database as it does with a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.cli.command_context import StoreAddress, place_in
from midturn.stores.opening import FileStore, open_store
from support.cli import CommandLine, asks, calls
from support.hooks import until

pytestmark = pytest.mark.real("PostgreSQL")


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def _asked(midturn: CommandLine, url: str) -> str:
    """Suspend a turn in the database; return the ID of its question."""
    model = midturn.script(calls("deploy", ask=[asks()]), {"text": "Done."})
    midturn.configure(
        f'assistant.model.id = "{model}"\nconversation.tools."*".detached = "defer"\n'
    )
    midturn.asker()
    waiting = midturn.run("query", "--store", url, "Ship it to staging")
    assert waiting.status == 3, waiting
    assert f"To continue: midturn resume {_newest(url)} --store '{url}'" in waiting.stderr
    return str(midturn.ok("inbox", "--json", "--store", url).json[0]["id"])


def test_turn_is_suspended_answered_and_resumed_over_postgres(
    midturn: CommandLine, url: str
) -> None:
    question = _asked(midturn, url)
    conversation = question.partition("-")[0]
    assert midturn.conversations() == []
    assert "Deploy to staging?" in midturn.ok("inbox", "--all", "--store", url).stdout
    [row] = midturn.ok("conversation", "ls", "--json", "--store", url).json
    assert (row["id"], row["title"], row["turn_open"], row["waiting"]) == (
        conversation,
        "Ship it to staging",
        True,
        1,
    )

    answered = midturn.ok("answer", question[:-2], "y", "--store", url).stderr
    assert "yes" in answered
    assert "The program that defines the tool continues the turn." in answered
    assert f"`midturn resume {conversation} --store '{url}'`" in answered
    assert midturn.ok("resume", "--ready", "--store", url).stdout == "Done.\n"

    assert midturn.ok("inbox", "--store", url).stdout == "No open questions.\n"
    assert midturn.ok("query", "-c", "--store", url, "And now?").stdout == "Done.\n"
    assert midturn.ok("conversation", "grep", "-F", "And now?", "--store", url).stdout.startswith(
        conversation
    )
    assert (
        "And now?" in midturn.ok("conversation", "show", conversation[:-3], "--store", url).stdout
    )
    copy = midturn.ok("conversation", "fork", "--turns", "1", "--store", url).stdout.strip()
    midturn.ok("conversation", "edit", copy, "--title", "A copy", "--label", "x", "--store", url)
    midturn.ok("conversation", "rm", "--yes", conversation, "--store", url)
    [row] = midturn.ok("conversation", "ls", "--json", "--store", url).json
    assert (row["id"], row["title"], row["labels"], row["turn_open"]) == (
        copy,
        "A copy",
        ["x"],
        False,
    )


def test_waiting_command_is_notified_over_postgres(midturn: CommandLine, url: str) -> None:
    question = _asked(midturn, url)
    watching = midturn.start("resume", "--ready", "--watch", "--store", url)
    try:
        midturn.ok("answer", question, "y", "--store", url)
        assert watching.stdout
        assert watching.stdout.readline() == "Done.\n"
    finally:
        watching.terminate()
        watching.communicate(timeout=120)


def test_waiting_query_is_notified_over_postgres(midturn: CommandLine, url: str) -> None:
    midturn.asker()
    waiting = midturn.start(
        "query",
        "-m",
        midturn.script(calls("deploy", ask=asks())),
        "--defer",
        "--wait",
        "--store",
        url,
        "Ship it",
    )
    try:
        questions = until(lambda: midturn.ok("inbox", "--json", "--store", url).json, bool)
        midturn.ok("answer", questions[0]["id"], "y", "--store", url)
        assert waiting.communicate(timeout=120)[0] == "Done.\n"
    finally:
        waiting.kill()


def test_commands_for_file_stores_are_refused_over_postgres(midturn: CommandLine, url: str) -> None:
    _asked(midturn, url)
    for command in (("path",), ("edit",)):
        refused = midturn.run("conversation", *command, "--store", url)
        assert (refused.status, refused.stdout) == (1, "")
        assert "are in a database and have no files" in refused.stderr
    unknown = midturn.run("conversation", "show", "999", "--store", url)
    assert (unknown.status, unknown.stderr) == (
        1,
        (
            f"midturn: There is no conversation '999'. Run `midturn conversation ls --store '{url}'`"
            " to list conversations.\n"
        ),
    )
    foreign = midturn.run("inbox", "--store", "mysql://somewhere/x")
    assert foreign.status == 2
    assert foreign.stderr.startswith(
        "midturn: There is no store `mysql://…`. Available: `postgresql://…`, `postgres://…`."
        " To open a directory, pass its path"
    )


def test_conversations_move_from_a_database_to_files_and_back(
    midturn: CommandLine, url: str, other_url: str
) -> None:
    question = _asked(midturn, url)
    conversation = question.partition("-")[0]
    files = str(midturn.root.parent / "elsewhere")
    assert midturn.ok("answer", question, "y", "--resume", "--store", url).stdout.endswith(
        "Done.\n"
    )
    lines = _lines(url, conversation)

    out = midturn.ok("conversation", "import", url, "--store", files)
    assert out.stdout == f"{conversation}\n"
    assert _lines(files, conversation) == lines
    assert (
        "already exists."
        in midturn.ok("conversation", "import", url, "--id", conversation, "--store", files).stderr
    )
    assert "was open" not in out.stderr

    back = midturn.ok(
        "conversation",
        "import",
        str(FileStore(Path(files)).files.directories.path(conversation)),
        "--store",
        other_url,
    )
    assert back.stdout == f"{conversation}\n"
    assert _lines(other_url, conversation) == _lines(files, conversation)
    assert midturn.ok("store", "check", "--store", other_url).stdout == ""
    exported = midturn.ok(
        "conversation", "export", "--format", "jsonl", "--store", other_url
    ).stdout.encode()
    assert exported.splitlines() == _lines(files, conversation)
    (midturn.root / "one.jsonl").write_bytes(exported)
    again = midturn.ok("conversation", "import", "one.jsonl", "--store", other_url).stdout.strip()
    assert again != conversation
    assert _lines(other_url, again) == _lines(files, conversation)


def test_a_password_is_in_no_advice(tmp_path: Path) -> None:
    address = "postgresql://ada:secret@db/app?password=secret&midturn_schema=shop"
    assert (
        place_in(tmp_path, StoreAddress(address)).option
        == " --store 'postgresql://ada@db/app?password=&midturn_schema=shop'"
    )


def _newest(url: str) -> str:
    return open_store(url).ids_sync()[-1]


def _lines(address: str, conversation: str) -> list[bytes]:
    store = open_store(address)
    return store.run_sync("lines", store.port.lines(conversation))
