from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import CommandLine
from support.tmux import Tmux


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """Return a user's environment with a home directory and a workspace."""
    return CommandLine(tmp_path)


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    """Yield a tmux server, and stop it afterwards."""
    server = Tmux(tmp_path_factory.mktemp("t"))
    yield server
    server("kill-server")
