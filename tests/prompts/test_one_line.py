"""A text from outside, shown in one line."""

from __future__ import annotations

from midturn.prompts.content import one_line


def test_a_tab_and_a_line_break_are_signs_that_no_other_text_is_shown_as() -> None:
    assert one_line("a\tb\nc") == "a⇥b⏎ c"
    assert one_line("a⇥b⏎ c") == "a⟨U+21E5⟩b⟨U+23CE⟩ c"
