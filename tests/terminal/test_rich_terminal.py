"""Rich prompts on a real terminal: keys, modes, signals, and the state afterwards."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from support.golden import assert_golden, golden
from support.pty_session import ASK_ONCE, PtySession, ask_once, release_program

RICH = {"TERM": "xterm-256color", "SETTLE": "0"}
OPENED = b"\x1b[?2004h"  # paste marks are on, so the live rows are drawn
EVERY_KIND = [
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
]
COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")
RICH_COLOUR = re.compile(rb"\x1b\[[0-9;]*[34]8[;:]")


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """Return the file that the reply is written to."""
    return tmp_path / "reply"


def rich(
    name: str,
    result: Path,
    *,
    case: str = "",
    size: tuple[int, int] = (80, 30),
    environment: dict[str, str] | None = None,
) -> PtySession:
    """Ask one prompt of the catalogue with single keys, and wait until it is drawn."""
    session = ask_once(
        name, result, case=case, size=size, environment={**RICH, **(environment or {})}
    )
    session.wait_for_raw(OPENED)
    return session


def assert_restored(session: PtySession) -> None:
    """Check that settings, paste mode, cursor and wrapping of the terminal are as before."""
    assert session.read_settings() == session.settings
    for on, off in (
        (b"\x1b[?2004l", b"\x1b[?2004h"),
        (b"\x1b[?25h", b"\x1b[?25l"),
        (b"\x1b[?7h", b"\x1b[?7l"),
    ):
        assert session.raw.rfind(on) > session.raw.rfind(off)


@pytest.mark.parametrize(
    ("name", "keys", "reply"),
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
            "boolean",
            "pbecause\r",
            (
                "Answered(value=False, reason='because', remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "select",
            "\x1b[B\r",
            (
                "Answered(value='production', reason=None, remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "select48",
            "_4 580\r",
            (
                "Answered(value='src/module_40.py', reason=None, remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "multi",
            "23\r",
            (
                "Answered(value=['lint', 'types', 'unit tests'], reason=None, remember=False,"
                " automatic=False, scope=None, rule=None)"
            ),
        ),
        (
            "text",
            "\x15naïve 本番\r",
            (
                "Answered(value='naïve 本番', reason=None, remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "secret",
            "hunter2\r",
            (
                "Answered(value='hunter2', reason=None, remember=False, automatic=False,"
                " scope=None, rule=None)"
            ),
        ),
        (
            "schema",
            "\r",
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
        ("review", "\r", "Submitted()"),
        ("form", "b", "WentBack()"),
        ("text", "\x03", "EndedTurn()"),
        ("boolean_default", "\x04", "EndedTurn()"),
    ],
)
def test_keys_answer_and_the_terminal_is_restored(
    name: str, keys: str, reply: str, result: Path
) -> None:
    with rich(name, result) as session:
        session.press(keys) if name in {"boolean", "multi"} else session.send(keys)

        assert session.wait_for_end() == 0
        assert result.read_text(encoding="utf-8") == reply
        assert_restored(session)


@pytest.mark.parametrize("columns", [80, 40])
def test_golden_screens_of_prompts(columns: int, result: Path) -> None:
    """At the end, printed rows stay, live rows are removed, and one row remains."""
    steps = [("Esc: menu", "\x1b"), ("Esc again", "\x1b"), ("2", "2")]
    name = f"rich_{columns}_terminal"
    with rich("select", result, size=(columns, 20)) as session:
        drawn = [session.framed_as(golden(name), "select: as asked")]
        for title, keys in steps:
            session.send(keys)
            drawn.append(session.framed_as(golden(name), f"select: {title}"))
        session.wait_for_end()

        assert_golden(name, "\n".join(drawn))


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("name", ["text", "select48", "secret"])
def test_golden_screens_of_the_help_in_a_field(name: str, columns: int, result: Path) -> None:
    """F1 shows the help below the typed text, and Escape hides it."""
    file = f"rich_{columns}/f1_{name}"
    steps = [("typed", "42?"), ("F1", "\x1bOP"), ("Esc", "\x1b")]
    with rich(name, result, size=(columns, 30)) as session:
        drawn: list[str] = []
        for title, keys in steps:
            session.send(keys)
            drawn.append(session.framed_as(golden(file), f"{name}: {title}"))
        session.send("\x03")
        assert session.wait_for_end() == 0

        assert_golden(file, "\n".join(drawn))


@pytest.mark.parametrize("columns", [80, 40])
def test_a_flat_object_is_asked_field_by_field(columns: int, result: Path) -> None:
    file = f"rich_{columns}/fields"
    with rich("fields", result, size=(columns, 30)) as session:
        drawn: list[str] = []
        for title, keys, shown in [
            ("a number", "2", "a whole number"),
            ("yes or no", "\r", "j JSON"),
            ("an optional text", "y", "note"),
            ("the menu", "\x1b", "What next?"),
            ("back", "b", "note (back)"),
            ("again", "n", "burst no"),
            ("the last look", "why\r", "1-3 to change"),
        ]:
            session.send(keys)
            session.wait_for(shown)
            drawn.append(session.framed_as(golden(file), f"fields: {title}"))
        session.send("y")
        assert session.wait_for_end() == 0
        assert_restored(session)
        drawn.append(session.framed_as(golden(file), "fields: sent"))

        assert_golden(file, "\n".join(drawn))
    assert result.read_text().startswith(
        "Answered(value={'cpu': 2, 'burst': False, 'note': 'why'},"
    )


def test_a_flat_object_is_answered_as_json_behind_j(result: Path) -> None:
    with rich("fields", result) as session:
        session.send("\x1b")
        session.wait_for("What next?")
        session.send("j")
        session.wait_for("Tab inserts the template")
        session.send('{"cpu": 1, "burst": true}\r')
        assert session.wait_for_end() == 0
    assert "'burst': True" in result.read_text()


def test_ctrl_c_in_a_form_with_answers_asks_first(result: Path) -> None:
    with rich("form", result) as session:
        session.send("\x03")
        session.wait_for(
            "the form has answers: Ctrl-C again to end the turn, any other key to continue"
        )
        session.send("y")
        session.wait_until(lambda: "the form has answers" not in session.text, "the question alone")
        session.send("\x03\x03")
        assert session.wait_for_end() == 0

    assert result.read_text() == "EndedTurn()"


@pytest.mark.parametrize("columns", [80, 40])
def test_arguments_are_edited_by_type_on_a_terminal(columns: int, result: Path) -> None:
    """A string is edited as text. Every argument has its own field."""
    file = f"rich_{columns}/edited_arguments"
    steps = [("e", "e"), ("Enter", "\r"), ("Alt+J", "\x1bj")]
    with rich("run", result, size=(columns, 30)) as session:
        drawn: list[str] = []
        for title, keys in steps:
            session.send(keys)
            drawn.append(session.framed_as(golden(file), f"run: {title}"))
        session.send("\x03")
        assert session.wait_for_end() == 0

        assert_golden(file, "\n".join(drawn))


def test_ascii_terminals_get_ascii_symbols(result: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with rich("boolean", result, environment=ascii_only) as session:
        session.wait_for("| This is not reversible with git stash.")
        session.press("pno\r")
        session.wait_for_end()

        assert session.raw.isascii()
        assert "value=False" in result.read_text()


def test_row_widths_are_correct_on_ascii_terminals(result: Path) -> None:
    """Otherwise, redrawing a row would leave rests of a wider one."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with rich("select", result, size=(40, 20), environment=ascii_only) as session:
        session.wait_until(lambda: session.rows[-1].endswith("all keys"), "the keys")
        assert session.rows[-1] == "b back - r reply - l later - ? all keys", session.text
        session.send("\x1b")
        session.wait_for("Leave the list?")
        session.send("\x1b")
        session.wait_until(
            lambda: "Leave the list?" not in session.text and session.rows[-1].endswith("all keys"),
            "the list again",
        )
        assert all(len(row) <= 40 for row in session.rows)
        session.send("2")
        session.wait_for_end()
        assert session.rows[-1].endswith("production"), session.text
        assert session.raw.isascii()


def test_escape_alone_is_recognized_after_a_moment(result: Path) -> None:
    with rich("text", result) as session:
        session.wait_for("none")
        session.send("\x1b")
        session.wait_for("a answer (Enter)")
        session.press("ss")

        assert session.wait_for_end() == 0


@pytest.mark.parametrize("size", [(30, 24), (30, 1), (10, 5), (200, 50)])
@pytest.mark.parametrize(
    ("name", "keys"), [("boolean_long", "y"), ("select", "2"), ("text", "x\r"), ("schema", "\r")]
)
def test_prompts_work_in_small_and_large_windows(
    name: str, keys: str, size: tuple[int, int], result: Path
) -> None:
    with rich(name, result, size=size) as session:
        session.wait_for_quiet(0.05)
        session.send(keys)

        assert session.wait_for_end() == 0
        assert result.read_text().startswith("Answered")
        assert_restored(session)


def test_a_resized_window_is_redrawn(result: Path) -> None:
    with rich("text", result) as session:
        session.wait_for("Enter submits")
        session.resize(40, 20)
        session.wait_for("^X editor")
        session.send("\r")

        assert session.wait_for_end() == 0
        assert "value='none'" in result.read_text()


def test_a_window_of_another_width_shows_one_copy_of_the_prompt(result: Path) -> None:
    with rich("boolean", result) as session:
        session.wait_for("all keys")
        session.resize(60, 30)
        session.wait_until(lambda: session.raw.count(b"Apply patch?") > 1, "the prompt, drawn anew")
        session.wait_until(
            lambda: session.rows[-1:] == ["Y yes, N no to every answer of Assistant in this turn"],
            "all of it",
        )

        assert session.text.count("Apply patch?") == 1
        assert session.text.count("I want to change the retry loop") == 1
        session.send("y")
        assert session.wait_for_end() == 0


def test_the_pager_uses_its_own_screen_and_returns_to_the_question(result: Path) -> None:
    with rich("boolean_cut", result) as session:
        session.wait_for_raw(b"view all")
        session.send("v")
        session.wait_for_raw(b"\x1b[?1049h")
        session.wait_for_raw(b"/ search")
        session.send("q")
        session.wait_for_raw(b"\x1b[?1049l")
        session.wait_until(
            lambda: b"Apply all of it?" in session.raw.rpartition(b"\x1b[?1049l")[2],
            "the question again",
        )
        session.send("n")

        assert session.wait_for_end() == 0
        assert "value=False" in result.read_text()
        assert session.raw.count(b"\x1b[?1049h") == session.raw.count(b"\x1b[?1049l")
        assert_restored(session)


def test_a_resumed_job_shows_the_whole_question(result: Path) -> None:
    with PtySession(
        ["/bin/bash", "--norc", "--noprofile", "-i"], environment={**RICH, "PS1": "shell$ "}
    ) as session:
        session.wait_at("shell$ ")
        session.send(f"{sys.executable} {ASK_ONCE} boolean {result}\r")
        session.wait_for("all keys")
        session.send("\x1a")
        session.wait_for("Stopped")
        session.wait_at("shell$ ")
        session.send("fg\r")
        session.wait_until(
            lambda: session.raw.rpartition(b"Stopped")[2].count(b"all keys") == 1, "the keys again"
        )
        session.send("y")
        session.wait_until(lambda: result.exists() and bool(result.read_text()), "reply")

        assert b"retry loop" in session.raw.rpartition(b"Stopped")[2]


@pytest.mark.parametrize(
    "name", ["boolean", "select", "select48", "multi", "schema", "run", "untrusted"]
)
def test_only_the_sixteen_theme_colours_are_used_and_none_if_disabled(
    name: str, result: Path
) -> None:
    with rich(name, result, environment={"NO_COLOR": "1"}) as session:
        session.send("\x03")
        session.wait_for_end()
        assert not COLOUR.search(session.raw)
    with rich(name, result) as session:
        session.send("\x03")
        session.wait_for_end()
        assert not RICH_COLOUR.search(session.raw)


def test_hostile_text_is_escaped(result: Path) -> None:
    """The output contains only the prompt's own escape sequences."""
    with rich("untrusted", result) as session:
        session.wait_for("Enter picks")
        session.send("\x1b")
        session.wait_for("Leave the list?")
        session.press("ss")
        session.wait_for_end()

        for harm in (
            b"\x1b[31mlogs",
            b"\x1b]0;",
            b"\x1b[8m",
            b"\xc2\x9b",
            b"\x1bP",
            "\u202e".encode(),
            "\u200b".encode(),
            b"\x1bc",
        ):
            assert harm not in session.raw


def test_a_secret_never_appears_in_the_output(result: Path) -> None:
    with rich("secret", result) as session:
        session.wait_for("hidden")
        before = len(session.raw)
        session.send("hunter2 🔑\x1b[200~pasted\x1b[201~")
        session.wait_for_quiet(0.1)
        assert b"h" not in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", session.raw[before:])

        session.send("\r")
        session.wait_for_end()
        assert b"unter" not in session.raw
        assert b"paste" not in session.raw
        assert result.read_text(encoding="utf-8").startswith("Answered(value='hunter2 🔑pasted'")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["boolean_default", "select", "multi", "text", "secret", "run"])
def test_two_hundred_keys_typed_ahead_answer_nothing(name: str, seed: int, result: Path) -> None:
    chosen = random.Random(seed)
    ahead = "".join(chosen.choice("yYnNpsbr123 \r\n\tabcxyz") for _ in range(200))
    with ask_once(name, result, case="busy", environment={**RICH, "SETTLE": "0.3"}) as session:
        session.wait_for("busy")
        session.send(ahead.encode())
        release_program(result)
        session.wait_for_raw(OPENED)
        session.wait_for_quiet(0.4)
        assert not result.exists()
        assert any(row in {"│ Assistant", "│ deploy"} for row in session.rows), (
            "the header stands alone in its row"
        )

        session.send("\x03")
        assert session.wait_for_end() == 0
        assert result.read_text() == "EndedTurn()"


def test_keys_typed_while_the_prompt_opens_answer_nothing(result: Path) -> None:
    """Keys faster than three per second do not count."""
    with ask_once(
        "boolean_default", result, environment={**RICH, "SETTLE": "3"}
    ) as session:  # seconds, enough for a busy machine
        session.wait_for_raw(OPENED)
        for key in "yn\ry Y\r":
            session.send(key)
            session.wait_for_quiet(0.02)
        session.wait_for("too soon")
        assert not result.exists()

        session.wait_for_quiet(4)
        session.send("n")
        assert session.wait_for_end() == 0
        assert "value=False" in result.read_text()


def test_a_paste_answers_no_question_and_is_inserted_into_a_text(result: Path) -> None:
    paste = "\x1b[200~y\ry\r\x1b[201~"
    with rich("boolean_default", result) as session:
        session.send(paste)
        session.wait_for("That looked like pasted text; nothing was chosen.")
        session.send("\x03")
        session.wait_for_end()
        assert result.read_text() == "EndedTurn()"
    with rich("text_empty", result) as session:
        session.send(f"{paste}\r")
        session.wait_for_end()
        assert "value='y\\ny\\n'" in result.read_text()


@pytest.mark.parametrize(
    "report", ["\x1b[0n", "\x1b[?2026;2$y", "\x1b[24;80R", "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"]
)
def test_a_late_terminal_report_is_not_an_answer(report: str, result: Path) -> None:
    with rich("boolean_default", result) as session:
        session.send(report)
        session.wait_for_quiet(0.2)
        assert not result.exists()

        session.send("n")
        session.wait_for_end()
        assert "value=False" in result.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_fatal_signal_restores_the_terminal_first(
    name: str, number: signal.Signals, result: Path
) -> None:
    with rich(name, result) as session:
        session.child.kill(number)

        assert session.wait_for_end() == -number
        assert_restored(session)
        assert not result.exists()


@pytest.mark.parametrize("name", EVERY_KIND)
def test_killing_a_child_of_the_host_does_not_affect_the_prompt(name: str, result: Path) -> None:
    """The tool that asked may die while its question is open."""
    with rich(name, result, case="child killed") as session:
        session.wait_until(
            lambda: result.exists() and result.read_text() == "child gone", "the child's end"
        )
        assert session.read_settings() != session.settings

        session.send("\x03\x03" if name == "review" else "\x03")
        assert session.wait_for_end() == 0
        assert result.read_text() == "EndedTurn()"
        assert_restored(session)


def test_cancelling_removes_the_prompt_at_once(result: Path) -> None:
    with rich("select", result, case="cancel") as session:
        release_program(result)
        assert session.wait_for_end() == 0
        assert result.read_text() == "cancelled"
        assert "(the question was closed)" in session.text
        assert "Enter picks" not in session.text
        assert_restored(session)


def test_the_hosts_ctrl_c_handler_is_not_changed(result: Path) -> None:
    with rich("boolean", result, case="host") as session:
        session.child.kill(signal.SIGINT)
        session.wait_until(result.exists, "signal heard")
        assert result.read_text() == "host heard SIGINT"

        session.send("y")
        assert session.wait_for_end() == 0
        assert result.read_text().startswith("Answered(value=True")


@pytest.mark.parametrize("name", ["boolean", "text"])
def test_a_closed_terminal_counts_as_nobody_if_the_program_survives(
    name: str, result: Path
) -> None:
    command = f"trap '' HUP; exec {sys.executable} {ASK_ONCE} {name} {result}"
    with PtySession(["/bin/sh", "-c", command], environment=RICH) as session:
        session.wait_for_raw(OPENED)
        session.hang_up()
        deadline = time.monotonic() + 120
        while not (result.exists() and result.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)

        assert result.read_text() == "gone"


def test_ctrl_z_stops_the_job_and_the_text_is_kept(result: Path) -> None:
    with PtySession(
        ["/bin/bash", "--norc", "--noprofile", "-i"], environment={**RICH, "PS1": "shell$ "}
    ) as session:
        session.wait_at("shell$ ")
        session.send(f"{sys.executable} {ASK_ONCE} text {result}\r")
        session.wait_for("Enter submits")
        session.send(" so far\x1a")
        session.wait_for("Stopped")
        session.wait_at("shell$ ")
        session.send("fg\r")
        session.wait_for_raw(OPENED, count=session.raw.count(OPENED) + 1)
        session.wait_at("none so far")
        session.send("!\r")
        session.wait_until(lambda: result.exists() and bool(result.read_text()), "reply")

        assert "value='none so far!'" in result.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the job is found in /proc")
def test_a_job_stopped_from_outside_continues_with_its_keys(result: Path) -> None:
    with PtySession(
        ["/bin/bash", "--norc", "--noprofile", "-i"], environment={**RICH, "PS1": "shell$ "}
    ) as session:
        session.wait_at("shell$ ")
        session.send(f"{sys.executable} {ASK_ONCE} boolean_default {result}\r")
        session.wait_for("(Enter)")
        asking = session.read_settings()
        os.kill(
            int(Path(f"/proc/{session.child.pid}/task/{session.child.pid}/children").read_text()),
            signal.SIGSTOP,
        )
        session.wait_for("Stopped")
        session.wait_at("shell$ ")
        session.send("fg\r")
        session.wait_until(lambda: session.read_settings() == asking, "keys one by one")
        session.send("n")
        session.wait_until(lambda: result.exists() and bool(result.read_text()), "reply")

        assert "value=False" in result.read_text()


EDITORS = {
    "writes": (
        "import os, sys; assert all(map(os.isatty, (0, 1, 2))); open(sys.argv[1], 'a').write('and"
        " more')"
    ),
    "fails": "raise SystemExit(3)",
    "dies": "import os; os.kill(os.getpid(), 9)",
    "leaves the terminal raw": "import tty; tty.setraw(0)",
}


@pytest.mark.parametrize(
    ("editor", "text"),
    [
        ("writes", "none\\nand more"),
        ("fails", "none"),
        ("dies", "none"),
        ("leaves the terminal raw", "none"),
    ],
)
def test_the_editor_runs_on_the_terminal_and_never_submits(
    editor: str, text: str, result: Path, tmp_path: Path
) -> None:
    script = tmp_path / "editor.py"
    script.write_text(EDITORS[editor])
    command = f"{sys.executable} {ASK_ONCE} text {result} < /dev/null > /dev/null 2>&1"
    with PtySession(
        ["/bin/sh", "-c", command], environment={**RICH, "VISUAL": f"{sys.executable} {script}"}
    ) as session:
        session.wait_for_raw(OPENED)
        session.send("\x18")
        session.wait_for_raw(OPENED, count=2)
        session.wait_for("Enter submits")
        assert not result.exists()

        session.send("\r")
        assert session.wait_for_end() == 0
        assert f"value='{text}'" in result.read_text()
        assert_restored(session)


@pytest.mark.parametrize(
    ("name", "keys", "comment"),
    [
        ("text", "\x18", "# Assistant asks: Note"),
        ("run", "e\x1bj\x18", "// deploy asks: Run deploy?"),
    ],
)
def test_the_editor_shows_the_question_which_is_not_part_of_the_answer(
    name: str, keys: str, comment: str, result: Path, tmp_path: Path
) -> None:
    script, seen = tmp_path / "editor.py", tmp_path / "seen"
    script.write_text(f"import shutil, sys; shutil.copy(sys.argv[1], {str(seen)!r})")
    with rich(name, result, environment={"EDITOR": f"{sys.executable} {script}"}) as session:
        session.send(keys)
        session.wait_for_raw(OPENED, count=2)
        session.wait_for("Enter submits")
        session.send("\r")

        assert session.wait_for_end() == 0
        assert f"\n\n{comment}" in seen.read_text()
        assert "asks:" not in result.read_text()


def test_ctrl_l_redraws_without_a_message(result: Path) -> None:
    with rich("boolean", result) as session:
        session.wait_for("Y yes, N no to every answer of Assistant in this turn")
        before = session.rows
        session.send("\x0c")
        session.wait_for_raw(b"\x1b[2J")
        session.wait_for("Y yes, N no to every answer of Assistant in this turn")
        session.send("n")
        session.wait_for_end()

        assert session.rows[:-1] == before[:-3]
        assert session.rows[-1] == "Apply patch? no"


def test_ctrl_c_in_the_editor_belongs_to_the_editor(result: Path, tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, pathlib, time\ntry:\n    print('editing', flush=True)\n    time.sleep(30)\n"
        "except KeyboardInterrupt:\n    pathlib.Path(sys.argv[1]).write_text('kept')\n"
    )
    with rich("text", result, environment={"VISUAL": f"{sys.executable} {script}"}) as session:
        session.send("\x18")
        session.wait_for("editing")
        session.send("\x03")
        session.wait_for("kept")
        session.send("\r")

        assert session.wait_for_end() == 0
        assert "value='kept'" in result.read_text()


def test_cancelling_ends_the_editor(result: Path, tmp_path: Path) -> None:
    script, pid = tmp_path / "editor.py", tmp_path / "pid"
    script.write_text(
        f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid()));"
        " print('editing'); time.sleep(60)"
    )
    with rich(
        "text", result, case="cancel", environment={"VISUAL": f"{sys.executable} -u {script}"}
    ) as session:
        session.send("\x18")
        session.wait_for("editing")
        release_program(result)

        assert session.wait_for_end() == 0
        assert result.read_text() == "cancelled"
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
        assert_restored(session)


def test_piped_stdin_never_answers_and_nothing_is_drawn_into_redirected_output(
    result: Path, tmp_path: Path
) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    command = f"echo y | {sys.executable} {ASK_ONCE} boolean_default {result} > {out} 2> {err}"
    with PtySession(["/bin/sh", "-c", command], environment=RICH) as session:
        session.wait_for("Apply patch?")
        session.send("n")

        assert session.wait_for_end() == 0
        assert "value=False" in result.read_text()
        assert out.read_bytes() + err.read_bytes() == b""


def test_a_thread_waits_if_the_selector_rejects_terminals(result: Path) -> None:
    with rich("text", result, case="thread") as session:
        session.send(" so far\r")

        assert session.wait_for_end() == 0
        assert "value='none so far'" in result.read_text()
        assert_restored(session)


def test_the_bell_rings_and_the_title_names_the_asker(result: Path) -> None:
    with rich("select", result, environment={"TERM_PROGRAM": "WezTerm"}) as session:
        session.send("1")
        session.wait_for_end()

        title = b"Assistant: Which environment should the migration run against?"
        assert session.raw.count(b"\x07") == 1
        assert b"\x1b[22;2t\x1b]2;" + title + b"\x1b\\" in session.raw
        assert b"\x1b]9;" + title in session.raw
        assert session.raw.rstrip().rfind(b"\x1b[23;2t") > session.raw.find(title)


def test_held_output_of_the_program_appears_after_the_answer(result: Path) -> None:
    with rich("boolean", result, case="output") as session:
        release_program(result)
        session.wait_until(result.with_name("written").exists, "the program's output")
        session.wait_for_quiet(0.1)
        assert "held" not in session.text

        session.send("y")
        assert session.wait_for_end() == 0
        assert session.text.endswith("Apply patch? yes\nheld: line 1\nheld: line 2")


def test_an_outside_answer_closes_the_prompt(result: Path) -> None:
    with rich("select", result, case="withdrawn") as session:
        release_program(result)
        assert session.wait_for_end() == 0
        assert "The question was answered by ann⟨U+001B⟩." in session.text


def test_the_notification_command_gets_the_question(result: Path, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    environment = {
        "NOTIFY": (
            f"{sys.executable} -c \"import sys; open('{heard}', 'w').write(sys.stdin.read())\""
        )
    }
    with rich("secret", result, environment=environment) as session:
        session.send("hunter2\r")
        session.wait_for_end()
        deadline = time.monotonic() + 120
        while not (heard.exists() and heard.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)

        assert json.loads(heard.read_text())["question"] == {
            "text": "API token?",
            "answer_type": {"type": "secret"},
        }


def test_a_failing_notification_command_is_reported_and_the_question_is_asked(result: Path) -> None:
    with rich("boolean", result, environment={"NOTIFY": "/nowhere/notify"}) as session:
        session.wait_for("notify.command: /nowhere/notify cannot be run")
        session.send("y")

        assert session.wait_for_end() == 0
        assert result.read_text().startswith("Answered(value=True")
