"""A text from outside, shown in one line."""

from __future__ import annotations

import pytest

from midturn.terminal.prompts.answer_text import quoted
from midturn.terminal.prompts.keys import one_line


def test_a_tab_and_a_line_break_are_signs_that_no_other_text_is_shown_as() -> None:
    assert one_line("a\tb\nc") == "a⇥b⏎ c"
    assert one_line("a⇥b⏎ c") == "a⟨U+21E5⟩b⟨U+23CE⟩ c"


@pytest.mark.parametrize(
    ("words", "marks"),
    [("calm", '""'), ('say "calm"', "''"), ('it\'s "calm"', "“”"), ('“it\'s "calm"”', '""')],
)
def test_words_stand_in_quotation_marks_that_are_not_in_them(words: str, marks: str) -> None:
    assert quoted(words) == f"{marks[0]}{words}{marks[1]}"
