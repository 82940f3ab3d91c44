"""Installations of pinned packages."""

import re

import pytest
from tests.support.documents import ROOT

INSTALLERS = ["Makefile", "tools/task", "tools/try_oldest_frameworks", "tools/try_pythons"]


@pytest.mark.parametrize("name", INSTALLERS)
def test_pinned_packages_are_installed_without_resolving(name: str) -> None:
    """Otherwise pip may look up the newest version of a package that is pinned with an extra."""
    lines = (ROOT / name).read_text().splitlines()
    installs = [line for line in lines if re.search(r"pip install .*--require-hashes", line)]
    assert installs
    assert [line for line in installs if "--no-deps" not in line] == []
