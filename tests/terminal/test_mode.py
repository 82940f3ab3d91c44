"""Selection of rich or plain prompts."""

from __future__ import annotations

import pytest

from midturn.terminal.capabilities import choose_mode


@pytest.mark.parametrize("term", ["", "dumb", "unknown", "emacs"])
def test_terminals_without_drawing_get_plain_prompts(term: str) -> None:
    assert choose_mode("auto", {"TERM": term}) == "plain"


def test_other_terminals_get_rich_prompts() -> None:
    assert choose_mode("auto", {"TERM": "xterm-256color"}) == "rich"
    assert choose_mode("auto", {"TERM": "xterm", "ACCESSIBLE": ""}) == "rich"


def test_a_missing_terminal_type_gets_plain_prompts() -> None:
    assert choose_mode("auto", {}) == "plain"


def test_plain_prompts_can_be_requested_by_the_environment() -> None:
    assert choose_mode("auto", {"TERM": "xterm", "ACCESSIBLE": "1"}) == "plain"


def test_a_setting_overrides_the_environment() -> None:
    assert choose_mode("rich", {"TERM": "dumb"}) == "rich"
    assert choose_mode("plain", {"TERM": "xterm"}) == "plain"
