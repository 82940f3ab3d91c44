"""Claude Code at a terminal. Its own dialog and the inbox are open at the same time, and the
first answer wins.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine
from support.fake_messages import FakeMessages
from support.hooks import answers, stored, until, wait_for
from support.pty_session import PtySession

pytestmark = [pytest.mark.real("Claude Code", may_be_missing=True), pytest.mark.timeout(600)]
KEY = "sk-dummy-0123456789012345678901234567890123456789"
CALL: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "touch made", "description": "Make it"})
]
DIALOG = "Do you want to proceed?"
OPTIONS = [{"label": "prod", "description": "Live"}, {"label": "dev", "description": "Here"}]
QUESTION = {"question": "Which env?", "header": "Env", "multiSelect": False, "options": OPTIONS}


@contextmanager
def at_a_terminal(
    midturn: CommandLine, program: Path, provider: FakeMessages, *options: str
) -> Generator[PtySession]:
    """Start it with only its home, a dummy key and the provider. Its first-run dialogs are
    done.
    """
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {
            str(midturn.root): {
                "hasTrustDialogAccepted": True,
                "hasCompletedProjectOnboarding": True,
            }
        },
    }
    (midturn.home / ".claude.json").write_text(json.dumps(known))
    midturn.ok("hook", "install", "claude")
    environment = {
        **{name: value for name, value in midturn.environment.items() if name.startswith("XDG_")},
        "HOME": str(midturn.home),
        "PATH": midturn.environment["PATH"],
        "TERM": "xterm-256color",
        "ANTHROPIC_BASE_URL": provider.url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    given = [f"{name}={value}" for name, value in environment.items()]
    claude = [str(program), "--permission-mode", "default", "Go", *options]
    command = [
        "/usr/bin/env",
        "-i",
        *given,
        "/bin/sh",
        "-c",
        'cd "$1" && shift && exec "$@"',
        "sh",
        str(midturn.root),
        *claude,
    ]
    session = PtySession(command, size=(100, 40))
    try:
        yield session
    finally:
        session.child.kill(signal.SIGKILL)
        session.child.wait()
        session.child.close()


@pytest.mark.parametrize("value", [["y"], ["n", "--reason", "Not now."]])
def test_call_is_decided_in_the_inbox_and_the_dialog_closes(
    midturn: CommandLine, claude_program: Path, value: list[str]
) -> None:
    with (
        FakeMessages([CALL, "All done."]) as provider,
        at_a_terminal(midturn, claude_program, provider) as session,
    ):
        session.wait_for(DIALOG, seconds=300)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        session.wait_for("All done.", seconds=300)
        assert DIALOG not in session.text

    assert (midturn.root / "made").exists() == (value[0] == "y")
    assert ("The user said no: Not now." in provider.results[0]) == (value[0] == "n")


def test_decision_in_the_dialog_closes_the_inbox_question_without_a_responder(
    midturn: CommandLine, claude_program: Path
) -> None:
    with (
        FakeMessages([CALL, "All done."]) as provider,
        at_a_terminal(midturn, claude_program, provider) as session,
    ):
        session.wait_for(DIALOG, seconds=300)
        wait_for(midturn)
        session.send("1")
        session.wait_for("All done.", seconds=300)
        wait_for(midturn, 0)

    (decided,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert decided["state"] == "superseded"
    assert "answered_by" not in decided
    assert (midturn.root / "made").exists()


def test_no_in_the_dialog_uses_the_agents_text_and_has_no_responder(
    midturn: CommandLine, claude_program: Path
) -> None:
    with (
        FakeMessages([CALL, "All done."]) as provider,
        at_a_terminal(midturn, claude_program, provider) as session,
    ):
        session.wait_for(DIALOG, seconds=300)
        wait_for(midturn)
        session.send("\x1b")
        session.wait_until(lambda: DIALOG not in session.text, "the end of its dialog", seconds=300)
        session.send("Then go on")
        session.wait_for("Then go on", seconds=300)
        session.send("\r")
        session.wait_for("All done.", seconds=300)
        wait_for(midturn, 0)

    assert "The user doesn't want to proceed with this tool use" in provider.results[0]
    assert "The user said no" not in provider.said, (
        "these are our words for what was said in the inbox"
    )
    assert "Nobody has answered" not in provider.said
    (decided,) = answers(until(lambda: stored(midturn)[0], lambda events: bool(answers(events))))
    assert decided["state"] == "superseded"
    assert "answered_by" not in decided
    assert not (midturn.root / "made").exists()


def test_model_question_is_answered_in_the_inbox(
    midturn: CommandLine, claude_program: Path
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [("AskUserQuestion", {"questions": [QUESTION]})]
    with (
        FakeMessages([asked, "All done."]) as provider,
        at_a_terminal(midturn, claude_program, provider) as session,
    ):
        session.wait_for("Which env?", seconds=300)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "dev")
        session.wait_for("All done.", seconds=300)

    assert '"Which env?"="dev"' in provider.results[0]


def test_model_question_is_answered_in_the_dialog(
    midturn: CommandLine, claude_program: Path
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [("AskUserQuestion", {"questions": [QUESTION]})]
    with (
        FakeMessages([asked, "All done."]) as provider,
        at_a_terminal(midturn, claude_program, provider) as session,
    ):
        session.wait_for("Which env?", seconds=300)
        wait_for(midturn)
        session.send("1")
        session.wait_for("All done.", seconds=300)
        wait_for(midturn, 0)

    assert '"Which env?"="prod"' in provider.results[0]
    (closed,) = answers(stored(midturn)[0])
    assert closed["reason"] == "superseded"
