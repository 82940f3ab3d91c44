"""Which look a prompt has."""

from __future__ import annotations

import pytest

from midturn.terminal.capabilities import choose_mode


@pytest.mark.parametrize("term", ["", "dumb", "unknown", "emacs"])
def test_terminals_that_draw_nothing_get_plain_lines(term: str) -> None:
    assert choose_mode("auto", {"TERM": term}) == "plain"


def test_every_other_terminal_is_rich() -> None:
    assert choose_mode("auto", {"TERM": "xterm-256color"}) == "rich"
    assert choose_mode("auto", {"TERM": "xterm", "ACCESSIBLE": ""}) == "rich"


def test_no_terminal_type_at_all_is_plain() -> None:
    assert choose_mode("auto", {}) == "plain"


def test_people_who_ask_for_it_get_plain_lines_anywhere() -> None:
    assert choose_mode("auto", {"TERM": "xterm", "ACCESSIBLE": "1"}) == "plain"


def test_a_setting_wins_over_the_environment() -> None:
    assert choose_mode("rich", {"TERM": "dumb"}) == "rich"
    assert choose_mode("plain", {"TERM": "xterm"}) == "plain"
