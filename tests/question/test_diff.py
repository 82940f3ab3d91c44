from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given, settings, strategies as st

from midturn.question.diff import Change


def test_a_diff_has_the_unified_format() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 13))
    new = old.replace("line 2\n", "line two\n").replace("line 11\n", "")

    assert Change("docs/plan.md", old, new).diff() == (
        "--- a/docs/plan.md\n+++ b/docs/plan.md\n"
        "@@ -1,5 +1,5 @@\n line 1\n-line 2\n+line two\n line 3\n line 4\n line 5\n"
        "@@ -8,5 +8,4 @@\n line 8\n line 9\n line 10\n-line 11\n line 12\n"
    )


def test_new_and_deleted_files_are_compared_with_nothing() -> None:
    assert (
        Change("a", None, "x\ny").diff()
        == "--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n"
    )
    assert Change("a", "x\n", None).diff() == "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def test_equal_files_have_no_diff() -> None:
    assert Change("a", "x\n", "x\n").diff() == ""
    assert Change("a", None, "").diff() == ""


def test_a_changed_line_ending_is_shown() -> None:
    assert Change("a", "x\n", "x\r\n").diff().endswith("-x\n+x\r\n")
    assert Change("a", "x\n", "x").diff().endswith("-x\n+x\n\\ No newline at end of file\n")


def test_invisible_characters_in_added_lines_are_counted() -> None:
    assert Change("a", "a\u202e\n", "a\u202e\nb\u200b\u2066c\x1b[0m\td\r\n").hidden() == 4
    assert Change("a", "x\n", "plain é 漢字 ⟨\n").hidden() == 0
    assert Change("a", "x\n", "\ufe0f\u3164\u2800\u00a0\n").hidden() == 4


def test_new_kinds_of_line_endings_are_counted() -> None:
    assert Change("a", "x\ny\n", "x\r\ny\r\n").hidden() == 2
    assert Change("a", "x\r\n", "x\r\ny\r\n").hidden() == 0


def test_a_diff_of_every_second_line_contains_only_those() -> None:
    lines = [f"line {number}\n" for number in range(6_000)]
    diff = Change(
        "a",
        "".join(lines),
        "".join(line.upper() if place % 2 else line for place, line in enumerate(lines)),
    ).diff()
    assert (diff.count("\n-"), diff.count("\n+")) == (3_000, 3_001)  # including the file header


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12)
)
def test_the_diff_is_minimal(old: list[str], new: list[str]) -> None:
    diff = Change(
        "a", "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    ).diff()
    kept = [
        [0] * (len(new) + 1) for _ in range(len(old) + 1)
    ]  # textbook algorithm for the longest common subsequence
    for at, line in enumerate(old):
        for there, other in enumerate(new):
            kept[at + 1][there + 1] = (
                kept[at][there] + 1
                if line == other
                else max(kept[at][there + 1], kept[at + 1][there])
            )
    assert sum(line.startswith("-") for line in diff.split("\n")[2:]) == len(old) - kept[-1][-1]


TEXTS = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "\n", "\u2028\n", "x\ry\n", "\f\n"]), max_size=40
).map("".join)


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.booleans())
def test_git_can_apply_every_diff(old: str, new: str, cut: bool) -> None:  # noqa: FBT001 (drawn)
    """Applying the diff to the old file gives the new file."""
    new = new.removesuffix("\n") if cut else new
    diff = Change("file", old, new).diff()
    assert (diff == "") == (old == new)
    if diff and old and new:
        assert applied(old, diff) == new


def applied(old: str, diff: str) -> str:
    """Apply a diff by its line numbers, as a patch program does."""
    lines, result, at = split(old), list[str](), 0
    for line in split(diff)[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1][1:].partition(",")[0])
            empty = line.split()[1].endswith(",0")
            target = start if empty else start - 1
            result += lines[at:target]
            at = target
        elif line.startswith("\\"):
            result[-1] = result[-1].removesuffix("\n")
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert lines[at].removesuffix("\n") == line[1:].removesuffix("\n")
            result += [lines[at]] if line.startswith(" ") else []
            at += 1
    return "".join(result + lines[at:])


def split(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")][:-1] + (
        [text.rpartition("\n")[2]] if not text.endswith("\n") and text else []
    )


def test_the_patch_program_of_git_agrees(tmp_path: Path) -> None:
    old = "".join(f"{n}\n" for n in range(200))
    new = old.replace("50\n", "fifty\n", 1).replace("199\n", "end")
    (tmp_path / "file").write_text(old)
    subprocess.run(
        ["git", "apply", "-"],
        cwd=tmp_path,
        input=Change("file", old, new).diff(),
        text=True,
        check=True,
    )

    assert (tmp_path / "file").read_text() == new


def test_a_small_change_in_a_large_file_is_a_small_diff() -> None:
    old = "same\n" * 200_000
    new = "same\n" * 100_000 + "other\n" + "same\n" * 99_999

    assert Change("a", old, new).diff().count("\n") <= 12


def test_a_rewritten_large_file_is_shown_as_one_hunk() -> None:
    """Matching the lines of two long and different texts takes too long."""
    old, new = ("".join(f"{word} {n % 7}\n" for n in range(20_000)) for word in ("old", "new"))

    assert Change("a", old, new).diff().count("@@ -") == 1
