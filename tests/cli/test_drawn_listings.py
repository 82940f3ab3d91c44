"""Listings and transcripts draw a question's context as its prompt does.

Plain lines and pipes show it as it was written.
"""

from __future__ import annotations

import pytest

from support.cli import CommandLine, asks, calls

CONTEXT = """# Plan

- one
- ~~two~~

| a | b |
|---|---|
| 1 | 2 |

```diff
--- a/x
+++ b/x
@@ -1,3 +1,3 @@
 a
-the quick brown fox
+the quick red fox
 b
```"""
EVIL = "**\x1b]0;gone\x07** \u202e[x](https://example.org/\x1b[2J)"
HIDING = "**x** \u202e[y](https://example.org/\u202e)"


@pytest.fixture
def waiting(midturn: CommandLine) -> CommandLine:
    midturn.asker()
    model = midturn.script(
        {"text": "It is **ready**.", **calls("deploy", ask=asks(context=CONTEXT))}
    )
    assert midturn.run("query", "-m", model, "--defer", "Go").status == 3
    return midturn


@pytest.mark.parametrize("columns", [80, 40])
def test_inbox_draws_the_context_of_questions(waiting: CommandLine, columns: int) -> None:
    with waiting.on_a_terminal("inbox", plain=False, size=(columns, 40)) as session:
        assert session.wait_for_end() == 0

    rows = [row.strip() for row in session.rows]
    assert "│ Plan" in rows
    assert "│ • one" in rows
    assert "│ a  b" in rows
    assert "~~" not in session.text
    assert b"\x1b[9mtwo" in session.raw
    assert "to see all: `midturn answer ID`" in " ".join(rows)


def test_answer_and_transcript_show_the_diff_with_line_numbers(waiting: CommandLine) -> None:
    question = waiting.ok("inbox", "--json").json[0]["id"]
    for command in (("answer", question, "y"), ("conversation", "show")):
        with waiting.on_a_terminal(*command, plain=False) as session:
            assert session.wait_for_end() == 0
        assert "2 -the quick brown fox" in session.text
        assert b"\x1b[1;4;31mbrown" in session.raw
    assert b"\x1b[1mready" in session.raw


@pytest.mark.parametrize(
    "environment", [{"plain": True}, {"plain": False, "MIDTURN_CFG_PROMPT__MODE": "plain"}]
)
def test_plain_lines_and_pipes_show_the_raw_context(
    waiting: CommandLine, environment: dict[str, object]
) -> None:
    with waiting.on_a_terminal("conversation", "show", **environment) as session:  # type: ignore[arg-type]
        assert session.wait_for_end() == 0

    assert "- ~~two~~" in session.text
    assert b"\x1b" not in session.raw
    assert "- ~~two~~" in waiting.ok("conversation", "show").stdout


def test_context_cannot_control_the_terminal(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script({"text": EVIL, **calls("deploy", ask=asks(context=HIDING))})
    assert midturn.run("query", "-m", model, "--defer", "Go").status == 3

    for command in (("inbox",), ("conversation", "show")):
        with midturn.on_a_terminal(*command, plain=False) as session:
            assert session.wait_for_end() == 0
        assert not [
            bad for bad in (b"\x1b]0", b"\x07", b"\x1b[2J", "\u202e".encode()) if bad in session.raw
        ]


def test_context_is_drawn_without_colours(waiting: CommandLine) -> None:
    with waiting.on_a_terminal("inbox", plain=False, NO_COLOR="1") as session:
        assert session.wait_for_end() == 0

    assert "│ • one" in session.text
    assert b"\x1b[3" not in session.raw
