"""Conversations of `jp` on the command line: import, show, continue, export."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine, asks

CONFIG: dict[str, Any] = {
    "inherit": False,
    "assistant": {"name": "Gardener", "model": {"id": {"provider": "x", "name": "y"}}},
}
THEIRS = Path(__file__).parents[3] / "shared" / "data" / "legacy"
KEPT = sorted(path for path in THEIRS.glob("*") if path.is_dir())


def _hidden(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _entries() -> list[dict[str, Any]]:
    at = "2026-05-04 10:00:0"
    arguments = {"bed": _hidden("roses"), "tool_answers": {"sure": _hidden("yes")}, "litres": 1.50}
    return [
        {"timestamp": f"{at}0.0", "type": "turn_start"},
        {"timestamp": f"{at}1.0", "type": "config_delta", "delta": CONFIG},
        {
            "timestamp": f"{at}2.0",
            "type": "chat_request",
            "content": "Water the roses.",
            "author": "Ann",
        },
        {
            "timestamp": f"{at}3.0",
            "type": "tool_call_request",
            "id": "c1",
            "name": "water",
            "arguments": arguments,
        },
        {
            "timestamp": f"{at}4.0",
            "type": "tool_call_response",
            "id": "c1",
            "content": _hidden("Watered."),
            "is_error": False,
        },
        {"timestamp": f"{at}5.0", "type": "chat_response", "message": "Done."},
        {"timestamp": f"{at}6.0", "type": "config_delta", "delta": {"imported": {"inherit": True}}},
        {
            "timestamp": f"{at}7.0",
            "type": "compaction",
            "from_turn": 0,
            "to_turn": 0,
            "reasoning": "strip",
        },
        {"timestamp": f"{at}8.0", "type": "newer_kind", "what": [1.0, "x"]},
    ]


METADATA = {
    "title": "Roses",
    "last_activated_at": "2026-05-04 10:00:08.0",
    "pinned_at": "2026-05-04 11:00:00.0",
    "labels": {"garden": "", "bed": "roses"},
}


def _recorded(directory: Path) -> Path:
    """Write a conversation in the current format of `jp`."""
    folder = directory / "17800000000-roses"
    folder.mkdir()
    files = {
        "events.json": _entries(),
        "metadata.json": METADATA,
        "base_config.json": {**CONFIG, "extends": ["config.d/**/*"]},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return folder


def _imported(midturn: CommandLine, folder: Path) -> str:
    return Path(midturn.ok("conversation", "import", str(folder)).stdout.strip()).name.split("-")[0]


def _exported(midturn: CommandLine, id: str) -> Path:
    midturn.ok("conversation", "export", id, "--format", "jp", "--to", "back")
    return midturn.root / "back"


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_imported_conversation_is_exported_to_the_byte(
    midturn: CommandLine, tmp_path: Path
) -> None:
    folder = _recorded(tmp_path)
    assert _files(_exported(midturn, _imported(midturn, folder))) == _files(folder)


@pytest.mark.parametrize("folder", KEPT, ids=lambda path: path.name)
def test_a_conversation_that_jp_recorded_is_exported_to_the_byte(
    midturn: CommandLine, folder: Path
) -> None:
    assert _files(_exported(midturn, _imported(midturn, folder))) == _files(folder)


def test_an_export_can_be_imported_and_exported_again(midturn: CommandLine, tmp_path: Path) -> None:
    folder = _recorded(tmp_path)
    first = _files(_exported(midturn, _imported(midturn, folder)))
    again = _imported(midturn, midturn.root / "back")
    assert _files(_exported(midturn, again)) == first


def test_imported_conversation_survives_json_lines(midturn: CommandLine, tmp_path: Path) -> None:
    folder = _recorded(tmp_path)
    midturn.ok(
        "conversation",
        "export",
        _imported(midturn, folder),
        "--format",
        "jsonl",
        "--to",
        "lines.jsonl",
    )
    moved = _exported(midturn, _imported(midturn, midturn.root / "lines.jsonl"))
    assert (moved / "events.json").read_bytes() == (folder / "events.json").read_bytes()
    assert (moved / "base_config.json").read_bytes() == (folder / "base_config.json").read_bytes()


def test_new_events_follow_the_imported_entries(midturn: CommandLine, tmp_path: Path) -> None:
    folder = _recorded(tmp_path)
    id = _imported(midturn, folder)
    midturn.ok(
        "query",
        "--id",
        id,
        "-m",
        midturn.script({"text": "They are wet."}),
        "How are they?",
        MIDTURN_USER_NAME="bo",
    )
    back = _exported(midturn, id)
    entries = json.loads((back / "events.json").read_text())
    assert entries[: len(_entries())] == _entries()
    added = [entry["type"] for entry in entries[len(_entries()) :]]
    assert added == ["turn_start", "chat_request", "chat_response"]
    assert (back / "base_config.json").read_bytes() == (folder / "base_config.json").read_bytes()
    changed = json.loads((back / "metadata.json").read_text())
    assert {**changed, "last_activated_at": ""} == {**METADATA, "last_activated_at": ""}


def test_no_setting_of_an_imported_conversation_applies(
    midturn: CommandLine, tmp_path: Path
) -> None:
    folder = _recorded(tmp_path)
    entries = json.loads((folder / "events.json").read_text())
    entries[1]["delta"] = {"flags": [{"key": "conversation.tools.*.run", "value": "unattended"}]}
    (folder / "events.json").write_text(json.dumps(entries))
    midturn.asker(run="ask", detached={"run": "defer"})
    id = _imported(midturn, folder)
    script = midturn.script(
        {"calls": [{"name": "deploy", "arguments": {"say": "ran"}}]}, {"text": "Done."}
    )
    midturn.run("query", "--id", id, "-m", script, "--non-interactive", "Deploy.")
    assert [question["kind"] for question in midturn.ok("inbox", "--json").json] == ["run"]


def test_answers_inside_imported_arguments_are_not_sent_to_the_model(
    midturn: CommandLine, tmp_path: Path
) -> None:
    id = _imported(midturn, _recorded(tmp_path))
    lines = [
        json.loads(line)
        for line in midturn.ok(
            "conversation", "export", id, "--format", "jsonl"
        ).stdout.splitlines()
    ]
    (call,) = [line for line in lines if line["type"] == "tool_call_request"]
    assert call["arguments"] == {"bed": "roses", "litres": 1.5}


def test_an_import_says_what_has_no_effect(midturn: CommandLine, tmp_path: Path) -> None:
    told = midturn.ok("conversation", "import", str(_recorded(tmp_path))).stderr
    assert (
        "1 compaction entry is kept and not applied: the model reads the whole conversation."
        in told
    )


def test_labels_and_author_are_imported_and_exported(midturn: CommandLine, tmp_path: Path) -> None:
    id = _imported(midturn, _recorded(tmp_path))
    assert next(one for one in midturn.ok("conversation", "ls", "--json").json if one["id"] == id)[
        "labels"
    ] == ["garden", "bed=roses"]
    assert "Ann" in midturn.ok("conversation", "show", id).stdout
    midturn.ok("conversation", "edit", id, "--label", "bed=tulips", "--label", "no key!")
    finished = midturn.run("conversation", "export", id, "--format", "jp", "--to", "back")
    assert "omitted the label 'no key!'" in finished.stderr
    assert json.loads((midturn.root / "back" / "metadata.json").read_text())["labels"] == {
        "bed": "tulips"
    }


def test_native_conversation_is_exported_with_the_fields_jp_needs(midturn: CommandLine) -> None:
    midturn.ok("query", "-m", midturn.script(), "Hello")
    finished = midturn.ok("conversation", "export", "--format", "jp", "--to", "back")
    assert json.loads((midturn.root / "back" / "base_config.json").read_text())["assistant"][
        "model"
    ]["id"]
    assert "will refuse" not in finished.stderr


def test_an_export_names_what_jp_cannot_load_before_it_is_written(midturn: CommandLine) -> None:
    midturn.asker(detached={"tool": "defer"})
    asked = [
        {
            "id": "when",
            "text": "When?",
            "answer_type": {"type": "multi_select", "options": ["am", "pm"]},
        },
        asks(),
    ]
    script = midturn.script(
        {"calls": [{"name": "deploy", "arguments": {"ask": asked}}]}, {"text": "Done."}
    )
    midturn.run("query", "-m", script, "--non-interactive", "Deploy.")
    (question, *_) = midturn.ok("inbox", "--json").json
    midturn.ok("answer", question["id"], "--cancel")
    (midturn.root / "file").write_text("in the way")
    finished = midturn.run("conversation", "export", "--format", "jp", "--to", "file")
    assert finished.status == 1
    assert (
        "midturn: `--to file` is not a directory. `--format jp` writes several files and requires a"
        " directory." in finished.stderr
    )
    assert "`jp` will reject this conversation. events.json[" in finished.stderr
    assert "has the answer type 'multi_select', which `jp` does not support" in finished.stderr
    assert "is `cancelled`, and `jp` requires an answer" in finished.stderr
    assert finished.stderr.index("will reject") < finished.stderr.index("file")


@pytest.mark.parametrize("to", ["file/back", "/proc/back"])
def test_a_directory_that_cannot_be_made_is_named(
    midturn: CommandLine, tmp_path: Path, to: str
) -> None:
    id = _imported(midturn, _recorded(tmp_path))
    (midturn.root / "file").write_text("in the way")

    finished = midturn.run("conversation", "export", id, "--format", "jp", "--to", to)

    assert finished.status == 1
    assert f"midturn: `--to {to}`: cannot create the directory: " in finished.stderr


@pytest.mark.parametrize("added", [b"7", b"null", b'"text"', b"[1]", b"{}"])
def test_invalid_entry_is_exported_unchanged(
    midturn: CommandLine, tmp_path: Path, added: bytes
) -> None:
    folder = tmp_path / "17463589012-odd"
    folder.mkdir()
    (folder / "events.json").write_bytes(
        b'[{"type": "turn_start", "timestamp": "2026-05-04T10:00:00.0"}, ' + added + b"]"
    )

    back = _exported(midturn, _imported(midturn, folder))

    assert json.loads((back / "events.json").read_text()) == json.loads(
        (folder / "events.json").read_text()
    )


def test_a_file_that_is_not_utf8_is_refused_before_anything_is_written(
    midturn: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "17463589012-odd"
    folder.mkdir()
    (folder / "events.json").write_bytes(b'[{"type": "other", "a": "\xe9"}]')

    refused = midturn.run("conversation", "import", str(folder))

    assert refused.status == 1
    assert (
        "events.json is not the JSON array that `jp` writes: 'utf-8' codec can't decode byte 0xe9"
        in refused.stderr
    )
    assert midturn.ok("conversation", "ls", "--json").json == []


def test_a_base_config_of_another_conversation_in_the_same_directory_is_named(
    midturn: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "17463589012-bare"
    folder.mkdir()
    (folder / "events.json").write_bytes(
        b'[{"type": "turn_start", "timestamp": "2026-05-04T10:00:00.0"}]'
    )
    _exported(midturn, _imported(midturn, _recorded(tmp_path)))

    again = midturn.run(
        "conversation", "export", _imported(midturn, folder), "--format", "jp", "--to", "back"
    )

    assert (
        "midturn: back/base_config.json is not from this conversation. Delete it, or export to"
        " another directory." in again.stderr
    )
