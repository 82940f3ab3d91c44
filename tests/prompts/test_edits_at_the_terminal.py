"""Prompts for file edits show the same diff as the page."""

from __future__ import annotations

from msgspec.structs import replace

from midturn.events.prompt import CallSubject, Prompt
from midturn.events.types import ToolCall
from midturn.question.json_value import Json
from midturn.terminal.prompts.body import argument_lines
from midturn.terminal.prompts.rich.prompt import body
from midturn.terminal.prompts.rich.screen import row_text
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import RUN
from support.rich_prompt_driver import RichPromptDriver

OLD = "".join(f"line {number}\n" for number in range(1, 20))
NEW = OLD.replace("line 10\n", "line ten\n")
EDIT: Json = {"path": "docs/plan.md", "old": OLD, "new": NEW, "why": "Words."}
SHOWN = [
    "why: Words.",
    "docs/plan.md (+1 -1)",
    "@@ 6 unchanged lines @@",
    " line 7",
    " line 8",
    " line 9",
    "-line 10",
    "+line ten",
    " line 11",
    " line 12",
    " line 13",
    "@@ 6 unchanged lines @@",
]


def permission(arguments: Json, name: str = "edit") -> Prompt:
    """Return the permission prompt of a call."""
    return replace(RUN, subject=CallSubject(ToolCall("e1", "c1", name, arguments)), asked_by=name)


def shown(prompt: Prompt, columns: int = 80) -> list[str]:
    """Return the rows that a prompt shows above its question."""
    return [row_text(spans).removeprefix("│ ") for spans in body(prompt, columns)]


def test_an_edit_is_a_diff() -> None:
    assert argument_lines(ToolCall("e1", "c1", "edit", EDIT)) == SHOWN
    assert shown(permission(EDIT)) == SHOWN
    assert [
        line.removeprefix("| ")
        for line in PlainPromptDriver(permission(EDIT)).said
        if line.startswith("| ")
    ][1:] == SHOWN


def test_a_change_is_coloured_and_marked_within_its_lines() -> None:
    rows = {
        row_text(spans).removeprefix("│ "): [span.style for span in spans[1:]]
        for spans in body(permission(EDIT), 80)
    }

    assert rows["-line 10"] == ["removed", "deleted"]
    assert rows["+line ten"] == ["added", "inserted"]
    assert rows["@@ 6 unchanged lines @@"] == ["hunk"]


def test_view_all_shows_the_arguments_as_sent() -> None:
    keys = RichPromptDriver(permission(EDIT), rows=60).press("v")

    text = "\n".join(keys.live)
    assert "The arguments as they are sent:" in text
    assert "│ path: docs/plan.md" in text
    assert text.count("line 19") == 2


def test_a_patch_has_line_numbers() -> None:
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -3,9 +3,9 @@\n one\n-two\n+three\n"

    assert shown(permission({"patch": patch})) == [
        "a.txt (+1 -1, the line counts of its @@ headers are wrong)",
        "@@ 2 unchanged lines @@",
        "3  one",
        "4 -two",
        "4 +three",
    ]


def test_every_character_of_a_change_is_shown() -> None:
    lines = shown(permission({"path": "a\x1b", "old": "x\n", "new": "\ty\u202e \n"}))

    assert lines == ["a⟨U+001B⟩ (+1 -1)", "-x", "+⇥   y⟨U+202E⟩⟨U+0020⟩"]


def test_other_arguments_are_shown_by_name() -> None:
    assert shown(permission({"old": "a", "new": "b"})) == ["old: a", "new: b"]
