"""Text from outside, shown in one line."""

from __future__ import annotations

import pytest

from midturn.terminal.prompts.answer_text import quoted
from midturn.terminal.prompts.keys import one_line


def test_tabs_and_line_breaks_have_unique_symbols() -> None:
    assert one_line("a\tb\nc") == "a⇥b⏎ c"
    assert one_line("a⇥b⏎ c") == "a⟨U+21E5⟩b⟨U+23CE⟩ c"


@pytest.mark.parametrize(
    ("words", "marks"),
    [("calm", '""'), ('say "calm"', "''"), ('it\'s "calm"', "“”"), ('“it\'s "calm"”', '""')],
)
def test_quoted_text_contains_no_closing_quotation_mark(words: str, marks: str) -> None:
    assert quoted(words) == f"{marks[0]}{words}{marks[1]}"
