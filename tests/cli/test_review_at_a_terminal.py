"""The review of a form on a pseudo terminal: a row's number goes back to its question."""

from __future__ import annotations

import json

import pytest

from support.cli import CommandLine, calls
from support.pty_session import PtySession

QUESTIONS = [
    {"id": name, "text": f"{name.title()}?", "answer_type": "boolean"}
    for name in ("drain", "migrate", "announce")
]


@pytest.mark.parametrize("plain", [True, False])
def test_row_number_goes_back_to_its_question(midturn: CommandLine, *, plain: bool) -> None:
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("ask_user", questions=QUESTIONS)), "Go", plain=plain
    ) as session:
        for number in (1, 2, 3):
            answer(session, number, "y", plain=plain)
        review(session, "1", plain=plain)
        answer(session, 1, "n", plain=plain)
        for number in (2, 3):  # Enter keeps the earlier answer
            answer(session, number, "", plain=plain)
        review(session, "", plain=plain)
        assert session.wait_for_end() == 0

    (result,) = [event for event in midturn.events() if event["type"] == "tool_call_response"]
    assert json.loads(result["content"]) == {"drain": False, "migrate": True, "announce": True}
    shown = midturn.ok("conversation", "show").stdout
    assert "  Drain?  no\n  Migrate?  yes\n  Announce?  yes\n" in shown


@pytest.mark.parametrize("size", [(80, 40), (40, 15), (40, 6)])
def test_review_is_shown_once_after_going_back(midturn: CommandLine, size: tuple[int, int]) -> None:
    midturn.accept_keys_at_once()
    model = midturn.script(calls("ask_user", questions=QUESTIONS))

    with midturn.on_a_terminal("query", "-m", model, "Go", plain=False, size=size) as session:
        for number in (1, 2, 3):
            answer(session, number, "y", plain=False)
        for _ in range(2):
            session.wait_until(lambda: "1-3 to change" in "".join(session.rows[-1:]), "the review")
            assert session.text.count("1. Drain? yes") == 1, session.text
            session.send("3")
            answer(session, 3, "y", plain=False)
        session.wait_until(lambda: "1-3 to change" in "".join(session.rows[-1:]), "the review")
        assert session.text.count("1. Drain? yes") == 1, session.text
        session.send("\r")
        assert session.wait_for_end() == 0
        assert "Send these answers? (sent)" in session.text, session.text


def answer(session: PtySession, number: int, key: str, *, plain: bool) -> None:
    """Wait until a question of the form accepts keys, and press a key."""
    header = f"question {number} of 3:" if plain else f"[{number}/3]"
    session.wait_until(lambda: header in session.text[last_header(session, plain=plain) :], header)
    press(session, key, plain=plain)


def review(session: PtySession, key: str, *, plain: bool) -> None:
    """Wait for the review and press a key, with Enter if `key` is a text."""
    session.wait_until(
        lambda: "Send these answers?" in session.text[last_header(session, plain=plain) :],
        "the review",
    )
    press(session, key, plain=plain)


def press(session: PtySession, key: str, *, plain: bool) -> None:
    """Wait until the prompt accepts keys and press one; plain prompts also need Enter."""
    if plain:
        session.wait_until(lambda: session.text.endswith(("help:", "for y):")), "its keys")
        session.send(f"{key}\r")
    else:
        session.wait_until(lambda: "all keys" in "".join(session.rows[-2:]), "its keys")
        session.send(key or "\r")


def last_header(session: PtySession, *, plain: bool) -> int:
    return session.text.rfind("Assistant asks" if plain else "│ Assistant")


def test_reply_at_the_review_is_shown_after_the_unsent_answers(midturn: CommandLine) -> None:
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("ask_user", questions=QUESTIONS)), "Go", plain=False
    ) as session:
        for number in (1, 2, 3):
            answer(session, number, "y", plain=False)
        review(session, "r", plain=False)
        session.wait_for("Your reply to the assistant")
        session.send("not yet\r")
        assert session.wait_for_end() == 0

    shown = midturn.ok("conversation", "show").stdout
    assert "  Announce?  yes\n  Send these answers?  (reply) not yet\n\nAssistant:\n" in shown
    assert "{" not in shown
    trail = midturn.ok("conversation", "show", "--inquiries").stdout
    assert "  review ask_user: replied to\n            reply: not yet\n" in trail
