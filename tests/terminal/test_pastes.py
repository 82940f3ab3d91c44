"""Pastes on a real terminal, marked as pastes or not.

They decide nothing at a choice, and are text in a text field.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from midturn.terminal.prompts.rich.burst import HOLD, PAUSE
from support.pty_session import PtySession, ask_once, release_program
from support.tmux import Tmux, needs_tmux

RICH = {"TERM": "xterm-256color", "SETTLE": "0"}
OPENED = b"\x1b[?2004h"
ATTEMPTS = 20
HELD_UP = "this machine never let the test send keys as fast as a paste does"
NOTHING_CHOSEN = "That looked like pasted text; nothing was chosen."
NOT_SUBMITTED = "That looked like pasted text; it was not submitted"
SENTENCES = [
    "You should look at this first. Then stop.",
    "production\r",
    "please use 2 or none\r",
    "yes\r",
    "Y\r",
    "y\r\ny\r\n",
    "s\rs\r",
    "e\r",
    "A\r",
    "1\r",
    "\r\r",
    "b then c\x03",
]
YES_NO = ["boolean", "boolean_default", "boolean_optional", "run", "deliver"]
CHOICES = [*YES_NO, "select", "select_other", "multi", "multi_other", "review", "form"]


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """Return the file that the reply is written to."""
    return tmp_path / "reply"


def rich(name: str, result: Path, **more: str) -> PtySession:
    """Ask one prompt of the catalogue with single keys, and wait until it is drawn."""
    session = ask_once(name, result, environment={**RICH, **more})
    session.wait_for_raw(OPENED)
    return session


@pytest.mark.parametrize("name", CHOICES)
def test_a_paste_does_not_answer_a_choice(name: str, result: Path) -> None:
    with rich(name, result) as session:
        for sentence in SENTENCES:
            session.send(sentence.encode())
            session.wait_for(NOTHING_CHOSEN)
            session.wait_for_quiet(0.35)
            session.send(b"\x1b[1;9z\x1b[A")  # the message disappears with the next key
            session.wait_until(lambda: NOTHING_CHOSEN not in session.text, "no message")
        assert not result.exists()

        session.send("\x03")
        if name in {"review", "form"}:
            session.wait_for("the form has answers")
            session.send("\x03")
        session.wait_for_end()
        assert result.read_text() == "EndedTurn()"


@pytest.mark.parametrize("name", ["boolean", "select", "multi", "run"])
def test_a_paste_in_pieces_answers_nothing(name: str, result: Path) -> None:
    for _ in range(ATTEMPTS):
        with rich(name, result) as session:
            pieces = [bytes([char]) for char in b"Y2 please\ryes\r"]
            if not session.send_in_pieces(pieces, pause=0.005, longest=HOLD):
                result.unlink(missing_ok=True)
                continue
            session.wait_for(NOTHING_CHOSEN)
            session.wait_for_quiet(0.1)
            assert not result.exists()
            return
    pytest.fail(HELD_UP)


@pytest.mark.parametrize(
    ("name", "key", "reply"),
    [
        ("boolean", "y", "value=True"),
        ("select", "2", "value='production'"),
        ("run", "n", "value=False"),
    ],
)
def test_a_single_key_answers_after_a_paste(name: str, key: str, reply: str, result: Path) -> None:
    with rich(name, result) as session:
        session.send(b"please use the other one\r")
        session.wait_for(NOTHING_CHOSEN)
        session.wait_for_quiet(0.35)
        session.send(key)
        session.wait_for_end()
        assert reply in result.read_text()


def test_the_tail_of_a_paste_is_ignored(result: Path) -> None:
    for _ in range(ATTEMPTS):
        with rich("boolean", result) as session:
            if not session.send_in_pieces(
                [b"no problem", b"y", b"Y", b"\r", b"n"], pause=0.1, longest=PAUSE
            ):
                result.unlink(missing_ok=True)
                continue
            session.wait_for(NOTHING_CHOSEN)
            session.wait_for_quiet(0.1)
            assert not result.exists()
            return
    pytest.fail(HELD_UP)


@pytest.mark.parametrize(
    ("name", "paste", "value"),
    [
        ("text_empty", b"one\rtwo\rthree\rfour", "'one\\ntwo\\nthree\\nfour'"),
        ("text_empty", b"one\rtwo\rthree\rfour\r", "'one\\ntwo\\nthree\\nfour'"),
        ("text_empty", b"one line\r", "'one line'"),
        ("secret", b"hunter\rtwo\r", "'hunter\\ntwo'"),
    ],
)
def test_pasted_lines_are_text_in_a_text_field(
    name: str, paste: bytes, value: str, result: Path
) -> None:
    with rich(name, result) as session:
        session.send(paste)
        session.wait_for(NOT_SUBMITTED)
        assert not result.exists()

        session.wait_for_quiet(0.2)
        session.send("\r")
        session.wait_for_end()
        assert f"value={value}" in result.read_text()


def test_a_paste_into_a_filter_chooses_nothing(result: Path) -> None:
    with rich("select48", result) as session:
        session.send(b"module_40\r")
        session.wait_for(NOT_SUBMITTED)
        session.wait_for("filter: module_40")
        assert not result.exists()


@pytest.mark.parametrize(("keys", "shown"), [("p", "Reason (optional)"), ("e", "New value of")])
def test_a_paste_into_a_field_opened_by_a_key_is_text(keys: str, shown: str, result: Path) -> None:
    with rich("run", result) as session:
        session.send(keys)
        session.wait_for(shown)
        session.wait_for_quiet(0.35)
        session.send(b"because of this\ry\ry\r")
        session.wait_for(NOT_SUBMITTED)
        assert not result.exists()


def test_a_paste_into_the_pager_keeps_it_open(result: Path) -> None:
    with rich("boolean_cut", result) as session:
        session.send("v")
        session.wait_for("q close")
        session.send(b"quit and say yes\r")
        session.wait_for(NOTHING_CHOSEN)
        session.wait_for_quiet(0.1)
        assert not result.exists()
        session.wait_for_quiet(0.3)
        session.send("q")
        session.wait_for("Apply all of it?")


def test_pasted_lines_in_pieces_do_not_answer_a_plain_choice(result: Path) -> None:
    for _ in range(ATTEMPTS):
        with ask_once("boolean", result, environment={"TERM": "dumb", "SETTLE": "0"}) as session:
            session.wait_at("help: ")
            is_fast = session.send_in_pieces([b"y\n", b"y\n"], pause=0.005, longest=HOLD)
            if not is_fast or not session.send_in_pieces([b"", b"y\n"], pause=0.1, longest=PAUSE):
                result.unlink(missing_ok=True)
                continue
            session.wait_for("Several lines arrived at once and were ignored")
            session.wait_for_quiet(0.3)
            assert not result.exists()
            session.send("n\r")
            session.wait_for_end()
            assert "value=False" in result.read_text()
            return
    pytest.fail(HELD_UP)


def test_pasted_lines_in_pieces_are_one_plain_text(result: Path) -> None:
    for _ in range(ATTEMPTS):
        with ask_once("text_empty", result, environment={"TERM": "dumb", "SETTLE": "0"}) as session:
            session.wait_at("> ")
            if not session.send_in_pieces(
                [b"one\n", b"two\n", b"three\n"], pause=0.005, longest=HOLD
            ):
                result.unlink(missing_ok=True)
                continue
            session.wait_for_end()
            assert "value='one\\ntwo\\nthree'" in result.read_text()
            return
    pytest.fail(HELD_UP)


@pytest.mark.parametrize("name", ["text_empty", "boolean"])
def test_a_marked_paste_in_progress_at_the_prompt_is_one_paste(name: str, result: Path) -> None:
    with ask_once(name, result, case="busy", environment=RICH) as session:
        session.wait_for("busy")
        session.send(b"\x1b[200~one yes")
        release_program(result)
        session.wait_for_raw(OPENED)
        session.send(b" y\rtwo\x1b[201~")
        if name == "boolean":
            session.wait_for(NOTHING_CHOSEN)
            assert not result.exists()
            return
        session.wait_for("two")
        session.wait_for_quiet(0.2)
        session.send(b"\r")
        session.wait_for_end()

    assert "value='one yes y\\ntwo'" in result.read_text()


# --------------------------------------------------------------------------------------------------
# tmux: `send-keys -l`, and `paste-buffer`, which marks nothing without `-p`


def send_keys(tmux: Tmux, text: str) -> None:
    """Type a text in one write."""
    tmux("send-keys", "-l", text)


def paste_buffer(tmux: Tmux, text: str) -> None:
    """Paste a text without paste marks."""
    tmux("set-buffer", text)
    tmux("paste-buffer")


@needs_tmux
@pytest.mark.parametrize("paste", [send_keys, paste_buffer])
@pytest.mark.parametrize(
    ("name", "asked", "text"),
    [
        ("run", "all keys", "You should look at this first. Then stop."),
        ("boolean_default", "all keys", "production\n"),
        ("select", "Enter picks", "please use 2 or none"),
    ],
)
def test_a_paste_in_tmux_answers_nothing(
    tmux: Tmux, paste: Callable[[Tmux, str], None], name: str, asked: str, text: str, result: Path
) -> None:
    tmux.ask(name, result)
    tmux.wait_for(asked)
    paste(tmux, text)
    tmux.wait_for(NOTHING_CHOSEN)
    time.sleep(0.1)
    assert not result.exists()


@needs_tmux
def test_four_pasted_lines_in_tmux_are_one_text(tmux: Tmux, result: Path) -> None:
    tmux.ask("text_empty", result)
    tmux.wait_for("Enter submits")
    paste_buffer(tmux, "one\ntwo\nthree\nfour\n")
    tmux.wait_for(NOT_SUBMITTED)
    assert not result.exists()
    time.sleep(0.3)
    tmux("send-keys", "Enter")
    tmux.wait_until(result.exists, "reply")
    assert "value='one\\ntwo\\nthree\\nfour'" in result.read_text()


@needs_tmux
def test_single_keys_in_tmux_answer(tmux: Tmux, result: Path) -> None:
    tmux.ask("select", result)
    tmux.wait_for("Enter picks")
    tmux("send-keys", "Down")
    tmux("send-keys", "Enter")
    tmux.wait_until(result.exists, "reply")
    assert "value='production'" in result.read_text()
