"""`midturn demo --forms`: a form of four questions, some of which depend on others, with
*Back*.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.pty_session import PtySession

DEMO = [sys.executable, "-W", "error", "-m", "midturn", "demo", "--forms"]


def environment(home: Path) -> dict[str, str]:
    """Return an environment without the user's files, with a plain terminal."""
    return {
        "HOME": str(home),
        "TMPDIR": str(home),
        "TERM": "dumb",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "CI": "",
        "PATH": os.environ["PATH"],
    }


def test_demo_form_without_a_terminal_uses_back(tmp_path: Path) -> None:
    played = subprocess.run(
        DEMO,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        start_new_session=True,
        env=environment(tmp_path),
    )

    walked = [line.strip() for line in played.stderr.splitlines() if " asks: " in line]
    assert walked == [
        "Assistant asks: [1/4] Migrate the data as well?  no",
        "Assistant asks: [2/4] Where?  staging",
        "Assistant asks: [4/4] Why not the data?  (back)",
        "Assistant asks: [2/4] Where?  (back)",
        "Assistant asks: [1/4] Migrate the data as well?  yes",
        "Assistant asks: [2/4] Where?  staging, production",
        "Assistant asks: [3/4] When may the database be slow?  Sunday, 6:00",
        "Assistant asks: Send these answers?  (sent)",
    ]
    told = (
        "  Migrate the data as well?  yes\n  Where?  staging, production\n  When may the database"
        " be slow?  Sunday, 6:00\n\n"
    )
    assert told in played.stdout
    assert len(re.findall(r"cancelled \(back\)", played.stdout)) == 2


def test_demo_form_at_a_terminal_allows_back(tmp_path: Path) -> None:
    with PtySession(DEMO, environment=environment(tmp_path), size=(120, 80)) as person:
        press(person, "question 1 of 4", "y\r")
        press(person, "question 2 of 4", "b\r")
        press(person, "question 1 of 4", "n\r", times=2)
        press(person, "question 2 of 4", "1\r", times=2)
        press(person, "question 4 of 4", "Too slow.\r")
        press(person, "Send", "\r")
        assert person.wait_for_end() == 0
        told = (
            "  Migrate the data as well?  no\n  Where?  development\n  Why not the data?  Too"
            " slow.\n\n"
        )
        assert told in person.text


def press(person: PtySession, text: str, keys: str, times: int = 1) -> None:
    """Wait for this many prompts with a text, then press keys."""
    person.wait_until(lambda: person.text.count(text) >= times, text)
    person.wait_until_heard()
    person.wait_for_quiet(0.5)
    person.send(keys)
