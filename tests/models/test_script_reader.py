from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from midturn.errors import ConfigError
from midturn.exchange import Usage
from midturn.models.script_reader import build_script, read_script

JSON_SCRIPT = """{"replies": [
   {"reasoning": "…", "text": "I will patch the plan.",
    "calls": [{"id": "call_1", "name": "fs_modify_file", "arguments": {"path": "plan.md"}}]},
   {"error": {"status": 529, "message": "overloaded", "retry_after": 0.05}},
   {"expect": "applied", "text": "Done.", "usage": {"input_tokens": 120, "output_tokens": 3}}],
 "inquiries": [
   {"tool": "fs_modify_file", "question": "apply_changes", "answers": [{"reason": "Looks right.", "answer": true}]},
   {"tool": "*", "question": "*", "answers": [{"error": {"status": 500, "message": "boom"}}]}]}"""

TOML_SCRIPT = """
[[replies]]
reasoning = "…"
text = "I will patch the plan."
calls = [{ id = "call_1", name = "fs_modify_file", arguments = { path = "plan.md" } }]

[[replies]]
error = { status = 529, message = "overloaded", retry_after = 0.05 }

[[replies]]
expect = "applied"
text = "Done."
usage = { input_tokens = 120, output_tokens = 3 }

[[inquiries]]
tool = "fs_modify_file"
question = "apply_changes"
answers = [{ reason = "Looks right.", answer = true }]

[[inquiries]]
answers = [{ error = { status = 500, message = "boom" } }]
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_and_json_give_the_same_script(tmp_path: Path) -> None:
    script = read_script(written(tmp_path, "s.json", JSON_SCRIPT))

    assert read_script(written(tmp_path, "s.toml", TOML_SCRIPT)) == script
    assert script.replies[0].calls[0].arguments == {"path": "plan.md"}
    assert script.replies[2].usage.counted() == Usage(input_tokens=120, output_tokens=3)
    assert script.inquiries[0].answers[0].answer is True


def test_every_problem_is_listed_with_its_location() -> None:
    document: dict[str, Any] = {
        "replies": [
            {"texte": "typo"},
            {"text": 3, "delay_ms": -1, "calls": [{"arguments": [1]}]},
            {"error": {"status": 99}, "usage": {"cost": 1}},
        ],
        "inquiries": [{"answers": []}, {"tool": "deploy"}],
        "replys": [],
    }

    with pytest.raises(ConfigError) as caught:
        build_script(document, origin="s.json")

    for place in (
        "/replies/0/texte: unknown key. Did you mean `text`?",
        "/replies/1/text: ",
        "/replies/1/delay_ms: ",
        "/replies/1/calls/0: `name` is missing.",
        "/replies/1/calls/0/arguments: ",
        "/replies/2/error/status: ",
        "/replies/2/usage/cost: unknown key. Known keys: ",
        "/inquiries/0/answers: ",
        "/inquiries/1: `answers` is missing.",
        "/replys: unknown key. Did you mean `replies`?",
    ):
        assert place in str(caught.value)


NONSENSE: list[tuple[Any, str]] = [
    ({"replies": [{"expect": "x"}]}, "/replies/0: the reply is empty."),
    (
        {"replies": [{"calls": [{"name": "t"}], "error": {}}]},
        "/replies/0: `calls` and `error` are both set.",
    ),
    (
        {"inquiries": [{"answers": [{"reason": "r"}]}]},
        "/inquiries/0/answers/0: set either `answer` or `error`.",
    ),
    (
        {"inquiries": [{"answers": [{"answer": 1, "error": {}}]}]},
        "/inquiries/0/answers/0: set either",
    ),
    ([], "is not a valid script"),
    ({"replies": {}}, "/replies: "),
    ({"replies": [{"text": object()}]}, "is not a valid script"),
]


@pytest.mark.parametrize(("document", "message"), NONSENSE)
def test_contradictory_scripts_are_refused(document: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=r"s\.json") as caught:
        build_script(document, origin="s.json")

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.json", '{"replies": [}', "line 1 column 14"),
        ("s.toml", "a = 1\nb = @\n", "line 2"),
        ("s.yaml", "replies: []", "a `.toml` or `.json` file"),
        ("s.json", "[" * 100_000, "s.json"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_named_with_the_location(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = written(tmp_path, name, text)

    with pytest.raises(ConfigError) as caught:
        read_script(path)

    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json: cannot read the script: No such file"):
        read_script(tmp_path / "nowhere.json")


def test_a_binary_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ConfigError, match=r"s\.json"):
        read_script(path)


def test_a_null_answer_is_accepted() -> None:
    script = build_script(
        {"inquiries": [{"answers": [{"reason": "skip", "answer": None}]}]}, origin="s"
    )

    assert script.inquiries[0].answers[0].answer is None


def test_a_fifo_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "play.toml")

    with pytest.raises(ConfigError, match="not a regular file"):
        read_script(tmp_path / "play.toml")
