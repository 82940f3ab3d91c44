"""Whole turns as displayed on real terminals, in files and in pipes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from support.golden import assert_golden
from support.shown_turns import ANSWER, RICH, Steps, command, on_a_terminal, shown, streamed

LINK = re.compile(rb"\x1b\]8;;(?:https://[!-~]+)?\x1b\\")
SGR = re.compile(rb"\x1b\[(?:0|1|3|4|1;4|31|32|33|35|36|4;36|90)(?:;\d+)?m")
PLAIN = ({"TERM": "dumb"}, {"TERM": ""}, {"ACCESSIBLE": "1"}, {"NO_COLOR": "1"})
A_TURN: Steps = [
    ["model"],
    ["reasoning", "The user wants the retry loop changed; I should look at the file first."],
    ["text", "I will look at the file."],
    ["answered"],
    [
        "tool",
        "fs_read_file",
        {"path": "src/client.py", "why": "to find the loop that the runbook warns about"},
    ],
    ["tool", "secretive", {}],
    ["result", "fs_read_file", "x", False],
    ["result", "secretive", "x", True],
    ["tool", "deploy", {}],
    ["again", "deploy"],
    [
        "result",
        "deploy",
        "\nno such host: example.com could not be found by anybody, anywhere\ntrace",
        True,
    ],
    ["notice", "acme/large: overloaded. Retrying in 1 s (retry 1 of 4).", 0.2],
    *streamed("**Done**, but not deployed."),
]


@pytest.mark.parametrize("columns", [80, 40, 30])
def test_golden_screens_of_markdown(tmp_path: Path, columns: int) -> None:
    with shown(tmp_path, streamed(ANSWER), size=(columns, 70)) as session:
        assert session.wait_for_end() == 0

        assert_golden(f"words_{columns}", session.framed("Markdown, streamed"))
        assert b"\x1b" not in LINK.sub(b"", SGR.sub(b"", session.raw))


@pytest.mark.parametrize("columns", [80, 40])
def test_golden_output_of_markdown_without_drawing(tmp_path: Path, columns: int) -> None:
    with shown(
        tmp_path, streamed(ANSWER), size=(columns, 70), environment={"TERM": "dumb"}
    ) as session:
        assert session.wait_for_end() == 0

        assert_golden(f"words_plain_{columns}", session.framed("Markdown, in plain mode"))


@pytest.mark.parametrize("columns", [80, 40])
def test_golden_screens_of_a_turn(tmp_path: Path, columns: int) -> None:
    with shown(
        tmp_path, A_TURN, size=(columns, 40), hidden=["secretive"], reasoning=True
    ) as session:
        assert session.wait_for_end() == 0

        assert_golden(f"turn_{columns}", session.framed("a turn: reasoning, tools, a notice"))


@pytest.mark.parametrize("environment", PLAIN)
def test_output_has_no_escapes_if_disabled(tmp_path: Path, environment: dict[str, str]) -> None:
    steps: Steps = [*A_TURN, ["model"], ["sleep", 0.7], *streamed(ANSWER)]
    with shown(tmp_path, steps, environment=environment, reasoning=True) as session:
        assert session.wait_for_end() == 0

        assert b"\x1b" not in session.raw
        assert b"\a" not in session.raw


HOSTILE = (
    "a\x1b[2J\x1b]0;owned\x07 \x1b[8mhidden\x1b[0m \x9b31m \u202egpj.exe [red]x[/red] [/foo]"
    " :smile: [click](http://evil.example/\u202e) [y](http://x/\x1b[31m)"
    " \x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\\n\n│ Apply patch?"
    " [y,n]\n\n```\x1b]0;x\x07\n\x1bc\n```\n"
)


def test_model_text_cannot_control_the_terminal(tmp_path: Path) -> None:
    steps: Steps = [
        *streamed(HOSTILE, 3),
        ["tool", "x\x1b[2J", {"a": HOSTILE}],
        ["result", "x\x1b[2J", f"\x1b]0;owned\x07{HOSTILE}", True],
        ["notice", HOSTILE, 0],
        ["reasoning", HOSTILE],
    ]
    with shown(tmp_path, steps, size=(400, 60), reasoning=True) as session:
        assert session.wait_for_end() == 0

        assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", SGR.sub(b"", session.raw))
        assert not re.search("[\x80-\x9f\u202a-\u202e]", session.raw.decode())
        for visible in (
            "⟨U+001B⟩]0;owned⟨U+0007⟩",
            "[red]x[/red] [/foo] :smile:",
            "click (http://evil.example/%E2%80%AE)",
            "\n │ Apply patch?",
        ):
            assert visible in session.text
        assert session.text.startswith("a⟨U+001B⟩[2J")


def test_a_file_gets_the_exact_text_of_the_model(tmp_path: Path) -> None:
    """Two messages are separated by an empty line. All other output stays on the terminal."""
    out = tmp_path / "out.txt"
    shell = f"{command(tmp_path, [*A_TURN, *streamed(HOSTILE + ANSWER, 5)])} > {out}"
    with on_a_terminal(shell) as session:
        assert session.wait_for_end() == 0

        said = f"I will look at the file.\n\n**Done**, but not deployed.\n\n{HOSTILE}{ANSWER}\n"
        assert out.read_text(encoding="utf-8", errors="strict") == said
        assert "Done" not in session.text
        assert "· deploy failed: no such host" in session.text


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    steps: Steps = [
        *streamed("one\n"),
        ["sleep", 0.3],
        *streamed("two\n" * 20_000, 10_000),
        ["tool", "deploy", {}],
    ]
    with on_a_terminal(
        f"{{ {command(tmp_path, steps)}; echo status $? >&2; }} | head -1", size=(60, 10)
    ) as session:
        session.wait_for_end()

        assert session.rows == ["one", "· deploy", "status 0"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_handled(tmp_path: Path, closed: str) -> None:
    with on_a_terminal(f"{command(tmp_path, A_TURN)} {closed}; echo status $?") as session:
        session.wait_for_end()

        assert session.rows[-1] == "status 0"
        assert "Traceback" not in session.text


def test_all_screen_output_is_held_during_a_prompt(tmp_path: Path) -> None:
    steps: Steps = [
        *streamed("Before."),
        ["ask", "boolean_no_persistence"],
        ["tool", "deploy", {}],
        ["result", "deploy", "", False],
        *streamed("# After\n\nwords"),
        ["sleep", 0.8],
        ["reply"],
    ]
    with shown(tmp_path, steps) as session:
        session.wait_for("Drop the production table?")
        session.wait_for_quiet(1.5)
        assert "deploy" not in session.text
        assert "thinking" not in session.text
        session.send("y")
        assert session.wait_for_end() == 0

        rows = session.rows
        answered = next(
            number
            for number, row in enumerate(rows)
            if row.startswith("Drop the production table?")
        )
        assert rows[0] == "Before."
        assert [row for row in rows[answered + 1 :] if row] == [
            "· deploy",
            "· deploy: ok",
            "After",
            "words",
        ]


def test_held_output_is_bounded_and_the_loss_is_reported(tmp_path: Path) -> None:
    lines: Steps = [["notice", f"line {number}", 0] for number in range(50)]
    steps: Steps = [["ask", "boolean_no_persistence"], *lines, ["sleep", 0.3], ["reply"]]
    with shown(tmp_path, steps, most_held=100) as session:
        session.wait_for("Drop the production table?")
        session.wait_for_quiet(0.6)
        session.send("y")
        session.wait_for_end()

        assert "lines of output were dropped while the question was open" in session.text
        assert session.rows[-1] == "midturn: line 49"


def test_output_to_a_file_is_not_held_during_a_prompt(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    steps: Steps = [
        ["ask", "boolean_no_persistence"],
        *streamed("words"),
        ["tool", "deploy", {}],
        ["reply"],
    ]
    with on_a_terminal(f"{command(tmp_path, steps)} > {out}") as session:
        session.wait_for("Drop the production table?")
        session.wait_until(
            lambda: out.exists() and out.read_text() == "words\n", "words in the file"
        )
        assert "deploy" not in session.text
        session.send("y")
        session.wait_for_end()
        assert session.rows[-1] == "· deploy"


def test_the_status_row_disappears_before_a_prompt(tmp_path: Path) -> None:
    steps: Steps = [
        ["tool", "deploy", {}],
        ["sleep", 1.0],
        ["ask", "boolean_no_persistence"],
        ["reply"],
        ["sleep", 1.0],
    ]
    with shown(tmp_path, steps) as session:
        session.wait_for("Drop the production table?")
        assert re.search(rb"deploy \d s", session.raw)
        assert session.rows[:2] == ["· deploy", "│ Assistant"]
        before = len(session.raw)
        session.send("y")
        session.wait_for_end()

        assert re.search(
            rb"deploy \d s", session.raw[before:]
        )  # it may be drawn and removed between two reads of the screen
        assert not any(re.search(r"deploy \d s", row) for row in session.rows)


def test_a_background_job_has_no_status_row(tmp_path: Path) -> None:
    shell = (
        f"set -m; {command(tmp_path, [['model'], ['sleep', 1.5], *streamed('words')])} & wait; echo"
        " over"
    )
    with on_a_terminal(shell) as session:
        session.wait_for("over")

        assert b"thinking" not in session.raw
        assert "words" in session.text


def test_output_to_another_terminal_is_not_held(tmp_path: Path) -> None:
    """Output to the other terminal is drawn, is not held, and adds no empty line here."""
    ours, theirs = pty.openpty()
    steps: Steps = [
        ["tool", "deploy", {}],
        ["ask", "boolean_no_persistence"],
        *streamed("**words**"),
        ["sleep", 0.5],
        ["reply"],
    ]
    with on_a_terminal(f"{command(tmp_path, steps)} > {os.ttyname(theirs)}") as session:
        session.wait_for("Drop the production table?")
        assert b"\x1b[1mwords\x1b[0m" in os.read(ours, 1_000)
        session.send("y")
        session.wait_for_end()
    os.close(ours)
    os.close(theirs)


def test_without_any_terminal_nothing_is_drawn(tmp_path: Path) -> None:
    shell = command(tmp_path, [*A_TURN, *streamed(ANSWER)], hidden=["secretive"], reasoning=True)
    finished = subprocess.run(
        ["/bin/sh", "-c", shell],
        capture_output=True,
        start_new_session=True,
        check=True,
        env={**os.environ, **RICH, **_PATH},
    )

    assert (
        finished.stdout.decode()
        == f"I will look at the file.\n\n**Done**, but not deployed.\n\n{ANSWER}\n"
    )
    assert finished.stderr.decode().split("\n") == [
        "The user wants the retry loop changed; I should look at the file first.",
        "· fs_read_file src/client.py  why: to find the loop that the runbook warns about",
        "· fs_read_file: ok",
        "· deploy",
        "· deploy failed: no such host: example.com could not be found by anybody, anywhere",
        "midturn: acme/large: overloaded. Retrying in 1 s (retry 1 of 4).",
        "",
    ]


_PATH = {"PYTHONPATH": str(Path(__file__).parents[1])}
