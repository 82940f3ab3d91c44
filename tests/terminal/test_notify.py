"""Notifications to a person who does not look at the terminal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.terminal.capabilities import TerminalSettings
from midturn.terminal.notify import called_off, calling
from support.prompt_catalogue import HOSTILE, SECRET

ALL = TerminalSettings()
BELL = TerminalSettings(notify=False)
NOTHING = TerminalSettings(bell=False, notify=False)


def test_by_default_only_the_bell_rings() -> None:
    assert calling(SECRET, BELL, {"TERM": "xterm"}) == "\a"
    assert calling(SECRET, NOTHING, {"TERM": "xterm"}) == ""
    assert called_off(NOTHING, {"TERM": "xterm"}) == ""


@pytest.mark.parametrize(
    ("environment", "notification"),
    [
        ({"TERM": "xterm-256color"}, ""),
        (
            {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"},
            "\x1b]9;Assistant: API token?\x1b\\",
        ),
        ({"TERM": "xterm-kitty"}, "\x1b]9;Assistant: API token?\x1b\\"),
        ({"TERM": "foot"}, "\x1b]777;notify;midturn;Assistant: API token?\x1b\\"),
    ],
)
def test_terminal_notifications_use_the_terminals_protocol(
    environment: dict[str, str], notification: str
) -> None:
    assert (
        calling(SECRET, ALL, environment)
        == f"\a\x1b[22;2t\x1b]2;Assistant: API token?\x1b\\{notification}"
    )
    assert called_off(ALL, environment) == "\x1b[23;2t"


def test_a_console_without_title_support_gets_none() -> None:
    assert calling(SECRET, ALL, {"TERM": "linux"}) == "\a"
    assert called_off(ALL, {"TERM": "linux"}) == ""


def test_a_question_cannot_inject_sequences_into_the_title() -> None:
    hostile = replace(
        SECRET, question=replace(SECRET.question, text=f"a;b{HOSTILE}"), asked_by="x\x1b\\\x07"
    )

    called = calling(hostile, TerminalSettings(bell=False), {"TERM": "foot"})

    assert called.count("\x1b") == 5
    assert "\a" not in called
    assert "a,b" in called
