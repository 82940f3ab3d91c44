from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from midturn.tools.fs.searching import Glob
from midturn.tools.returned import Rejected


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("./src/*.py", "src/a.py", True),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**", "a/b", True),
        ("src/**", "src/a/b", True),
        ("src/**", "other/a", False),
        ("**/test/**/*.py", "a/test/b/c.py", True),
        ("**/test/**/*.py", "a/tests/b/c.py", False),
        ("*.{py,md}", "docs/a.md", True),
        ("{src,docs}/*.{py,md}", "docs/a.py", True),
        ("{src,docs}/*.{py,md}", "lib/a.py", False),
        ("a?c", "abc", True),
        ("[ab]", "c", False),
        ("[!ab]", "c", True),
        ("*.PY", "a.py", False),
    ],
)
def test_globs_match_like_in_a_shell(pattern: str, path: str, *, fits: bool) -> None:
    assert Glob(pattern).matches(PurePosixPath(path)) is fits


def test_a_glob_takes_bounded_time() -> None:
    assert not Glob("/".join(["**"] * 30 + ["x"])).matches(PurePosixPath("/".join(["a"] * 200)))
    assert not Glob("*a" * 60 + "b").matches(PurePosixPath("a" * 250))
    with pytest.raises(Rejected, match="more than 64"):
        Glob("{a,b}" * 30)


def test_an_empty_glob_is_an_error() -> None:
    with pytest.raises(Rejected, match="empty"):
        Glob(".")
