"""Plain prompts on a real terminal: display, answers, and the state afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from midturn.question.answer_type import SchemaType, SecretType, TextType
from support.golden import assert_golden, golden
from support.prompt_catalogue import PROMPTS
from support.pty_session import ASK_ONCE, TESTS, PtySession, ask_once, release_program

PLAIN = {"TERM": "dumb"}


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """Return the file that the reply is written to."""
    return tmp_path / "reply"


def plain(
    name: str, result: Path, *, case: str = "", size: tuple[int, int] = (80, 30), settle: str = "0"
) -> PtySession:
    """Ask one prompt of the catalogue in plain lines."""
    return ask_once(name, result, case=case, size=size, environment={**PLAIN, "SETTLE": settle})


def wait_until_asked(session: PtySession) -> None:
    """Wait for the end of the first prompt, which is a colon or an arrow and a space."""
    session.wait_until(lambda: session.raw.endswith((b": ", b"\n> ")), "question")


def wait_until_begun(session: PtySession) -> None:
    """Wait until a line typed before the prompt is edited key by key."""
    session.wait_until(lambda: not session.read_settings()[3] & termios.ICANON, "keys one by one")


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_each_prompt_matches_its_golden_screen(name: str, columns: int, result: Path) -> None:
    """Compares the whole screen with the cursor.

    No byte may move the cursor, set colours or ring the bell.
    """
    expected = golden(f"plain_{columns}/{name}")
    with plain(name, result, size=(columns, 48)) as session:
        wait_until_asked(session)
        asked = session.framed_as(expected, f"{name}: as asked")
        session.send(
            ":?\n"
            if isinstance(PROMPTS[name].question.answer_type, TextType | SchemaType | SecretType)
            else "?\n"
        )
        session.wait_until(
            lambda: (
                session.raw.count(b"Ctrl-C or Ctrl-D") == 1 and session.raw.endswith((b": ", b"> "))
            ),
            "help",
        )
        helped = session.framed_as(expected, f"{name}: help")
        session.send("\x03")
        if name in ("form", "review"):
            session.wait_for("Enter to continue:")
            session.send("\x03")

        assert session.wait_for_end() == 0
        assert result.read_text() == "EndedTurn()"
        assert b"\x1b" not in session.raw
        assert b"\x07" not in session.raw
        assert session.read_settings() == session.settings
        assert_golden(
            f"plain_{columns}/{name}", f"{asked}\n{helped}\n{session.framed(f'{name}: Ctrl-C')}"
        )


@pytest.mark.parametrize(
    ("name", "line", "reply"),
    [
        (
            "boolean",
            "Y",
            (
                "Answered(value=True, reason=None, remember=True, automatic=False, scope=None,"
                " rule=None)"
            ),
        ),
        (
            "select",
            "production",
            (
                "Answered(value='production', reason=None, remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "multi",
            "2-3",
            (
                "Answered(value=['types', 'unit tests'], reason=None, remember=False,"
                " automatic=False, scope=None, rule=None)"
            ),
        ),
        (
            "text",
            "naïve 本番",
            (
                "Answered(value='naïve 本番', reason=None, remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "secret",
            "hunter2",
            (
                "Answered(value='hunter2', reason=None, remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "schema",
            "",
            (
                "Answered(value={'replicas': 3, 'region': 'eu'}, reason=None, remember=False,"
                " automatic=False, scope=None, rule=None)"
            ),
        ),
        (
            "run",
            "n",
            (
                "Answered(value=False, reason=None, remember=False, automatic=False, scope=None,"
                " rule=None)"
            ),
        ),
        ("review", "", "Submitted()"),
        ("form", "b", "WentBack()"),
    ],
)
def test_a_typed_line_answers(name: str, line: str, reply: str, result: Path) -> None:
    with plain(name, result) as session:
        wait_until_asked(session)
        session.send(f"{line}\r")

        assert session.wait_for_end() == 0
        assert result.read_text(encoding="utf-8") == reply
        assert session.read_settings() == session.settings


def test_a_flat_object_is_asked_field_by_field(result: Path) -> None:
    with plain("fields", result) as session:
        for line, shown in [
            ("2", "question 2 of 3"),
            ("yes", "question 3 of 3"),
            (":-", "Send these answers?"),
            ("y", "Answer: (sent)"),
        ]:
            wait_until_asked(session)
            session.send(f"{line}\r")
            session.wait_for(shown)
        assert session.wait_for_end() == 0
    assert result.read_text().startswith("Answered(value={'cpu': 2, 'burst': True},")


@pytest.mark.parametrize("name", ["boolean_default", "select", "multi", "text", "secret", "schema"])
@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_ctrl_c_and_end_of_input_end_the_turn_without_the_default(
    name: str, key: str, result: Path
) -> None:
    with plain(name, result) as session:
        wait_until_asked(session)
        session.send(key)

        assert session.wait_for_end() == 0
        assert result.read_text() == "EndedTurn()"
        assert session.read_settings() == session.settings


@pytest.mark.parametrize("name", ["form", "review"])
@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_ctrl_c_in_a_form_with_answers_asks_first(name: str, key: str, result: Path) -> None:
    with plain(name, result) as session:
        wait_until_asked(session)
        session.send(key)
        session.wait_for(
            "The form has answers. Press Ctrl-C again to end the turn, Enter to continue:"
        )
        session.send("\r")
        session.wait_until(
            lambda: session.text.count("Type" if name == "form" else "Press Enter") > 1,
            "the question again",
        )
        session.send(key)
        session.wait_until(
            lambda: session.text.count("Enter to continue:") > 1, "the warning again"
        )
        session.send(key)

        assert session.wait_for_end() == 0
        assert result.read_text() == "EndedTurn()"
        assert session.read_settings() == session.settings


def test_ctrl_c_in_the_middle_of_a_line_ends_the_turn(result: Path) -> None:
    with plain("text", result) as session:
        wait_until_asked(session)
        session.send("half a line\x03")

        assert session.wait_for_end() == 0
        assert result.read_text() == "EndedTurn()"


def test_ctrl_d_in_the_middle_of_a_line_submits_nothing(result: Path) -> None:
    with plain("text", result) as session:
        wait_until_asked(session)
        session.send("half\x04")
        session.wait_for("> half")
        session.send(" a line\r")

        assert session.wait_for_end() == 0
        assert "'half a line'" in result.read_text()


def test_earlier_input_can_be_erased(result: Path) -> None:
    """The terminal does not know input that was read earlier."""
    with plain("text", result) as session:
        wait_until_asked(session)
        session.send("näher 本番\x04")
        wait_until_begun(session)
        session.send("\x7f\x7f\x7f\x7f")
        session.wait_at("> nähe")
        session.send("\x15rot grün\x17blau\r")

        assert session.wait_for_end() == 0
        assert "value='rot blau'" in result.read_text(encoding="utf-8")
        assert "> rot blau" in session.text
        assert session.read_settings() == session.settings


def test_a_too_early_enter_leaves_an_erasable_line(result: Path) -> None:
    with plain("text", result, settle="2") as session:
        wait_until_asked(session)
        session.send("a note\r")
        session.wait_for("Enter came too soon")
        wait_until_begun(session)
        session.send("\x7f\x7f\x7f\x7f")
        session.wait_at("> a ")
        session.wait_for_quiet(2.5)
        session.send("word\r")

        assert session.wait_for_end() == 0
        assert "value='a word'" in result.read_text()


@pytest.mark.parametrize("key", ["\x03", "\x7f\x7f\x04"])
def test_a_line_begun_before_the_prompt_can_be_left(key: str, result: Path) -> None:
    with plain("text", result) as session:
        wait_until_asked(session)
        session.send("no\x04")
        wait_until_begun(session)
        session.send(key)

        assert session.wait_for_end() == 0
        assert result.read_text() == "EndedTurn()"
        assert session.read_settings() == session.settings


def test_erasing_an_earlier_secret_does_not_show_it(result: Path) -> None:
    with plain("secret", result) as session:
        wait_until_asked(session)
        before = len(session.raw)
        session.send("hunx\x04")
        wait_until_begun(session)
        session.send("\x7fter2\r")

        assert session.wait_for_end() == 0
        assert "'hunter2'" in result.read_text()
        assert session.raw[before:] == b"\r\nAnswer: (hidden)\r\n"


def test_the_hosts_ctrl_c_handler_is_not_changed(result: Path) -> None:
    """The key ends the turn. A signal from elsewhere is handled by the host."""
    with plain("boolean", result, case="host") as session:
        wait_until_asked(session)
        session.child.kill(signal.SIGINT)
        session.wait_until(result.exists, "signal heard")

        assert result.read_text() == "host heard SIGINT"

        session.send("y\r")
        assert session.wait_for_end() == 0
        assert result.read_text().startswith("Answered(value=True")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize(
    "name",
    [
        "boolean",
        "select",
        "select48",
        "multi",
        "text",
        "secret",
        "schema",
        "run",
        "deliver",
        "review",
    ],
)
def test_a_fatal_signal_restores_the_terminal_first(
    name: str, number: signal.Signals, result: Path
) -> None:
    with plain(name, result) as session:
        wait_until_asked(session)
        assert session.read_settings() != session.settings
        session.child.kill(number)

        assert session.wait_for_end() == -number
        assert session.read_settings() == session.settings
        assert not result.exists()


def test_cancelling_removes_the_prompt_at_once(result: Path) -> None:
    with plain("secret", result, case="cancel") as session:
        wait_until_asked(session)
        release_program(result)

        assert session.wait_for_end() == 0
        assert result.read_text() == "cancelled"
        assert session.read_settings() == session.settings


def test_a_secret_is_never_in_the_output(result: Path) -> None:
    with plain("secret", result) as session:
        wait_until_asked(session)
        before = len(session.raw)
        session.send("hunt\x7f\x7fnter2 🔑\r")

        assert session.wait_for_end() == 0
        assert session.raw[before:] == b"\r\nAnswer: (hidden)\r\n"


def test_input_typed_ahead_answers_nothing(result: Path) -> None:
    """Sends 200 keys before the prompt, some of them line breaks."""
    with plain("boolean_default", result, case="busy", settle="0.2") as session:
        session.wait_for("busy")
        session.send(b"y\rn\rYN1 \r" * 22)
        release_program(result)
        wait_until_asked(session)
        assert not result.exists()

        session.wait_for_quiet(0.3)
        session.send("n\r")
        assert session.wait_for_end() == 0
        assert "value=False" in result.read_text()


def test_a_too_early_enter_keeps_the_text(result: Path) -> None:
    with plain("text", result, settle="5") as session:
        wait_until_asked(session)
        session.send("a note\r")
        session.wait_for("Enter came too soon")

        assert not result.exists()
        assert "a note" in session.text


def test_several_lines_at_once_do_not_answer_a_yes_no_question(result: Path) -> None:
    """A paste is meant for a text field."""
    with plain("boolean", result) as session:
        wait_until_asked(session)
        session.send(b"y\ny\ny\n")
        session.wait_for("Several lines arrived at once")
        session.wait_at("help: ")
        session.send("n\r")

        assert session.wait_for_end() == 0
        assert "value=False" in result.read_text()


def test_several_pasted_lines_are_one_text(result: Path) -> None:
    with plain("text", result) as session:
        wait_until_asked(session)
        session.send(b"one\ntwo\nthree\n")

        assert session.wait_for_end() == 0
        assert "value='one\\ntwo\\nthree'" in result.read_text()


def test_unsupported_keys_are_not_part_of_the_line(result: Path) -> None:
    """Arrows, F1, a key with Ctrl, paste marks, and Escape alone."""
    with plain("text", result) as session:
        wait_until_asked(session)
        session.send("\x1b[A\x1b[Dn\x1bOPa\x1b[1;5Cïv\x1be \x1b[200~本\x1b[201~番\x1b\r")

        assert session.wait_for_end() == 0
        assert "value='naïve 本番'" in result.read_text(encoding="utf-8")


def test_text_after_a_half_erased_arrow_key_is_kept(result: Path) -> None:
    with plain("text", result) as session:
        wait_until_asked(session)
        session.send("\x1b[A\x7fhello\r")

        assert session.wait_for_end() == 0
        assert "hello'" in result.read_text()


def test_a_line_longer_than_the_terminals_limit_is_refused(result: Path) -> None:
    with plain("text", result) as session:
        wait_until_asked(session)
        for _ in range(50):
            session.send("x" * 100)
        session.send("\r")
        session.wait_for("longer than the terminal accepts")
        session.send("short\r")

        assert session.wait_for_end() == 0
        assert "value='short'" in result.read_text()


def test_piped_stdin_never_answers(result: Path) -> None:
    command = f"echo y | {sys.executable} {ASK_ONCE} boolean_default {result} > /dev/null 2>&1"
    with PtySession(["/bin/sh", "-c", command], environment=PLAIN) as session:
        wait_until_asked(session)
        session.send("n\r")

        assert session.wait_for_end() == 0
        assert "value=False" in result.read_text()


def test_without_a_terminal_no_prompt_is_shown(result: Path) -> None:
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(TESTS)}

    subprocess.run(
        [sys.executable, ASK_ONCE, "boolean", result],
        check=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )

    assert result.read_text() == "Unavailable()"


def test_a_background_job_is_not_stopped_and_counts_as_unavailable(result: Path) -> None:
    command = f"set -m; {sys.executable} {ASK_ONCE} boolean {result} & wait $!; echo status $?"
    with PtySession(["/bin/sh", "-c", command], environment=PLAIN) as session:
        session.wait_for("status 0")

        assert result.read_text() == "Unavailable()"


def test_ctrl_z_stops_the_job_and_the_text_is_kept(result: Path) -> None:
    with PtySession(
        ["/bin/bash", "--norc", "--noprofile", "-i"], environment={**PLAIN, "PS1": "shell$ "}
    ) as session:
        session.wait_at("shell$ ")
        session.send(f"{sys.executable} {ASK_ONCE} text {result}\r")
        session.wait_for_raw(b"\n> ")
        asked = session.text.count("asks:")
        session.send("half\x1a")
        session.wait_for("Stopped")
        session.wait_at("shell$ ")
        session.send("fg\r")
        session.wait_at("> half")
        assert session.text.count("asks:") == asked + 1
        session.send(" a line\r")
        session.wait_until(result.exists, "reply")

        assert "'half a line'" in result.read_text()


def test_a_closed_terminal_counts_as_nobody_if_the_program_survives(result: Path) -> None:
    command = f"trap '' HUP; exec {sys.executable} {ASK_ONCE} text {result}"
    with PtySession(["/bin/sh", "-c", command], environment={**PLAIN, "SETTLE": "0"}) as session:
        wait_until_asked(session)
        session.hang_up()
        deadline = time.monotonic() + 120
        while not result.exists() and time.monotonic() < deadline:
            time.sleep(0.02)

        assert result.read_text() == "gone"


EDITORS = {
    "writes": (
        "import os, sys; assert all(map(os.isatty, (0, 1, 2))); open(sys.argv[1], 'w').write('from"
        " the editor\\n')"
    ),
    "fails": "raise SystemExit(3)",
    "dies": "import os; os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize(
    ("editor", "reply"), [("writes", "from the editor"), ("fails", "none"), ("dies", "none")]
)
def test_the_editor_runs_on_the_terminal_and_a_failure_keeps_the_text(
    editor: str, reply: str, result: Path, tmp_path: Path
) -> None:
    script = tmp_path / "editor.py"
    script.write_text(EDITORS[editor])
    command = f"{sys.executable} {ASK_ONCE} text {result} < /dev/null > /dev/null 2>&1"
    with PtySession(
        ["/bin/sh", "-c", command], environment={**PLAIN, "EDITOR": f"{sys.executable} {script}"}
    ) as session:
        wait_until_asked(session)
        session.send(":e\r")
        session.wait_for("The text is unchanged." if reply == "none" else "Your text:")
        wait_until_asked(session)
        session.send("\r")

        assert session.wait_for_end() == 0
        assert f"value='{reply}'" in result.read_text()
        assert session.read_settings() == session.settings


def test_ctrl_c_in_the_editor_belongs_to_the_editor(result: Path, tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, pathlib, time\ntry:\n    print('editing', flush=True)\n    time.sleep(30)\n"
        "except KeyboardInterrupt:\n    pathlib.Path(sys.argv[1]).write_text('kept')\n"
    )
    with ask_once(
        "text", result, environment={**PLAIN, "SETTLE": "0", "VISUAL": f"{sys.executable} {script}"}
    ) as session:
        wait_until_asked(session)
        session.send(":e\r")
        session.wait_for("editing")
        session.send("\x03")
        session.wait_for("Your text:")
        wait_until_asked(session)
        session.send("\r")

        assert session.wait_for_end() == 0
        assert "value='kept'" in result.read_text()
