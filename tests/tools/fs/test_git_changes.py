from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from midturn.tools.fs.beneath import Committed, ignored, uncommitted
from support.repositories import committed, git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "plan.md").write_text("plan\n")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    return committed(tmp_path)


def asked(repository: Path, path: str) -> Committed | None:
    return uncommitted(repository, PurePosixPath(path), (repository / path).read_bytes())


def test_a_committed_file_has_no_uncommitted_changes(repository: Path) -> None:
    assert asked(repository, "docs/plan.md") is None


@pytest.mark.parametrize("staged", [False, True])
def test_staged_and_unstaged_changes_are_uncommitted(repository: Path, staged: bool) -> None:  # noqa: FBT001 (drawn)
    (repository / "docs/plan.md").write_text("new plan\n")
    if staged:
        git(repository, "add", "-A")

    assert asked(repository, "docs/plan.md") == Committed(b"plan\n")


@pytest.mark.parametrize("path", ["new.txt", "some.log", "docs/na me\t\u00e9'\".md", "-x"])
def test_an_untracked_file_is_uncommitted(repository: Path, path: str) -> None:
    (repository / path).write_text("new")

    assert asked(repository, path) == Committed(None)


def test_a_file_with_an_unusual_name_can_be_committed(repository: Path) -> None:
    (repository / "docs" / "na:me *\u00e9'\".md").write_text("x")
    committed(repository)

    assert asked(repository, "docs/na:me *\u00e9'\".md") is None


def test_different_line_endings_are_no_change(repository: Path) -> None:
    (repository / "docs/plan.md").write_bytes(b"plan\r\n")

    assert asked(repository, "docs/plan.md") is None


def test_before_the_first_commit_everything_is_uncommitted(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("a")

    assert asked(tmp_path, "a") == Committed(None)


def test_outside_of_git_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("a")

    assert asked(tmp_path, "a") is None
    committed(tmp_path)
    (tmp_path / "a").write_text("b")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asked(tmp_path, "a") is None


def test_an_unreadable_repository_counts_as_changed(repository: Path) -> None:
    (repository / ".git" / "HEAD").write_text("broken")

    assert asked(repository, "docs/plan.md") == Committed(None)


def test_commands_configured_by_a_repository_are_not_run(repository: Path) -> None:
    """A repository that was not cloned has its own configuration.

    Filters, monitors and hooks in it are programs.
    """
    trap = repository / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {repository}/sprung\ncat\n")
    trap.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=trap diff=trap\n")
    for key in (
        "core.fsmonitor",
        "filter.trap.clean",
        "filter.trap.smudge",
        "diff.trap.textconv",
        "core.pager",
        "core.sshCommand",
    ):
        git(repository, "config", key, str(trap))
    git(repository, "config", "core.hooksPath", str(repository))
    (repository / "docs/plan.md").write_text("new plan\n")

    assert asked(repository, "docs/plan.md") == Committed(b"plan\n")
    assert ignored(repository) == frozenset()
    assert not (repository / "sprung").exists()


def test_ignored_files_are_listed_by_directory(repository: Path) -> None:
    (repository / "build" / "deep").mkdir(parents=True)
    (repository / "build" / "deep" / "a").write_text("")
    (repository / "docs" / "x.log").write_text("")

    assert ignored(repository) == {"build/", "docs/x.log"}
    assert ignored(repository / "docs") == {"x.log"}
