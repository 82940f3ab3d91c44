"""Fixtures: a store of each kind, and a separate home directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """An empty store of each kind."""
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a home directory that belongs to the test."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("STATE", "DATA", "CONFIG"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
