from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import CommandLine


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home directory and a workspace."""
    return CommandLine(tmp_path)
