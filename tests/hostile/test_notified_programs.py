"""`notify.command` receives a question as data: its texts are never words of the command, and the
program's output does not reach the terminal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.cli import CommandLine, asks, calls

CODES = "\x1b]52;c;aGk=\x07\x1b[2J"
NOTIFIED = (
    "import json, os, sys; said = json.loads(sys.stdin.read());[print(chr(27) + ']52;c;aGk=' +"
    " chr(7) + 'IMITATED', file=file, flush=True) for file in (sys.stdout, sys.stderr)];kept ="
    " {'args': sys.argv[2:], 'text': said['question']['text'], 'key': os.environ.get('MY_TOKEN'),"
    " 'tty': os.isatty(1)};open(sys.argv[1] + '.part', 'w').write(json.dumps(kept));"
    " os.rename(sys.argv[1] + '.part', sys.argv[1])"
)
TEXTS = {
    "a command": "$(touch ran)",
    "a command in old quotes": "`touch ran`",
    "the end of a word": "'; touch ran; '",
    "the end of a word in double quotes": '"; touch ran; "',
    "a pipe": "| touch ran",
    "an option": "--help; -rf",
    "a variable": "$MY_TOKEN ${MY_TOKEN}",
    "lines": "one\ntouch ran\n",
    "what acts on a terminal": f"Sure{CODES}?",
    "the end of the text": 'x", "id": "forged"}\n{"question": {"text": "Another?"}}',
    "directions": "\u202eerus\u202c",
}


@pytest.mark.parametrize("name", TEXTS)
def test_question_texts_are_never_command_arguments(tmp_path: Path, name: str) -> None:
    midturn, heard = CommandLine(tmp_path), tmp_path / "heard"
    midturn.configure(
        f"notify.command = {json.dumps([sys.executable, '-c', NOTIFIED, str(heard)])}\n"
    )
    midturn.accept_keys_at_once()
    midturn.asker()
    model = midturn.script(calls("deploy", ask=[asks(text=TEXTS[name])]))

    with midturn.on_a_terminal("query", "-m", model, "Ship it", MY_TOKEN="canary") as session:
        session.wait_until(
            lambda: "? help:" in session.text or "Done." in session.text,
            "a prompt, or the text was refused",
        )
        if "Done." not in session.text:
            session.wait_until(heard.exists, "the program is notified")
            session.send("n\r")
            session.wait_for("Done.")
        assert b"\x1b]52" not in session.raw
        assert "IMITATED" not in session.text
        assert "canary" not in session.text

    assert not (midturn.root / "ran").exists()
    if heard.exists():
        kept = json.loads(heard.read_text())
        assert (kept["args"], kept["key"], kept["tty"]) == ([], None, False)
        assert kept["text"] == TEXTS[name]


@pytest.mark.parametrize(
    "text",
    [
        "[notify]\ncommand=['touch','ran']",
        "notify={command=['./evil']}",
        "[notify]\ncommand='touch ran'",
    ],
)
def test_clone_cannot_set_the_notified_program(tmp_path: Path, text: str) -> None:
    midturn = CommandLine(tmp_path)
    midturn.accept_keys_at_once()
    midturn.asker()
    midturn.workspace_file(text)
    evil = midturn.root / "evil"
    evil.write_text("#!/bin/sh\ntouch ran\n")
    evil.chmod(0o755)

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=[asks()])), "Ship it"
    ) as session:
        session.wait_for("Deploy to staging?")
        session.send("n\r")
        session.wait_for("Done.")

    assert not (midturn.root / "ran").exists()
