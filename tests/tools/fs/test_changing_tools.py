from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from midturn.events.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json
from midturn.question.question import Question
from midturn.runtime import tool_runs
from midturn.tools.fs.changing import REJECTED
from midturn.tools.fs.declared import fs_create_file, fs_delete_file, fs_modify_file, fs_move_file
from midturn.tools.function import FunctionTool
from support.repositories import committed
from support.tool_running import ToolEnvironment, tool_run

COUNT = itertools.count()


class Call:
    """One call of a file tool, which can be run again with answers."""

    def __init__(self, tool: FunctionTool[..., object], root: Path, **arguments: Json) -> None:
        self.run_once = replace(
            tool_run(tool, arguments, around=ToolEnvironment(root)),
            idempotency_key=f"c.{next(COUNT)}",
        )
        self.tool = tool

    def run(self, answers: Mapping[str, Json] = {}) -> Outcome:
        """Run it once."""
        return asyncio.run(
            tool_runs.execute(self.tool, replace(self.run_once, answers=answers))
        ).outcome

    def asked(self, answers: Mapping[str, Json] = {}) -> Question[bool]:
        """Run it, and return its only question."""
        outcome = self.run(answers)
        assert isinstance(outcome, NeedsInput), outcome
        (question,) = outcome.form.questions
        assert question.answer_type == BooleanType()
        return question

    def done(self, answers: Mapping[str, Json] = {}) -> str:
        """Run it successfully, and return the result."""
        outcome = self.run(answers)
        assert isinstance(outcome, Success), outcome
        return outcome.content

    def refused(self, answers: Mapping[str, Json] = {}) -> str:
        """Run it, and return the error message."""
        outcome = self.run(answers)
        assert isinstance(outcome, ToolError), outcome
        return outcome.message


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "plan.md").write_text("# Plan\n\nShip it.\n")
    return tmp_path


@pytest.fixture
def repository(root: Path) -> Path:
    return committed(root)


def plan(root: Path) -> str:
    return (root / "docs" / "plan.md").read_text()


def edit(old: str, new: str, **more: Json) -> dict[str, Json]:
    return {"old": old, "new": new, **more}


def modify(root: Path, *edits: dict[str, Json]) -> Call:
    return Call(fs_modify_file, root, path="docs/plan.md", edits=list(edits))


def test_a_change_is_shown_as_a_diff_and_applied_after_approval(root: Path) -> None:
    call = modify(root, edit("Ship it.", "Test it."))
    question = call.asked()

    assert (question.id, question.text, question.default) == (
        "apply_changes",
        "Apply the changes to docs/plan.md?",
        True,
    )
    assert (
        question.context
        == "```diff\n--- a/docs/plan.md\n+++ b/docs/plan.md\n@@ -1,3 +1,3 @@\n # Plan\n \n-Ship"
        " it.\n+Test it.\n```"
    )
    assert plan(root) == "# Plan\n\nShip it.\n"
    assert call.done({"apply_changes": True}) == "docs/plan.md was changed."
    assert plan(root) == "# Plan\n\nTest it.\n"


def test_a_rejected_change_is_not_applied_and_reported_with_the_standard_text(root: Path) -> None:
    call = modify(root, edit("Ship it.", "Test it."))
    call.asked()

    assert call.refused({"apply_changes": False}) == REJECTED
    assert (
        REJECTED
        == "The proposed file changes were reviewed and rejected. Changes were not applied. You may"
        " retry with different changes."
    )
    assert plan(root) == "# Plan\n\nShip it.\n"


def test_an_answer_counts_only_for_the_displayed_diff(root: Path) -> None:
    """If the file changes meanwhile, the question is asked again with the new diff."""
    call = modify(root, edit("Ship it.", "Test it."))
    first = call.asked()
    (root / "docs/plan.md").write_text("# Another plan\n\nShip it.\n")
    second = call.asked({"apply_changes": True})

    assert second.context != first.context
    assert plan(root) == "# Another plan\n\nShip it.\n"
    assert call.done({"apply_changes": True}) == "docs/plan.md was changed."
    assert plan(root) == "# Another plan\n\nTest it.\n"


def test_an_answer_to_another_call_does_not_count(root: Path) -> None:
    modify(root, edit("Ship it.", "Test it.")).asked()

    modify(root, edit("Ship it.", "Test it.")).asked({"apply_changes": True})
    assert plan(root) == "# Plan\n\nShip it.\n"


def test_a_call_asks_again_after_a_restart(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shown content is kept in memory only.

    A recorded answer applies if the question is equal.
    """
    from midturn.tools.fs.changing import LastShown

    call = modify(root, edit("Ship it.", "Test it."))
    before = call.asked()
    monkeypatch.setattr("midturn.tools.fs.changing.SHOWN", LastShown())

    assert call.asked() == before
    assert call.done({"apply_changes": True})


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (
            [edit("nowhere", "x")],
            "/edits/0/old: this text does not occur in the file. Read the file again",
        ),
        ([edit("#  Plan", "x")], "It occurs with other white space at line 1."),
        ([edit("i", "x")], "/edits/0/old: this text occurs 2 times (lines 3, 3)"),
        ([edit("Ship", "Test"), edit("Ship", "Test")], "/edits/1/old: this text does not occur"),
        ([edit("Ship", "Ship")], "The edits leave docs/plan.md as it is."),
        ([edit("", "x")], "/edits/0/old: Expected `str` of length >= 1"),
        ([], "/edits: Expected `array` of length >= 1"),
        ([{"old": "Ship"}], "/edits/0: Object missing required field `new`"),
        (
            [edit("Ship", "x", replace_all=True)],
            "/edits/0: Object contains unknown field `replace_all`",
        ),
    ],
)
def test_impossible_edits_are_errors_without_a_question(
    root: Path, edits: list[dict[str, Json]], said: str
) -> None:
    assert said in modify(root, *edits).refused()


def test_edits_are_applied_in_order_and_to_all_occurrences_if_requested(root: Path) -> None:
    call = modify(root, edit("Ship it.", "Ship it, ship it."), edit("hip it", "kip it", all=True))
    call.asked()
    call.done({"apply_changes": True})

    assert plan(root) == "# Plan\n\nSkip it, skip it.\n"


def test_line_endings_of_a_file_are_kept(root: Path) -> None:
    """A model that reads CRLF lines writes its edits with LF."""
    (root / "docs/plan.md").write_bytes(b"# Plan\r\n\r\nShip it.\r\n")
    call = modify(root, edit("# Plan\n\nShip", "# Plan\n\nNow\nship"))
    call.asked()
    call.done({"apply_changes": True})

    assert (root / "docs/plan.md").read_bytes() == b"# Plan\r\n\r\nNow\r\nship it.\r\n"


def test_the_encoding_of_a_file_is_kept(root: Path) -> None:
    (root / "docs/plan.md").write_bytes("# Plan\r\n\r\nShip it.\r\n".encode("utf-16"))
    call = modify(root, edit("Ship it.", "Später."))
    call.asked()
    call.done({"apply_changes": True})

    assert (root / "docs/plan.md").read_bytes() == "# Plan\r\n\r\nSpäter.\r\n".encode("utf-16")


def test_a_too_long_diff_is_shortened_saved_in_full_and_still_checked(root: Path) -> None:
    (root / ".midturn").mkdir()
    lines = [f"line {n} of a long file" for n in range(2_000)]
    (root / "docs/plan.md").write_text("\n".join(lines) + "\n")
    call = modify(root, *(edit(line + "\n", line.upper() + "\n") for line in lines))
    context = call.asked().context or ""
    (kept,) = (root / ".midturn/output").iterdir()

    assert len(context.encode()) <= 16 * 1024
    assert f"the whole diff is in .midturn/output/{kept.name}" in context
    assert "more lines are not shown here" in context
    assert kept.read_text().count("\n+LINE") == 2_000
    lines[-1] += "!"
    (root / "docs/plan.md").write_text("\n".join(lines) + "\n")
    later = Call(
        fs_modify_file,
        root,
        path="docs/plan.md",
        edits=[edit(line + "\n", line.upper() + "\n") for line in lines],
    )
    assert later.asked().context != context


def test_a_fence_in_the_file_does_not_end_the_diff(root: Path) -> None:
    (root / "docs/plan.md").write_text("````\ncode\n````\n")
    context = modify(root, edit("code", "```\nmore")).asked().context or ""

    assert context.startswith("`````diff\n")
    assert context.endswith("\n`````")


def test_invisible_changes_are_counted(root: Path) -> None:
    context = modify(root, edit("Ship", "Sh\u200bip\u202e")).asked().context or ""

    assert context.endswith("What is added contains 2 invisible characters.")


def test_unmodifiable_files_are_errors(root: Path) -> None:
    (root / "image").write_bytes(b"\0\1")
    (root / "link").symlink_to("docs/plan.md")

    def said(path: str) -> str:
        return Call(fs_modify_file, root, path=path, edits=[edit("a", "b")]).refused()

    assert "image is not text" in said("image")
    assert "link is a symbolic link" in said("link")
    assert "There is no nope" in said("nope")
    assert "docs is a folder" in said("docs")
    assert "outside of the workspace" in said("/etc/passwd")
    assert ".midturn/config.toml belongs to midturn" in said(".midturn/config.toml")


def test_a_file_is_created_with_its_directories(root: Path) -> None:
    call = Call(fs_create_file, root, path="src/new/a.py", content="x = 1\n")

    assert call.done() == "src/new/a.py was created."
    assert (root / "src/new/a.py").read_text() == "x = 1\n"
    assert call.done() == "src/new/a.py exists and has this content already."


def test_an_existing_file_is_overwritten_only_after_approval(root: Path) -> None:
    call = Call(fs_create_file, root, path="docs/plan.md", content="new\n")
    question = call.asked()

    assert (question.id, question.text) == ("overwrite_file", "Overwrite docs/plan.md?")
    assert "-Ship it.\n+new\n" in (question.context or "")
    assert "was not overwritten" in call.refused({"overwrite_file": False})
    assert plan(root) == "# Plan\n\nShip it.\n"
    assert call.done({"overwrite_file": True}) == "docs/plan.md was overwritten."
    assert plan(root) == "new\n"


def test_an_overwrite_applies_only_to_the_displayed_content(root: Path) -> None:
    call = Call(fs_create_file, root, path="docs/plan.md", content="new\n")
    call.asked()
    (root / "docs/plan.md").write_bytes(b"\0binary")
    context = call.asked({"overwrite_file": True}).context or ""

    assert "-(no text: 7 bytes, SHA-256 " in context
    call.done({"overwrite_file": True})
    assert plan(root) == "new\n"


@pytest.mark.parametrize(
    "path",
    [
        ".midturn/config.toml",
        ".git/hooks/pre-commit",
        "../x",
        "/etc/x",
        ".",
        "a\x1bb",
        "docs",
        "docs/plan.md/x",
    ],
)
def test_forbidden_files_are_not_created(root: Path, path: str) -> None:
    before = sorted(map(str, root.rglob("*")))
    assert Call(fs_create_file, root, path=path, content="x").refused()

    assert sorted(map(str, root.rglob("*"))) == before


def test_a_committed_file_is_deleted_without_a_question(repository: Path) -> None:
    assert (
        Call(fs_delete_file, repository, path="docs/plan.md").done() == "docs/plan.md was deleted."
    )
    assert not (repository / "docs/plan.md").exists()


def test_a_file_outside_of_git_is_deleted_without_a_question(root: Path) -> None:
    assert Call(fs_delete_file, root, path="docs/plan.md").done()


def test_a_file_with_uncommitted_changes_is_deleted_only_after_approval(repository: Path) -> None:
    (repository / "docs/plan.md").write_text("# Plan\n\nMuch work.\n")
    call = Call(fs_delete_file, repository, path="docs/plan.md")
    question = call.asked()

    assert (question.id, question.text) == (
        "confirm",
        "Delete docs/plan.md? Its uncommitted changes would be lost.",
    )
    assert "-Ship it.\n+Much work.\n" in (question.context or "")
    assert "was not deleted" in call.refused({"confirm": False})
    assert (repository / "docs/plan.md").exists()
    (repository / "docs/plan.md").write_text("# Plan\n\nMuch more work.\n")
    assert "+Much more work.\n" in (call.asked({"confirm": True}).context or "")
    assert call.done({"confirm": True}) == "docs/plan.md was deleted."
    assert not (repository / "docs/plan.md").exists()


def test_a_committed_file_is_moved_without_a_question(repository: Path) -> None:
    assert (
        Call(fs_move_file, repository, source="docs/plan.md", destination="new/plan.md").done()
        == "docs/plan.md was moved to new/plan.md."
    )
    assert (repository / "new/plan.md").read_text() == "# Plan\n\nShip it.\n"


def test_a_file_with_uncommitted_changes_is_moved_after_approval(repository: Path) -> None:
    (repository / "draft").write_text("draft\n")
    call = Call(fs_move_file, repository, source="draft", destination="final")

    assert call.asked().text == "Move draft to final? It has uncommitted changes."
    assert "was not moved" in call.refused({"confirm": False})
    assert call.done({"confirm": True})
    assert (repository / "final").read_text() == "draft\n"


def test_a_move_never_replaces_a_file_or_writes_a_control_file(repository: Path) -> None:
    (repository / "other").write_text("x")

    def said(source: str, destination: str) -> str:
        return Call(fs_move_file, repository, source=source, destination=destination).refused()

    assert "other exists" in said("docs/plan.md", "other")
    assert "docs exists" in said("docs/plan.md", "docs")
    assert "belongs to git" in said("docs/plan.md", ".git/hooks/pre-commit")
    assert "belongs to git" in said(".git/config", "config")
    assert "belongs to midturn" in said("docs/plan.md", ".midturn/config.toml")
    assert "There is no nope" in said("nope", "x")
    assert "docs is a folder" in said("docs", "x")
    assert "outside of the workspace" in said("docs/plan.md", "/tmp/x")


def test_two_concurrent_changes_of_a_file_are_both_kept(root: Path) -> None:
    first, second = (
        modify(root, edit("# Plan", "# The plan")),
        modify(root, edit("Ship it.", "Test it.")),
    )
    first.asked()
    second.asked()
    first.done({"apply_changes": True})

    assert " # The plan\n" in (second.asked({"apply_changes": True}).context or "")
    second.done({"apply_changes": True})
    assert plan(root) == "# The plan\n\nTest it.\n"
