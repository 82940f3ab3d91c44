from __future__ import annotations

from hypothesis import given, strategies as st

from midturn.terminal.prompts.keys import diff_line
from midturn.terminal.prompts.rich.pager import diff_lines
from midturn.terminal.prompts.rich.screen import Row, row_cells, row_text

CHANGE = [
    "--- a/x",
    "+++ b/x",
    "@@ -9,4 +9,4 @@",
    " one",
    "-the quick brown fox",
    "+the quick red fox",
    " two",
    "-three",
    "+completely",
    "@@",
]


def marked(spans: Row) -> list[str]:
    return [span.text for span in spans if span.style in ("inserted", "deleted")]


def drawn(lines: list[str], width: int = 60) -> list[str]:
    return [row_text(row) for line in diff_lines(lines) for row in line.rows(width)]


def test_each_line_of_a_hunk_has_its_line_number() -> None:
    assert drawn(CHANGE) == [
        "--- a/x",
        "+++ b/x",
        "@@ -9,4 +9,4 @@",
        " 9  one",
        "10 -the quick brown fox",
        "10 +the quick red fox",
        "11  two",
        "12 -three",
        "12 +completely",
        "@@",
    ]


def test_changes_within_a_line_are_marked_unless_the_whole_line_differs() -> None:
    assert [marked(line.spans) for line in diff_lines(CHANGE)] == [
        [],
        [],
        [],
        [],
        ["brown"],
        ["red"],
        [],
        [],
        [],
        [],
    ]


def test_a_removed_line_that_looks_like_a_header_is_a_removed_line() -> None:
    lines = diff_lines(["@@ -1,2 +1 @@", "--- gone", " stays", "--- a/other", "+++ b/other"])

    assert [line.spans[0].style for line in lines] == ["hunk", "removed", "", "strong", "strong"]


def test_lines_are_compared_only_if_added_and_removed_counts_match() -> None:
    assert not any(
        marked(line.spans) for line in diff_lines(["@@ -1,2 +1 @@", "-a one", "-a two", "+a three"])
    )


def test_a_wrapped_line_continues_after_its_number_and_narrow_windows_omit_numbers() -> None:
    lines = ["@@ -1 +1 @@", f"-{'x' * 40}"]

    first, second = drawn(lines, 30)[1:]
    assert first.startswith("1 -x")
    assert second.startswith("  ")
    assert max(len(first), len(second)) <= 30
    assert drawn(lines, 20)[1].startswith("-x")


@given(
    st.lists(
        st.text(st.sampled_from("-+ @\\ab\t\u202e1,"), max_size=12) | st.just("@@ -1,2 +3,4 @@"),
        max_size=12,
    ),
    st.integers(10, 60),
)
def test_every_character_is_shown_with_any_line_numbers(lines: list[str], width: int) -> None:
    shown = diff_lines(lines)

    assert ["".join(span.text for span in line.spans) for line in shown] == [
        diff_line(line) for line in lines
    ]
    assert all(row_cells(row) <= width for line in shown for row in line.rows(width))
