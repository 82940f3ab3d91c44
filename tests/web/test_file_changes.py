"""File changes are shown completely where they are approved: file by file, long ones in pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.stores.memory_conversations import MemoryStore
from midturn.terminal.prompts.changes import ROWS, FileChange, change_in, change_of, read_diff
from midturn.tools.fs.changing import modify_file
from midturn.tools.fs.paths import Replacement
from midturn.web.app import application
from midturn.web.app_state import AppState
from midturn.web.conversation_cache import ConversationCache
from midturn.web.request_checks import ProgramAccess
from support.pages import ada, agent_with, browsing, wait_for

DIFF = """--- a/docs/plan.md
+++ b/docs/plan.md
@@ -3,3 +3,3 @@ # Plan
 one
-two
+three
 four
@@ -40 +40,2 @@
 end
+more
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hello
\\ No newline at end of file
"""


def test_diff_is_parsed_by_file_with_line_numbers() -> None:
    plan, new = read_diff(DIFF) or [FileChange("", [])] * 2
    assert (plan.path, plan.added, plan.removed) == ("docs/plan.md", 2, 1)
    assert [(row.kind, row.old, row.new, row.text) for row in plan.rows] == [
        ("gap", 0, 0, "2 unchanged lines · # Plan"),
        ("same", 3, 3, "one"),
        ("del", 4, 0, "two"),
        ("add", 0, 4, "three"),
        ("same", 5, 5, "four"),
        ("gap", 0, 0, "34 unchanged lines"),
        ("same", 40, 40, "end"),
        ("add", 0, 41, "more"),
    ]
    assert (new.path, [row.kind for row in new.rows]) == ("new.txt (new)", ["add", "note"])


@pytest.mark.parametrize(
    "broken",
    [
        DIFF + "and more\n",
        "--- a\n+++ b\n",
        "+++ b\n--- a\n",
        "",
    ],
)
def test_incomplete_diff_is_shown_as_text(broken: str) -> None:
    assert read_diff(broken) is None
    assert change_in(f"```diff\n{broken}```") is None


MISCOUNTED = "the line counts of its @@ headers are wrong"


@pytest.mark.parametrize(
    ("wrong", "notes"),
    [
        (DIFF.replace("@@ -3,3", "@@ -3,4"), [MISCOUNTED, ""]),
        (DIFF.replace("@@ -3,3 +3,3", "@@ -3,1 +3,9"), [MISCOUNTED, ""]),
        (DIFF.replace("+40,2", "+40"), [MISCOUNTED, ""]),
        (DIFF.replace("+1 @@", "+1,7 @@"), ["", MISCOUNTED]),
        (DIFF.replace("-0,0 +1", "-0,0 +1,0"), ["", MISCOUNTED]),
    ],
)
def test_wrong_counts_are_replaced_by_a_count_of_the_lines(wrong: str, notes: list[str]) -> None:
    right, files = read_diff(DIFF) or [], read_diff(wrong) or []

    assert [file.note for file in files] == notes
    assert [
        (file.path, [(row.kind, row.text) for row in file.rows if row.kind != "gap"])
        for file in files
    ] == [
        (file.path, [(row.kind, row.text) for row in file.rows if row.kind != "gap"])
        for file in right
    ]


def test_correct_counts_distinguish_removed_lines_from_headers() -> None:
    (file,) = (
        read_diff("--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n same\n") or []
    )

    assert [(row.kind, row.text) for row in file.rows] == [
        ("del", "-- old"),
        ("add", "++ new"),
        ("same", "same"),
    ]


def test_an_empty_line_in_a_hunk_is_an_unchanged_line() -> None:
    (file,) = read_diff("--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n\n-two\n+three\n") or []

    assert [row.kind for row in file.rows] == ["same", "same", "del", "add"]
    assert file.note == ""


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        ({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True}, {}),
        (
            {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": False},
            {"replace_all": False},
        ),
        ({"path": "a", "old": "x", "new": "y", "why": "because"}, {"why": "because"}),
        ({"path": "a", "edits": [{"old": "x", "new": "y"}], "mode": 3}, {"mode": 3}),
        (
            {"path": "a", "edits": [{"old": "x", "new": "y", "line": 3}]},
            {"edits": [{"old": "x", "new": "y", "line": 3}]},
        ),
        ({"path": "a", "content": "x"}, {}),
        ({"patch": DIFF, "strip": 1}, {"strip": 1}),
    ],
)
def test_other_arguments_of_a_change_are_shown_separately(arguments: Any, rest: Any) -> None:
    change = change_of(arguments)

    assert change is not None
    assert change.rest == rest


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (
            {"path": "a", "edits": [{"old": "x\ny\n", "new": "x\nz\n"}]},
            [("same", "x"), ("del", "y"), ("add", "z")],
        ),
        (
            {"file_path": "a", "old_string": "y", "new_string": "z", "replace_all": True},
            [("del", "y"), ("note", " No newline at end of file")],
        ),
        ({"file_path": "a", "content": "new\n"}, [("add", "new")]),
    ],
)
def test_edits_in_arguments_are_a_change(arguments: Any, rows: list[tuple[str, str]]) -> None:
    found = change_of(arguments)
    assert found
    assert [(row.kind, row.text) for row in found.files[0].rows][: len(rows)] == rows


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        3,
        {},
        {"path": "a"},
        {"path": 3, "content": "x"},
        {"path": "a", "edits": [{"old": "x"}, 3]},
    ],
)
def test_arguments_without_edits_are_not_a_change(arguments: Any) -> None:
    assert change_of(arguments) is None


def test_unchanged_lines_are_folded_but_present() -> None:
    lines = [f"line {number}" for number in range(40)]
    new = [*lines[:20], "another", *lines[21:]]
    found = change_of({"path": "a", "old_string": "\n".join(lines), "new_string": "\n".join(new)})
    assert found
    rows = found.files[0].rows
    assert [
        line
        for row in rows
        for line in (row.folded or ([row.text] if row.kind in ("same", "del") else []))
    ] == lines


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace that is the working directory of the tools in this process."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".midturn").mkdir()
    return tmp_path


def rewriting(store: MemoryStore, old: list[str], new: list[str]) -> mt.OpenQuestion:
    """Have a tool ask for permission to change a file."""

    @mt.tool
    def rewrite(path: str, ctx: mt.ToolContext) -> object:
        """Rewrite a file."""
        return modify_file(ctx, path, [Replacement("\n".join(old), "\n".join(new))])

    return wait_for(agent_with(store, rewrite, arguments={"path": "long.txt"}))


def the_site(store: MemoryStore, root: Path) -> Any:
    port = Port(store)
    return application(
        AppState(
            board=OpenQuestionList(port),
            library=ConversationCache(port),
            access=ProgramAccess(ada),
            root=root,
        ),
        names=None,
    )


def text_of(html: str) -> list[str]:
    """Return the changed lines that a page shows."""
    return re.findall(r'<div class="line (?:add|del)">.*?<code>(.*?)</code>', html)


def test_long_change_is_shown_completely_in_pages(store: MemoryStore, workspace: Path) -> None:
    lines = [f"line {number} of a long file" for number in range(3_000)]
    (workspace / "long.txt").write_text("\n".join(lines) + "\n")
    waiting = rewriting(
        store, lines, [line.upper() if number % 2 else line for number, line in enumerate(lines)]
    )
    assert "not shown here" in str(waiting.question.context)
    seen: list[str] = []
    with browsing(the_site(store, workspace)) as client:
        for number in range(1, 4_500 // ROWS + 1):
            html = client.get(f"/q/{waiting.id}?lines={number}").text
            change = html[html.index('aria-label="The change"') : html.index('<form method="post"')]
            seen += text_of(change)
            assert "not shown here" not in html
        assert client.get(f"/q/{waiting.id}?lines=99").text.count("Next lines") == 0
        assert len(client.get(f"/q/{waiting.id}").content) < 300_000
    assert seen == [part for line in lines[1::2] for part in (line, line.upper())]


def test_altered_change_file_is_not_shown(store: MemoryStore, workspace: Path) -> None:
    lines = [f"line {number} of a long file" for number in range(2_000)]
    (workspace / "long.txt").write_text("\n".join(lines) + "\n")
    waiting = rewriting(store, lines, [line.upper() for line in lines])
    (kept,) = (workspace / ".midturn/output").iterdir()
    kept.write_text(kept.read_text().replace("LINE 3 ", "rm -rf "))
    with browsing(the_site(store, workspace)) as client:
        html = client.get(f"/q/{waiting.id}").text
    assert "rm -rf" not in html
    assert "not shown here" in html
    assert re.search(
        r"<details open>\s*<summary>Tool call: rewrite", html
    )  # contains the complete call


def test_permission_for_an_edit_shows_change_and_exact_call(store: MemoryStore) -> None:
    @mt.tool(run="ask")
    def edit(file_path: str, old_string: str, new_string: str) -> str:
        """Edit."""
        return file_path + old_string + new_string

    arguments = {
        "file_path": "src/a.py",
        "old_string": "a\nb\nc\u202e\n",
        "new_string": "a\nB\nc\u202e\n",
    }
    waiting = wait_for(agent_with(store, edit, arguments=arguments))
    port = Port(store)
    app = application(
        AppState(
            board=OpenQuestionList(port), library=ConversationCache(port), access=ProgramAccess(ada)
        ),
        names=None,
    )
    with browsing(app) as client:
        html = client.get(f"/q/{waiting.id}").text
    assert text_of(html) == ["b", "B"]
    assert "⟨U+202E⟩" in html
    assert "Raw arguments" in html
