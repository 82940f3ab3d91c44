"""A conversation whose every field holds escape sequences, bidi and invisible characters: each command shows what they are."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\u202eevil\u202c\u200b\u2066\U000e0041\ufeff\u2028\x7f"
"""Sets a title, clears the screen, colours, overwrites, turns around, hides."""

NUMBER = "17952686272"
_OURS = re.compile(rb"\r\n|\n")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_HIDDEN = re.compile("[\u0080-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


def evil(word: str) -> str:
    """Return a word with everything evil around it."""
    return f"{EVIL}{word}{EVIL}"


def toml(word: str) -> str:
    """Write an evil word as a TOML string."""
    return '"' + "".join(f"\\U{ord(character):08X}" for character in evil(word)) + '"'


def events() -> list[dict[str, Any]]:
    """Return an open turn in which every text is evil, and a finished one before it."""
    question = {
        "text": evil("question"),
        "context": f"```diff\n{evil('context')}\n```",
        "answer_type": {
            "type": "select",
            "options": [{"value": evil("one"), "description": evil("first")}, {"value": evil("two"), "description": evil("second")}],
        },
        "default": evil("one"),
    }
    source = {"source": "other", "name": evil("asker")}
    finished: list[dict[str, Any]] = [
        {"type": "turn_start"},
        {"type": "chat_request", "content": evil("request"), "author": evil("author")},
        {"type": "chat_response", "reasoning": evil("reasoning")},
        {"type": "chat_response", "message": evil("message")},
        {"type": "tool_call_request", "id": evil("call_1"), "name": evil("tool"), "arguments": {evil("key"): evil("value")}},
        {"type": "inquiry_request", "id": evil("i1"), "source": source, "question": question, "call": "e4", "question_id": evil("id")},
        {
            "type": "inquiry_response",
            "outcome": "answered",
            "id": evil("i1"),
            "answer": evil("one"),
            "reason": evil("reason"),
            "answered_by": {"by": evil("by"), "model": evil("model"), "via": evil("via")},
        },
        {"type": "inquiry_request", "id": "i2", "source": source, "question": question, "call": "e4", "question_id": "other"},
        {"type": "inquiry_response", "outcome": "cancelled", "id": "i2", "reason": evil("tag")},
        {"type": "approval", "id": "a1", "call": "e4", "kind": evil("kind"), "state": evil("state"), "reason": evil("why")},
        {"type": "tool_call_response", "id": evil("call_1"), "call": "e4", "content": evil("output"), "is_error": True},
        {"type": evil("unknown"), "something": evil("else")},
        {"type": "turn_end", "status": "failed", "error": evil("error")},
    ]
    waiting: list[dict[str, Any]] = [
        {"type": "turn_start"},
        {"type": "chat_request", "content": evil("second")},
        {"type": "tool_call_request", "id": "call_2", "name": "deploy", "arguments": {"say": evil("argument")}},
        {"type": "inquiry_request", "id": "i3", "source": source, "question": question, "call": "e15", "question_id": "where"},
        {"type": "tool_call_request", "id": "call_3", "name": evil("tool"), "arguments": {}},
    ]
    return [
        {"timestamp": evil("time") if place == 1 else "2026-11-21T12:00:00Z", "event_id": f"e{place}", **event}
        for place, event in enumerate([*finished, *waiting])
    ]


@pytest.fixture
def hostile(midturn: CommandLine) -> CommandLine:
    """A user with such a conversation, and with evil in the configuration and in the names of files."""
    directory = midturn.store / f"{NUMBER}-evil"
    directory.mkdir(parents=True)
    lines = [json.dumps(event, ensure_ascii=False) for event in events()]
    (directory / "events.jsonl").write_text("\n".join([*lines, f'{{"broken": "{EVIL}', json.dumps({"type": evil("x")}), ""]))
    metadata = {"title": evil("title"), "labels": [evil("label")], "created_at": evil("created"), evil("key"): evil("value")}
    (directory / "metadata.json").write_text(json.dumps(metadata))
    midturn.configure(f"[assistant]\nname = {toml('name')}\nsystem_prompt = {toml('prompt')}\n")
    with midturn.config.open("a") as file:
        file.write(f"[conversation.tools.deploy]\ncommand = ['x', {toml('argument')}]\nsummary = {toml('summary')}\n")
    return midturn


def assert_harmless(raw: bytes, *, shows: str = "") -> None:
    """No control byte but the ends of our rows, nothing that is not seen; and what there was is shown."""
    text = raw.decode("utf-8")
    rest = _OURS.sub(b"", raw)
    assert not _CONTROL.search(rest), _CONTROL.findall(rest)
    assert not _HIDDEN.search(text), _HIDDEN.findall(text)
    assert shows in text.replace("\r\n", "")


LOOKS = [
    ("inbox",),
    ("inbox", "--json"),
    ("conversation", "ls"),
    ("conversation", "ls", "--json"),
    ("conversation", "show"),
    ("conversation", "show", "--json"),
    ("conversation", "show", "--inquiries"),
    ("conversation", "show", "--inquiries", "--json"),
    ("conversation", "show", "--usage"),
    ("conversation", "grep", "evil"),
    ("conversation", "grep", "--json", "evil"),
    ("conversation", "export"),
    ("conversation", "export", "--format", "jsonl"),
    ("conversation", "path"),
    ("conversation", "fork"),
    ("config", "show"),
    ("config", "show", "--json"),
    ("config", "get", "assistant.name"),
    ("config", "explain", "assistant.name"),
    ("tools", "ls"),
    ("tools", "show", "deploy"),
    ("query", "--dry-run", "hi"),
    ("doctor",),
]


@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
@pytest.mark.parametrize("size", [(100, 60), (40, 60)], ids=["wide", "narrow"])
def test_nothing_acts_on_the_terminal(hostile: CommandLine, arguments: tuple[str, ...], size: tuple[int, int]) -> None:
    with hostile.on_a_terminal(*arguments, size=size) as terminal:
        assert terminal.wait_for_end() == (1 if arguments == ("doctor",) else 0), terminal.text

    assert_harmless(terminal.raw)
    assert terminal.raw.strip()


def test_what_there_was_is_shown(hostile: CommandLine) -> None:
    with hostile.on_a_terminal("conversation", "show", "--inquiries", size=(300, 60)) as terminal:
        terminal.wait_for_end()

    assert "⟨U+001B⟩]0;owned⟨U+0007⟩" in terminal.raw.decode()
    assert "⟨U+202E⟩evil" in terminal.raw.decode()
    assert "⟨U+27E8⟩" not in terminal.raw.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "-m", evil("model").replace("\0", ""), "hi"),
        ("query", "-m", f"scripted:{evil('file')}", "hi"),
        ("query", "--cfg", evil("file"), "hi"),
        ("query", "--cfg", f"{evil('key')}=1", "hi"),
        ("query", "--answer", f"{evil('tool')}=1", "hi"),
        ("query", "--id", evil("id"), "hi"),
        ("query", "-t", evil("tool"), "--", "hi"),
        ("query", "--schema", evil("{file"), "hi"),
        (
            "query",
            f"--{evil('option')}",
        ),
        ("answer", evil("id"), "yes"),
        ("answer", "e16", evil("value")),
        ("answer", "e16", '{"edit": "' + EVIL),
        ("resume", evil("id")),
        ("conversation", "show", evil("id")),
        ("conversation", "grep", "(" + EVIL),
        ("conversation", "import", evil("folder")),
        ("config", "get", evil("key")),
        ("config", "set", "limits.cycles", evil("value")),
        ("tools", "show", evil("tool")),
        ("tools", "run", "deploy", evil("argument")),
        (evil("command").replace(" ", ""),),
    ],
    ids=lambda arguments: " ".join(word for word in arguments if word.isprintable()),
)
def test_an_error_shows_what_was_typed_as_what_it_is(hostile: CommandLine, arguments: tuple[str, ...]) -> None:
    with hostile.on_a_terminal(*arguments) as terminal:
        assert terminal.wait_for_end() in (1, 2), terminal.text

    assert_harmless(terminal.raw)
    assert "should not have" not in terminal.text


def test_a_configuration_error_in_a_file_with_an_evil_name(hostile: CommandLine) -> None:
    extra = hostile.root / ".midturn" / "config.d"
    extra.mkdir()
    (extra / f"{EVIL}.toml").write_text(f"[{toml('table')}]\nx = {toml('value')}\n")

    with hostile.on_a_terminal("query", "hi") as terminal:
        assert terminal.wait_for_end() == 2

    assert_harmless(terminal.raw)


def test_a_file_that_waits_for_approval(hostile: CommandLine) -> None:
    name = toml("argument")
    hostile.workspace_file(f"[conversation.tools.x]\ncommand = ['sh', {name}]\nenvironment = {{ A = {name} }}\n")

    with hostile.on_a_terminal("trust", "--yes") as terminal:
        assert terminal.wait_for_end() == 0

    assert_harmless(terminal.raw)
    assert "runs a program" in terminal.text


def evil_turn(midturn: CommandLine) -> str:
    """Return a model that says, calls and asks evil things, with tools that answer in kind."""
    midturn.asker()
    midturn.asker("broken")
    midturn.hasty()
    file = evil("file").replace("/", "")
    (midturn.root / file).write_text("x")
    asked = {
        "id": "where",
        "text": re.sub("[\r\u2028\x1b\x9b]", "", evil("question")),
        "context": evil("context"),
        "answer_type": {"type": "select", "options": [{"value": evil("one"), "description": evil("first")}, "two"]},
    }
    return midturn.script(
        {
            "text": evil("I will deploy."),
            "calls": [{"name": "deploy", "arguments": {"json": json.dumps({"ask": asked, "say": evil("result")})}}],
        },
        {
            "text": f"# {evil('title')}\n\n- {evil('item')}\n\n```\n{evil('code')}\n```\n[{evil('link')}](http://x/{evil('y')})",
            "calls": [
                {"name": "broken", "arguments": {"json": json.dumps({"fail": evil("failure")})}},
                {"name": "broken", "arguments": {"say": evil("nothing")}},
            ],
        },
        {"calls": [{"name": evil("nobody"), "arguments": {}}]},
        {"calls": [{"name": "fs_modify_file", "arguments": {"path": file, "edits": [{"old": "x", "new": evil("y")}]}}]},
        {"text": evil("Done.")},
    )


def test_a_turn_with_an_evil_model_and_evil_tools(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("query", "-m", evil_turn(midturn), "hi", size=(100, 200)) as terminal:
        terminal.wait_for("deploy asks")
        terminal.wait_at(": ")
        terminal.send("2\r")
        terminal.wait_for("fs_modify_file asks")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert_harmless(terminal.raw)


def test_the_same_turn_where_everything_is_drawn_has_no_sequence_but_ours(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("query", "-m", evil_turn(midturn), "hi", size=(100, 200), plain=False) as terminal:
        terminal.wait_for("Enter picks")
        terminal.send("2")
        terminal.wait_for("y yes")
        terminal.send("y")
        assert terminal.wait_for_end() == 0

    text = terminal.raw.decode()
    assert "\x1b]0;owned" not in text
    assert not _HIDDEN.search(text), _HIDDEN.findall(text)
    assert set(_CONTROL.findall(terminal.raw)) <= {b"\x1b", b"\r", b"\n", b"\x07", b"\x08"}
    assert "⟨U+001B⟩" in text


def test_what_is_piped_on_is_as_it_was(hostile: CommandLine) -> None:
    """A program that reads JSON or an export gets the characters themselves."""
    assert hostile.ok("inbox", "--json").json[0]["question"]["text"] == evil("question")
    recorded = (hostile.store / f"{NUMBER}-evil" / "events.jsonl").read_bytes()
    assert hostile.ok("conversation", "export", "--format", "jsonl").stdout.encode() == recorded


def test_a_directory_with_an_evil_name(tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path / re.sub("[\x9b]", "", EVIL).replace("/", ""))

    with midturn.on_a_terminal("doctor") as terminal:
        terminal.wait_for_end()
    assert_harmless(terminal.raw)
    assert os.fsencode(midturn.root)
