from __future__ import annotations

import os
import tracemalloc
from base64 import b64decode
from pathlib import Path

import pytest

from midturn.events.outcome import Success, ToolError
from midturn.question.json_value import Json
from midturn.tools.fs.declared import fs_grep_files, fs_list_files, fs_modify_file, fs_read_file
from midturn.tools.function import FunctionTool
from support.repositories import committed
from support.tool_running import ToolEnvironment, execute


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / ".midturn").mkdir()
    (tmp_path / "docs" / "plan.md").write_text("one\ntwo\nthree\nfour\nfive\n")
    (tmp_path / "docs" / "deep" / "a.py").write_text("def two():\n    pass\n")
    (tmp_path / "b.py").write_text("x = 2\n")
    (tmp_path / ".midturn" / "config.toml").write_text("two\n")
    return tmp_path


def output(tool: FunctionTool[..., object], root: Path, **arguments: Json) -> str:
    outcome = execute(tool, arguments, around=ToolEnvironment(root))
    assert isinstance(outcome, Success), outcome
    return outcome.content


def refused(tool: FunctionTool[..., object], root: Path, **arguments: Json) -> str:
    outcome = execute(tool, arguments, around=ToolEnvironment(root))
    assert isinstance(outcome, ToolError), outcome
    return outcome.message


def test_files_are_listed_one_path_a_line(root: Path) -> None:
    assert output(fs_list_files, root) == "b.py\ndocs/plan.md\ndocs/deep/a.py"
    assert output(fs_list_files, root, path="docs") == "docs/plan.md\ndocs/deep/a.py"
    assert output(fs_list_files, root, glob="*.py") == "b.py\ndocs/deep/a.py"
    assert output(fs_list_files, root, path="docs", glob="deep/*") == "docs/deep/a.py"
    assert output(fs_list_files, root, max_depth=1) == "b.py\ndocs/"
    assert output(fs_list_files, root, max_depth=2) == "b.py\ndocs/plan.md\ndocs/deep/"
    assert output(fs_list_files, root, glob="*.rs") == "(no files)"


def test_ignored_files_are_listed_only_on_request(root: Path) -> None:
    (root / ".gitignore").write_text("build/\n*.log\n")
    committed(root)
    (root / "build").mkdir()
    (root / "build" / "out.py").write_text("two")
    (root / "docs" / "x.log").write_text("two")

    assert output(fs_list_files, root) == ".gitignore\nb.py\ndocs/plan.md\ndocs/deep/a.py"
    assert output(fs_list_files, root, path="build") == "build/out.py"
    assert "build" not in output(fs_grep_files, root, pattern="two")


def test_a_long_list_is_shortened_with_a_notice(root: Path) -> None:
    for n in range(1_200):
        (root / f"f{n:04}").touch()
    lines = output(fs_list_files, root).splitlines()

    assert len(lines) == 1_001
    assert "more than 1000" in lines[-1]


def test_file_names_cannot_forge_lines(root: Path) -> None:
    (root / "a\nb.py").touch()
    (root / os.fsdecode(b"\xff.bin")).touch()

    assert len(output(fs_list_files, root).splitlines()) == 5
    assert "a\u27e8U+000A\u27e9b.py" in output(fs_list_files, root)


def test_links_are_listed_and_not_entered(root: Path) -> None:
    (root / "loop").symlink_to(".")
    (root / "out").symlink_to("/etc")

    assert output(fs_list_files, root).splitlines() == [
        "b.py",
        "loop",
        "out",
        "docs/plan.md",
        "docs/deep/a.py",
    ]


def test_a_file_is_read_in_full_or_by_lines(root: Path) -> None:
    assert output(fs_read_file, root, path="docs/plan.md") == "one\ntwo\nthree\nfour\nfive"
    assert output(fs_read_file, root, path=str(root / "b.py")) == "x = 2"
    assert output(fs_read_file, root, path="docs/plan.md", start_line=2, end_line=3) == "two\nthree"
    assert output(fs_read_file, root, path="docs/plan.md", start_line=4) == "four\nfive"
    assert (
        output(fs_read_file, root, path="docs/plan.md", end_line=99)
        == "one\ntwo\nthree\nfour\nfive"
    )


def test_a_range_beyond_the_file_is_an_error_with_the_file_length(root: Path) -> None:
    assert "docs/plan.md has 5 lines" in refused(
        fs_read_file, root, path="docs/plan.md", start_line=6
    )
    assert "has 5 lines" in refused(
        fs_read_file, root, path="docs/plan.md", start_line=3, end_line=2
    )
    assert "/start_line" in refused(fs_read_file, root, path="docs/plan.md", start_line=0)


def test_a_long_file_is_read_in_pieces(root: Path) -> None:
    (root / "long").write_text("".join(f"{n} {'x' * 90}\n" for n in range(1, 5_001)))
    first = output(fs_read_file, root, path="long").splitlines()
    go_on = int(first[-1].rpartition("`start_line` ")[2].rstrip(")"))

    assert len(first) == go_on
    assert output(fs_read_file, root, path="long", start_line=go_on).startswith(f"{go_on} x")


def test_a_too_long_line_is_cut(root: Path) -> None:
    (root / "line").write_text("x" * 1_000_000)
    content = output(fs_read_file, root, path="line")

    assert len(content) < 210_000
    assert "1000000 characters" in content


def test_a_binary_file_is_reported(root: Path) -> None:
    (root / "image").write_bytes(b"\x89PNG\0\0")
    (root / "latin").write_bytes(b"caf\xe9")
    (root / "empty").touch()

    assert "image is not text in UTF-8, nor in UTF-16 with a byte order mark (6 bytes)" in refused(
        fs_read_file, root, path="image"
    )
    assert "latin is not text" in refused(fs_read_file, root, path="latin")
    assert output(fs_read_file, root, path="empty") == "(empty is empty)"


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "", "a\0b", "docs/../../x", "nope", "docs", "\ud800"]
)
@pytest.mark.parametrize("tool", [fs_read_file, fs_list_files])
def test_an_invalid_path_is_an_error_for_the_model(
    root: Path, tool: FunctionTool[..., object], path: str
) -> None:
    if (tool, path) != (fs_list_files, "docs"):
        assert refused(tool, root, path=path)


def test_a_named_file_that_cannot_be_searched_is_an_error(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "twin.py").hardlink_to(root / "b.py")
    (root / "out").symlink_to("/etc/hostname")

    assert "not a file" in refused(fs_grep_files, root, pattern="two", path="pipe")
    assert "hard link" in refused(fs_grep_files, root, pattern="x", path="twin.py")
    assert "out of the workspace" in refused(fs_grep_files, root, pattern=".", path="out")
    assert (
        output(fs_grep_files, root, pattern="x = 2") == "(no matches)"
    )  # within a folder, the file is skipped


def test_matches_have_the_format_of_grep(root: Path) -> None:
    assert (
        output(fs_grep_files, root, pattern="t(wo|hree)")
        == "docs/plan.md:2:two\ndocs/plan.md:3:three\ndocs/deep/a.py:1:def two():"
    )
    assert (
        output(fs_grep_files, root, pattern="(?i)TWO", glob="*.py") == "docs/deep/a.py:1:def two():"
    )
    assert output(fs_grep_files, root, pattern="two", path="docs/plan.md") == "docs/plan.md:2:two"
    assert output(fs_grep_files, root, pattern="zwei") == "(no matches)"


def test_context_lines_are_shown_once(root: Path) -> None:
    assert (
        output(fs_grep_files, root, pattern="one|three", path="docs/plan.md", context=1)
        == "docs/plan.md:1:one\ndocs/plan.md-2-two\ndocs/plan.md:3:three\ndocs/plan.md-4-four"
    )
    assert (
        output(fs_grep_files, root, pattern="one|five", path="docs/plan.md", context=1)
        == "docs/plan.md:1:one\ndocs/plan.md-2-two\n--\ndocs/plan.md-4-four\ndocs/plan.md:5:five"
    )


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*=", "(a*)*b", "(x+x+)+y"]
)
def test_a_pattern_takes_bounded_time(root: Path, pattern: str) -> None:
    (root / "trap").write_text("a" * 100_000 + "!\n" + "x" * 100_000 + "\n")

    assert output(fs_grep_files, root, pattern=pattern, path="trap")


@pytest.mark.parametrize("pattern", ["(", "[", "(?=a)b", "(a)\\1", "a{100000000}", "", "x" * 2_000])
def test_an_invalid_pattern_is_an_error_with_advice(root: Path, pattern: str) -> None:
    assert "`pattern`" in refused(fs_grep_files, root, pattern=pattern)


def test_too_many_matches_are_cut(root: Path) -> None:
    (root / "many").write_text("match\n" * 5_000)
    (root / "wide").write_text("match" + "x" * 10_000 + "\n")
    many = output(fs_grep_files, root, pattern="match", path="many").splitlines()

    assert len(many) == 1_001
    assert "there is more" in many[-1]
    assert len(output(fs_grep_files, root, pattern="match", path="wide")) < 600


def test_unsearchable_files_are_skipped(root: Path) -> None:
    (root / "binary").write_bytes(b"two\0")
    os.mkfifo(root / "pipe")
    (root / "huge").touch()
    os.truncate(root / "huge", 64 * 1024 * 1024)

    found = output(fs_grep_files, root, pattern="two", glob="{binary,pipe,huge,b.py}")
    assert found == "(no matches)\n(not searched, larger than 32 MiB: huge)"
    assert "There is no nope" in refused(fs_grep_files, root, pattern="two", path="nope")


def sparse(file: Path, head: bytes, size: int) -> None:
    """Write a sparse file that begins with `head`."""
    with file.open("wb") as writing:
        writing.write(head)
        writing.truncate(size)


def test_a_gigabyte_file_is_read_in_pieces(root: Path) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(1, 100_001))
    sparse(root / "big.log", lines, 2**30)
    tracemalloc.start()

    assert (
        output(fs_read_file, root, path="big.log", start_line=50_000, end_line=50_001)
        == "line 50000\nline 50001"
    )
    beginning = output(fs_read_file, root, path="big.log")
    searched = output(fs_grep_files, root, pattern="two")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert beginning.startswith("line 1\nline 2\n")
    assert "of a file of 1,073,741,824 bytes; go on with `start_line`" in beginning.splitlines()[-1]
    assert searched.splitlines()[-1] == "(not searched, larger than 32 MiB: big.log)"
    assert "larger than 32 MiB" in refused(
        fs_modify_file, root, path="big.log", edits=[{"old": "line 1\n", "new": "x"}]
    )
    assert most < 100 * 2**20


def test_an_endless_line_is_cut(root: Path) -> None:
    (root / "one.json").write_bytes(b"[" + b"1," * (17 * 2**20) + b"1]\nend\n")

    read = output(fs_read_file, root, path="one.json")

    assert read.endswith("\nend")
    assert "bytes more in this line)" in read
    assert len(read) < 100 * 1024


def test_utf16_text_with_a_bom_is_read_and_written_unchanged(root: Path) -> None:
    (root / "windows.txt").write_bytes("eins\r\nzwei\r\n".encode("utf-16"))
    (root / "latin.txt").write_bytes("Grüße\n".encode("latin-1"))

    assert output(fs_read_file, root, path="windows.txt", start_line=2) == "zwei\r"
    assert "latin.txt is not text in UTF-8, nor in UTF-16 with a byte order mark" in refused(
        fs_read_file, root, path="latin.txt"
    )


PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_a_picture_is_returned(root: Path) -> None:
    (root / "dot.png").write_bytes(PNG)

    outcome = execute(fs_read_file, {"path": "dot.png"}, around=ToolEnvironment(root))

    assert isinstance(outcome, Success), outcome
    assert outcome.content == f"[dot.png: image/png, {len(PNG)} bytes]"
    assert [(image.media_type, b64decode(image.data)) for image in outcome.images] == [
        ("image/png", PNG)
    ]


def test_a_too_large_picture_is_reported(root: Path) -> None:
    (root / "photo.jpg").write_bytes(b"\xff\xd8\xff" + bytes(4 * 2**20))

    assert "photo.jpg is a picture (image/jpeg) of 4,194,307 bytes" in refused(
        fs_read_file, root, path="photo.jpg"
    )
