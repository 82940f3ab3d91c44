"""Fixtures for the tests of all adapters."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    """An empty store on disk. Reopening it shows the state that another process would see."""
    return FileStore(tmp_path / "conversations")
