"""Every test of an agent runs over both kinds of store."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.store.file_store import FileStore
from midturn.store.memory_store import MemoryStore
from midturn.store.store import ConversationStore


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """A store of each kind, empty."""
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()
