"""The documents as a site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import ROOT


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Strictly: every link leads somewhere, every page is in the navigation, and every public name has its place in the reference."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)

    assert built.returncode == 0, built.stderr
    assert "TerminalPrompter" in (tmp_path / "reference.html").read_text(encoding="utf-8")
