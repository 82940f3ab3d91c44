"""Viewing a question with `midturn answer` decides nothing and ends no turn."""

from __future__ import annotations

from typing import Any

import pytest

from midturn.cli.output import ExitStatus
from support.cli import CommandLine, asks, calls
from support.pty_session import PtySession

TEXT = {"id": "note", "text": "What shall I note?", "answer_type": {"type": "text"}}
SECRET = {"id": "key", "text": "The passphrase?", "answer_type": {"type": "secret"}}
FORM = [asks("apply", "Apply the migration?"), TEXT]


def waiting(midturn: CommandLine, *questions: dict[str, Any]) -> dict[str, Any]:
    """Suspend a turn on questions; return the open question."""
    midturn.asker()
    midturn.accept_keys_at_once()
    assert (
        midturn.run(
            "query", "-m", midturn.script(calls("deploy", ask=list(questions))), "--defer", "Go"
        ).status
        == 3
    )
    (question,) = midturn.ok("inbox", "--json").json
    return question


def is_untouched(midturn: CommandLine, question: dict[str, Any]) -> bool:
    """Return whether the question is still open and its log unchanged."""
    (still,) = midturn.ok("inbox", "--json").json
    ended = [
        event for event in midturn.events() if event["type"] in ("inquiry_response", "turn_end")
    ]
    return still["id"] == question["id"] and not ended


def wait_until_ready(session: PtySession, *, is_text: bool, plain: bool) -> None:
    """Wait until the prompt accepts keys."""
    if plain:
        session.wait_at("> " if is_text else ": ")
    else:
        session.wait_for("Enter submits" if is_text else "all keys")


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rich"])
@pytest.mark.parametrize(
    "key", ["\x03", "\x04", "\x1b", "l"], ids=["ctrl-c", "ctrl-d", "escape", "l"]
)
@pytest.mark.parametrize("question", [asks(), TEXT], ids=["yes or no", "text"])
def test_viewing_a_question_leaves_it_open(
    midturn: CommandLine,
    question: dict[str, Any],
    key: str,
    plain: bool,  # noqa: FBT001
) -> None:
    if plain and key == "\x1b":  # in a line edited by the terminal, Escape has no effect
        return
    is_text = question is TEXT
    if key == "l":
        key = "l" if not is_text else ":l" if plain else "\x1bOPl"
    asked = waiting(midturn, question)

    with midturn.on_a_terminal("answer", asked["id"], plain=plain) as session:
        session.wait_for(question["text"])
        wait_until_ready(session, is_text=is_text, plain=plain)
        session.send(key + ("\r" if plain and key.endswith("l") else ""))
        assert session.wait_for_end() == ExitStatus.SUSPENDED
        said = " ".join(session.text.split())

    assert "(later)" in said
    assert (
        f"midturn: the question stays open. To answer it later: `midturn answer {asked['id']}`"
        in said
    )
    assert is_untouched(midturn, asked)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rich"])
def test_leaving_a_form_keeps_its_answers(midturn: CommandLine, plain: bool) -> None:  # noqa: FBT001
    asked = waiting(midturn, *FORM)

    with midturn.on_a_terminal("answer", asked["id"], plain=plain) as session:
        session.wait_for("Apply the migration?")
        session.send("y\r" if plain else "y")
        session.wait_for("What shall I note?")
        wait_until_ready(session, is_text=True, plain=plain)
        session.send("\x03")
        assert session.wait_for_end() == ExitStatus.SUSPENDED
        said = " ".join(session.text.split())

    assert (
        "The rest of the form is asked when the turn continues: `midturn resume"
        f" {asked['conversation']}`" in said
    )
    recorded = [
        event["answer"] for event in midturn.events() if event["type"] == "inquiry_response"
    ]
    assert recorded == [True]
    assert not [event for event in midturn.events() if event["type"] == "turn_end"]


def test_leaving_a_secret_prompt_keeps_the_question_open(midturn: CommandLine) -> None:
    asked = waiting(midturn, SECRET)

    with midturn.on_a_terminal("answer", asked["id"]) as session:
        session.wait_for("Hidden input")
        session.wait_at(": ")
        session.send("\x03")
        assert session.wait_for_end() == ExitStatus.SUSPENDED

    assert is_untouched(midturn, asked)


def test_later_in_a_turn_suspends_it_and_says_how_to_resume(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=[asks()])), "Go", plain=False
    ) as session:
        session.wait_for("Deploy to staging?")
        session.send("l")
        assert session.wait_for_end() == ExitStatus.SUSPENDED
        said = session.text

    (still,) = midturn.ok("inbox", "--json").json
    assert f"To answer:   midturn answer {still['id']} [VALUE]\n" in said
    assert not [event for event in midturn.events() if event["type"] == "turn_end"]
