from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import CommandLine
from support.tmux import Tmux


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    """Return a server, and end it."""
    server = Tmux(tmp_path_factory.mktemp("t"))
    yield server
    server("kill-server")
