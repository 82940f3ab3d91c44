"""Contexts of questions are drawn like answers, and approved text is shown exactly."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings, strategies as st

from midturn.events.prompt import Prompt
from midturn.question.question import Question
from midturn.terminal.markdown.context import context_rows
from midturn.terminal.markdown.layout import UNICODE
from midturn.terminal.prompter import MARKDOWN
from midturn.terminal.prompts.rich.screen import row_cells, row_text
from support.golden import assert_golden
from support.rich_prompt_driver import RichPromptDriver

PLAN = """# Plan

Deploy **eu-1** first, see [the ticket](https://example.com/T-7):

1. drain the queue
2. migrate
   - tables
   - indexes that take a while, about twenty minutes for the large ones, during which nothing can be written

> Nobody may write meanwhile.

| host | state |
|---|---|
| eu-1 | ready |
| us-2 | *busy* |

```python
def retry(times: int = 3) -> None:
    return "twice"  # or so
```

```diff
--- a/plan.md
+++ b/plan.md
@@ -1 +1 @@
-1. Ship.
+1. Ship slowly.
```
first line
second line
"""


@pytest.mark.parametrize("columns", [80, 40])
def test_a_context_is_drawn_like_an_answer(columns: int) -> None:
    prompt = Prompt(
        question=Question.boolean("go", "Go ahead?", context=PLAN), asked_by="Assistant"
    )

    drawn = RichPromptDriver(
        prompt, columns=columns, rows=60, context=partial(context_rows, UNICODE)
    ).drawn("markdown")

    assert_golden(f"rich_{columns}/markdown", drawn)


def test_a_diff_without_a_fence_extends_to_the_end() -> None:
    text = "- one\n- two\n\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-* gone\n+* **come**\n  | a | b |"

    rows = context_rows(UNICODE, text, 60)

    assert [row_text(row) for row in rows][-3:] == ["1 -* gone", "1 +* **come**", "2   | a | b |"]
    assert [row[1].style for row in rows[-3:-1]] == ["removed", "added"]


def test_hidden_characters_in_code_are_shown() -> None:
    rows = context_rows(UNICODE, "```python\nx = '\u202egpj\u200b'\n```", 60)

    assert row_text(rows[0]) == "x = '⟨U+202E⟩gpj⟨U+200B⟩'"


@pytest.mark.parametrize(
    "plain",
    [
        "Two words.\nAnd more.",
        "```diff\n-a\n+b\n```",
        "# Title\n\n**strong** and `code`",
        "",
        "a - b | c",
    ],
)
def test_a_short_text_with_a_diff_needs_no_layout(plain: str) -> None:
    assert MARKDOWN.search(plain) is None


PIECES = st.sampled_from(
    [
        *PLAN.split("\n"),
        "> " * 30 + "deep",
        "- " * 40,
        "x" * 200,
        "日本" * 30,
        "\x1b[31m",
        "|",
        "```",
        "\t",
        "--- a",
        "+++ b",
    ]
)


@settings(deadline=None, max_examples=60)
@given(st.lists(PIECES, max_size=12).map("\n".join), st.sampled_from([7, 20, 78]))
def test_rows_fit_and_contain_no_terminal_commands(text: str, width: int) -> None:
    for row in context_rows(UNICODE, text, width):
        assert row_cells(row) <= width
        assert "\x1b" not in row_text(row)
        assert "\n" not in row_text(row)
