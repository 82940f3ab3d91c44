"""What a person sees of a turn, and who is called when somebody has to answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.cli import CommandLine, asks, calls

KEEP = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def test_a_turn_is_drawn_and_the_question_is_handed_to_a_program(midturn: CommandLine, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    midturn.configure(f"notify.command = {json.dumps([sys.executable, '-c', KEEP, str(heard)])}\n")
    midturn.hasty()
    midturn.asker()
    model = midturn.script({"text": "# Plan\n\nI will **deploy**.", **calls("deploy", ask=[asks(), asks("announce", "Announce it?")])})

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
    assert (first["kind"], first["tool"], first["source"]) == ("tool", "deploy", {"source": "tool", "name": "deploy"})
    assert second["question"]["text"] == "Announce it?"


def test_ctrl_c_leaves_a_clean_line(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script({"text": "Words without end", **calls("deploy", sleep=30)})

    with midturn.on_a_terminal("query", "-m", model, "Ship it", plain=False) as session:
        session.wait_for("deploy 1 s")
        session.send("\x03")
        assert session.wait_for_end() == 130

        assert not any(" s" in row and "deploy" in row for row in session.rows if not row.startswith("·"))
        assert session.rows[0] == "Words without end"
        assert session.screen.cursor.x == 0
