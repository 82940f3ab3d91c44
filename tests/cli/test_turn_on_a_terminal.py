"""What the terminal shows during a turn, and the program that is notified of a question."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.cli import CommandLine, asks, calls

KEEP = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def test_turn_is_drawn_and_the_question_is_passed_to_a_program(
    midturn: CommandLine, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    midturn.configure(f"notify.command = {json.dumps([sys.executable, '-c', KEEP, str(heard)])}\n")
    midturn.accept_keys_at_once()
    midturn.asker()
    model = midturn.script(
        {
            "text": "# Plan\n\nI will **deploy**.",
            **calls("deploy", ask=[asks(), asks("announce", "Announce it?")]),
        }
    )

    with midturn.on_a_terminal("query", "-m", model, "Ship it", plain=False) as session:
        session.wait_for("all keys")
        assert session.rows[:4] == ["Plan", "", "I will deploy.", ""]
        assert b"\x1b[1mdeploy\x1b[0m" in session.raw
        session.send("y")
        session.wait_for("[2/2]")
        session.send("n")
        assert session.wait_for_end() == 0
        assert session.rows[-1] == "Done."
        assert b"\x1b[23;2t" in session.raw

    first, second = (json.loads(line) for line in heard.read_text().splitlines())
    request = next(event for event in midturn.events() if event["type"] == "inquiry_request")
    assert first["id"] == f"{first['conversation']}-{request['event_id']}"
    assert first["asked_at"].startswith(request["timestamp"][:10])
    assert first["form"]["total"] == 2
    assert (first["kind"], first["tool"], first["source"]) == (
        "tool",
        "deploy",
        {"source": "tool", "name": "deploy"},
    )
    assert second["question"]["text"] == "Announce it?"


def test_ctrl_c_leaves_a_clean_line(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script({"text": "Words without end", **calls("deploy", sleep=30)})

    with midturn.on_a_terminal("query", "-m", model, "Ship it", plain=False) as session:
        session.wait_for("deploy 1 s")
        session.send("\x03")
        assert session.wait_for_end() == 130

        assert not any(
            " s" in row and "deploy" in row for row in session.rows if not row.startswith("·")
        )
        assert session.rows[0] == "Words without end"
        assert session.screen.cursor.x == 0


BROKEN = {
    "text": "Half of it",
    "error": {"status": 529, "message": "overloaded", "retry_after": 0.01},
}


@pytest.mark.parametrize("plain", [True, False])
def test_interrupted_model_answer_is_requested_again_and_marked(
    midturn: CommandLine, *, plain: bool
) -> None:
    model = midturn.script(BROKEN, {"text": "All of it."})

    with midturn.on_a_terminal("query", "-m", model, "Speak", plain=plain) as session:
        assert session.wait_for_end() == 0
        assert session.rows[0] == "Half of it"
        assert "The response broke off and starts again." in " ".join(session.text.split())
        assert session.rows[-1] == "All of it."

    assert [event["message"] for event in midturn.events() if event["type"] == "chat_response"] == [
        "All of it."
    ]


def test_interrupted_answer_in_a_pipe_is_not_retried(midturn: CommandLine) -> None:
    finished = midturn.run("query", "-m", midturn.script(BROKEN, {"text": "All of it."}), "Speak")

    assert finished.status == 1
    assert finished.stdout == "Half of it\n"
    assert "The response broke off after" in finished.stderr


@pytest.mark.parametrize("flags", [("--output", "json"), ("--output", "jsonl")])
def test_interrupted_answer_is_retried_before_output(
    midturn: CommandLine, flags: tuple[str, ...]
) -> None:
    finished = midturn.ok(
        "query", *flags, "-m", midturn.script(BROKEN, {"text": "All of it."}), "Speak"
    )

    assert "All of it." in finished.stdout
    assert "Half" not in finished.stdout


def test_ctrl_c_before_a_retry_keeps_the_shown_text(midturn: CommandLine) -> None:
    broken = {
        "text": "Half of it",
        "error": {"status": 529, "message": "overloaded", "retry_after": 60},
    }

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(broken), "Speak", plain=False
    ) as session:
        session.wait_for("trying again in")
        session.send("\x03")
        assert session.wait_for_end() == 130

    assert [event["message"] for event in midturn.events() if event["type"] == "chat_response"] == [
        "Half of it"
    ]
