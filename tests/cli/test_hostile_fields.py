"""A conversation whose every field has escape sequences and bidirectional or invisible
characters. Each command shows them escaped.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\u202eevil\u202c\u200b\u2066\U000e0041\ufeff\u2028\x7f"
"""Sets the title, clears the screen, colours, overwrites, reverses the direction, hides."""

NUMBER = "17952686272"
_OURS = re.compile(rb"\r\n|\n")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_HIDDEN = re.compile(
    "[\u0080-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def unsafe(word: str) -> str:
    """Return a word surrounded by hostile characters."""
    return f"{EVIL}{word}{EVIL}"


def toml(word: str) -> str:
    """Return a hostile word as a TOML string."""
    return '"' + "".join(f"\\U{ord(character):08X}" for character in unsafe(word)) + '"'


def events() -> list[dict[str, Any]]:
    """Return a finished and an open turn in which every text is hostile."""
    question = {
        "text": unsafe("question"),
        "context": f"```diff\n{unsafe('context')}\n```",
        "answer_type": {
            "type": "select",
            "options": [
                {"value": unsafe("one"), "description": unsafe("first")},
                {"value": unsafe("two"), "description": unsafe("second")},
            ],
        },
        "default": unsafe("one"),
    }
    source = {"source": "other", "name": unsafe("asker")}
    finished: list[dict[str, Any]] = [
        {"type": "turn_start"},
        {"type": "chat_request", "content": unsafe("request"), "author": unsafe("author")},
        {"type": "chat_response", "reasoning": unsafe("reasoning")},
        {"type": "chat_response", "message": unsafe("message")},
        {
            "type": "tool_call_request",
            "id": unsafe("call_1"),
            "name": unsafe("tool"),
            "arguments": {unsafe("key"): unsafe("value")},
        },
        {
            "type": "inquiry_request",
            "id": unsafe("i1"),
            "source": source,
            "question": question,
            "call": "e4",
            "question_id": unsafe("id"),
        },
        {
            "type": "inquiry_response",
            "outcome": "answered",
            "id": unsafe("i1"),
            "answer": unsafe("one"),
            "reason": unsafe("reason"),
            "answered_by": {"by": unsafe("by"), "model": unsafe("model"), "via": unsafe("via")},
        },
        {
            "type": "inquiry_request",
            "id": "i2",
            "source": source,
            "question": question,
            "call": "e4",
            "question_id": "other",
        },
        {"type": "inquiry_response", "outcome": "cancelled", "id": "i2", "reason": unsafe("tag")},
        {
            "type": "approval",
            "id": "a1",
            "call": "e4",
            "kind": unsafe("kind"),
            "state": unsafe("state"),
            "reason": unsafe("why"),
        },
        {
            "type": "tool_call_response",
            "id": unsafe("call_1"),
            "call": "e4",
            "content": unsafe("output"),
            "is_error": True,
        },
        {"type": unsafe("unknown"), "something": unsafe("else")},
        {"type": "turn_end", "status": "failed", "error": unsafe("error")},
    ]
    waiting: list[dict[str, Any]] = [
        {"type": "turn_start"},
        {"type": "chat_request", "content": unsafe("second")},
        {
            "type": "tool_call_request",
            "id": "call_2",
            "name": "deploy",
            "arguments": {"say": unsafe("argument")},
        },
        {
            "type": "inquiry_request",
            "id": "i3",
            "source": source,
            "question": question,
            "call": "e15",
            "question_id": "where",
        },
        {"type": "tool_call_request", "id": "call_3", "name": unsafe("tool"), "arguments": {}},
    ]
    return [
        {
            "timestamp": unsafe("time") if place == 1 else "2026-11-21T12:00:00Z",
            "event_id": f"e{place}",
            **event,
        }
        for place, event in enumerate([*finished, *waiting])
    ]


@pytest.fixture
def hostile(midturn: CommandLine) -> CommandLine:
    """A user with such a conversation, and with hostile texts in the configuration and in file
    names.
    """
    directory = midturn.store / f"{NUMBER}-evil"
    directory.mkdir(parents=True)
    lines = [json.dumps(event, ensure_ascii=False) for event in events()]
    (directory / "events.jsonl").write_text(
        "\n".join([*lines, f'{{"broken": "{EVIL}', json.dumps({"type": unsafe("x")}), ""])
    )
    metadata = {
        "title": unsafe("title"),
        "labels": [unsafe("label")],
        "created_at": unsafe("created"),
        unsafe("key"): unsafe("value"),
    }
    (directory / "metadata.json").write_text(json.dumps(metadata))
    midturn.configure(f"[assistant]\nname = {toml('name')}\nsystem_prompt = {toml('prompt')}\n")
    with midturn.config.open("a") as file:
        file.write(
            f"[conversation.tools.deploy]\ncommand = ['x', {toml('argument')}]\nsummary ="
            f" {toml('summary')}\n"
        )
    return midturn


def assert_harmless(raw: bytes, *, shows: str = "") -> None:
    """Check that there are no control bytes except our line ends and no invisible characters, and
    that the text is shown.
    """
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
def test_hostile_fields_cannot_control_the_terminal(
    hostile: CommandLine, arguments: tuple[str, ...], size: tuple[int, int]
) -> None:
    with hostile.on_a_terminal(*arguments, size=size) as terminal:
        assert terminal.wait_for_end() == (1 if arguments == ("doctor",) else 0), terminal.text

    assert_harmless(terminal.raw)
    assert terminal.raw.strip()


def test_hostile_fields_are_shown_escaped(hostile: CommandLine) -> None:
    with hostile.on_a_terminal("conversation", "show", "--inquiries", size=(300, 60)) as terminal:
        terminal.wait_for_end()

    assert "⟨U+001B⟩]0;owned⟨U+0007⟩" in terminal.raw.decode()
    assert "⟨U+202E⟩evil" in terminal.raw.decode()
    assert "⟨U+27E8⟩" not in terminal.raw.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "-m", unsafe("model").replace("\0", ""), "hi"),
        ("query", "-m", f"scripted:{unsafe('file')}", "hi"),
        ("query", "--cfg", unsafe("file"), "hi"),
        ("query", "--cfg", f"{unsafe('key')}=1", "hi"),
        ("query", "--answer", f"{unsafe('tool')}=1", "hi"),
        ("query", "--id", unsafe("id"), "hi"),
        ("query", "-t", unsafe("tool"), "--", "hi"),
        ("query", "--schema", unsafe("{file"), "hi"),
        (
            "query",
            f"--{unsafe('option')}",
        ),
        ("answer", unsafe("id"), "yes"),
        ("answer", "e16", unsafe("value")),
        ("answer", "e16", '{"edit": "' + EVIL),
        ("resume", unsafe("id")),
        ("conversation", "show", unsafe("id")),
        ("conversation", "grep", "(" + EVIL),
        ("conversation", "import", unsafe("folder")),
        ("config", "get", unsafe("key")),
        ("config", "set", "limits.cycles", unsafe("value")),
        ("tools", "show", unsafe("tool")),
        ("tools", "run", "deploy", unsafe("argument")),
        (unsafe("command").replace(" ", ""),),
    ],
    ids=lambda arguments: " ".join(word for word in arguments if word.isprintable()),
)
def test_error_escapes_hostile_arguments(hostile: CommandLine, arguments: tuple[str, ...]) -> None:
    with hostile.on_a_terminal(*arguments) as terminal:
        assert terminal.wait_for_end() in (1, 2), terminal.text

    assert_harmless(terminal.raw)
    assert "midturn: unexpected error (" not in terminal.text


def test_configuration_error_in_a_file_with_a_hostile_name(hostile: CommandLine) -> None:
    extra = hostile.root / ".midturn" / "config.d"
    extra.mkdir()
    (extra / f"{EVIL}.toml").write_text(f"[{toml('table')}]\nx = {toml('value')}\n")

    with hostile.on_a_terminal("query", "hi") as terminal:
        assert terminal.wait_for_end() == 2

    assert_harmless(terminal.raw)


def test_untrusted_file_with_hostile_content(hostile: CommandLine) -> None:
    name = toml("argument")
    hostile.workspace_file(
        f"[conversation.tools.x]\ncommand = ['sh', {name}]\nenvironment = {{ A = {name} }}\n"
    )

    with hostile.on_a_terminal("trust", "--yes") as terminal:
        assert terminal.wait_for_end() == 0

    assert_harmless(terminal.raw)
    assert "runs a program" in terminal.text


def hostile_turn(midturn: CommandLine) -> str:
    """Return a model whose text, calls and questions are hostile, with tools that return hostile
    results.
    """
    midturn.asker()
    midturn.asker("broken")
    midturn.accept_keys_at_once()
    file = unsafe("file").replace("/", "")
    (midturn.root / file).write_text("x")
    asked = {
        "id": "where",
        "text": re.sub("[\r\u2028\x1b\x9b]", "", unsafe("question")),
        "context": unsafe("context"),
        "answer_type": {
            "type": "select",
            "options": [{"value": unsafe("one"), "description": unsafe("first")}, "two"],
        },
    }
    return midturn.script(
        {
            "text": unsafe("I will deploy."),
            "calls": [
                {
                    "name": "deploy",
                    "arguments": {"json": json.dumps({"ask": asked, "say": unsafe("result")})},
                }
            ],
        },
        {
            "text": (
                f"# {unsafe('title')}\n\n-"
                f" {unsafe('item')}\n\n```\n{unsafe('code')}\n```\n[{unsafe('link')}](http://x/{unsafe('y')})"
            ),
            "calls": [
                {"name": "broken", "arguments": {"json": json.dumps({"fail": unsafe("failure")})}},
                {"name": "broken", "arguments": {"say": unsafe("nothing")}},
            ],
        },
        {"calls": [{"name": unsafe("nobody"), "arguments": {}}]},
        {
            "calls": [
                {
                    "name": "fs_modify_file",
                    "arguments": {"path": file, "edits": [{"old": "x", "new": unsafe("y")}]},
                }
            ]
        },
        {"text": unsafe("Done.")},
    )


def test_turn_with_a_hostile_model_and_hostile_tools(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "query", "-m", hostile_turn(midturn), "hi", size=(100, 200)
    ) as terminal:
        terminal.wait_for("deploy asks")
        terminal.wait_at(": ")
        terminal.send("2\r")
        terminal.wait_for("fs_modify_file asks")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert_harmless(terminal.raw)


def test_drawn_hostile_turn_has_only_our_sequences(midturn: CommandLine) -> None:
    with midturn.on_a_terminal(
        "query", "-m", hostile_turn(midturn), "hi", size=(100, 200), plain=False
    ) as terminal:
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


def test_piped_output_keeps_the_original_characters(hostile: CommandLine) -> None:
    """Programs that read JSON or an export get the original characters."""
    assert hostile.ok("inbox", "--json").json[0]["question"]["text"] == unsafe("question")
    recorded = (hostile.store / f"{NUMBER}-evil" / "events.jsonl").read_bytes()
    assert hostile.ok("conversation", "export", "--format", "jsonl").stdout.encode() == recorded


def test_directory_with_a_hostile_name(tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path / re.sub("[\x9b]", "", EVIL).replace("/", ""))

    with midturn.on_a_terminal("doctor") as terminal:
        terminal.wait_for_end()
    assert_harmless(terminal.raw)
    assert os.fsencode(midturn.root)
